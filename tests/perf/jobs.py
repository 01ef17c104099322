"""Jobs of real processes for the measurements in this directory: started member by
member, slowed by signals from outside, and read from their --json lines."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

DATA = "/usr/share/datasets/fashion-mnist"

# A convolutional network, with a thread per worker, where a step is mostly
# computing.
TEXT = f"""
data = {{ train = ("{DATA}/train-images-idx3-ubyte.gz",
                  "{DATA}/train-labels-idx1-ubyte.gz");
         normalize = (0.286, 0.353); }};
model = {{ kind = "cnn"; layers = ("conv 16 5", "pool 2", "conv 32 5", "pool 2",
                                  "dense 128", "dense 10"); }};
train = {{ steps = 1000000; eval_every = "never"; }};
optimizer = {{ kind = "sgd"; lr = 0.001; }};
log = {{ every = 1; }};
"""


def steps_of(record):
    """(seconds since the job began, step) of each line so far."""
    with open(record, encoding="ascii") as lines:
        whole = [line for line in lines if line.endswith("\n")]
    lines = [json.loads(line) for line in whole]
    return [(one["wall_s"], one["step"]) for one in lines
            if "wall_s" in one and "step" in one]


class Interruptions:
    """Stops and continues a process: `plan` yields (begin, end) in seconds from
    now, in order, and each stop that was made is kept in `made`, by the
    monotonic clock."""

    def __init__(self, pid, plan):
        self.pid, self.plan, self.made = pid, plan, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        start = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            for begin, end in self.plan:
                if self.over.wait(max(0, start + begin - time.monotonic())):
                    return
                stopped = time.monotonic()
                os.kill(self.pid, signal.SIGSTOP)
                time.sleep(max(0, start + end - time.monotonic()))
                os.kill(self.pid, signal.SIGCONT)
                self.made.append((stopped, time.monotonic()))

    def end(self):
        self.over.set()
        self.thread.join()


class Job:
    """A job; `settings` are --set assignments over `text`. With a `lab` (netlab.py)
    the coordinator is on its first host, and the others on one each, or all on those
    that `hosts` says, in this order: coordinator, servers, workers."""

    def __init__(self, gradweir, scratch, name, workers, settings, servers=1,
                 text=TEXT, lab=None, hosts=None):
        self.gradweir, self.processes, self.workers = gradweir, [], []
        self.lab, self.hosts = lab, hosts
        self.record = os.path.join(scratch, name + ".json")
        job = os.path.join(scratch, "job")
        with open(job, "w", encoding="ascii") as lines:
            lines.write(text)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.record)
        arguments = ["coordinator", job, "--json", self.record]
        for setting in [f"cluster.workers={workers}",
                        f"cluster.servers={servers}", *settings]:
            arguments += ["--set", setting]
        try:
            coordinator = self.start(arguments, stdout=subprocess.PIPE)
            address = self.address_of(coordinator)
            for _ in range(servers):
                self.start(["server", "--join", address])
            for rank in range(workers):
                self.workers.append(self.start(
                    ["worker", "--join", address, "--rank", str(rank)]))
        except BaseException:
            self.close()
            raise

    def start(self, arguments, stdout=subprocess.DEVNULL):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("OPENBLAS_")}
        command = [self.gradweir] + arguments
        if self.lab:
            host = len(self.processes)
            host = self.hosts[host] if self.hosts else host
            command = (self.lab.on(host) + command +
                       ["--set", f"cluster.interface={self.lab.addresses[host]}"])
        process = subprocess.Popen(command, stdout=stdout,
                                   stderr=subprocess.DEVNULL, env=environment,
                                   text=True)
        self.processes.append(process)
        return process

    def address_of(self, coordinator):
        for line in coordinator.stdout:
            if line.startswith("members join at "):
                threading.Thread(target=coordinator.stdout.read,
                                 daemon=True).start()
                return line.split()[3].rstrip(":")
        sys.exit("the coordinator says nothing; try its command by hand")

    def steps(self):
        return steps_of(self.record)

    def wait(self, seconds):
        """Until it has ended, and says what its record says at the end."""
        end = time.monotonic() + seconds
        for process in self.processes:
            if process.wait(max(0, end - time.monotonic())) != 0:
                sys.exit(f"{process.args} failed; try it by hand")
        with open(self.record, encoding="ascii") as lines:
            return json.loads(lines.readlines()[-1])

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def arguments(parser, seconds, warm_up):
    """The options that all measurements have."""
    parser.add_argument("--gradweir", default="build/gradweir")
    parser.add_argument("--seconds", type=float, default=seconds,
                        help="that are measured of each job")
    parser.add_argument("--warm-up", type=float, default=warm_up,
                        help="seconds of each job that are not")
