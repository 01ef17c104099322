#!/usr/bin/env python3
"""Real jobs on slow networks beside what `gradweir plan` says of them.

    python3 tests/perf/planned.py [--gradweir build/gradweir] [--rounds 7]

The example jobs, with two servers and two workers, run in network namespaces with 1
Gbit/s and then with 200 Mbit/s in each direction. In turn with them plan is asked, which
is told the rate and that all share the cores of this machine, and measures the rest.
Printed are the time of a step and the memory of each role, the medians over rounds,
beside the plan's; the exit code is 1 where a step is further from it than 15 %, or memory
than 10 %.

Needs root, two cores, and a machine with nothing else to do. Where there can be no
namespaces it says so, and measures nothing.
"""
import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import jobs
import netlab

STEP_WITHIN, MEMORY_WITHIN = 0.15, 0.10
SERVERS, WORKERS = 2, 2
WARM_UP = 10  # steps
ROLES = ("worker", "server", "coordinator")
# What a line that was idle takes at once: little, beside what a step sends, but an
# offloaded segment, which would be cut up else.
BURST_S, BURST_LEAST = 0.001, 68 << 10
QUIET = 0.05  # of the cores, what others may have
NETWORKS = (("1 Gbit/s", 1e9, 150), ("200 Mbit/s", 2e8, 50))  # and steps
EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples")
NAMES = ("fashion-mlp", "fashion-cnn")


def busy():
    """Seconds of cores so far: all of this machine's, and what children had."""
    with open("/proc/stat", encoding="ascii") as lines:
        user, nice, system = [int(one) for one in lines.readline().split()[1:4]]
    own = os.times()
    return ((user + nice + system) / os.sysconf("SC_CLK_TCK"),
            own.user + own.system + own.children_user + own.children_system)


def others(before):
    """Of the cores, the part that others had since then."""
    (all_s, own_s), seconds = busy(), time.monotonic() - before[1]
    taken = all_s - before[0][0] - (own_s - before[0][1])
    return taken / seconds / os.cpu_count()


def await_quiet(patience_s):
    """Until nobody else computes for two seconds."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        before = busy(), time.monotonic()
        time.sleep(2)
        if others(before) < QUIET:
            return


def peaks(job):
    """Bytes that each role has had in memory, at most, watched until it ends: what
    a process says of itself includes the one that it was started from."""
    most = dict.fromkeys(ROLES, 0)
    roles = ["coordinator"] + SERVERS * ["server"] + WORKERS * ["worker"]
    while any(process.poll() is None for process in job.processes):
        for role, process in zip(roles, job.processes):
            with contextlib.suppress(OSError, StopIteration), open(
                    f"/proc/{process.pid}/status", encoding="ascii") as lines:
                line = next(one for one in lines if one.startswith("VmHWM:"))
                most[role] = max(most[role], int(line.split()[1]) << 10)
        time.sleep(0.02)
    return most


def run(options, scratch, lab, name, steps):
    """Of a job: seconds of a step, and bytes of each role."""
    with open(os.path.join(EXAMPLES, name + ".job"), encoding="ascii") as lines:
        text = lines.read()
    settings = ["cluster.insecure=true", "train.epochs=0", "log.every=1",
                f"train.steps={WARM_UP + steps + 1}"]
    with contextlib.closing(jobs.Job(options.gradweir, scratch, name, WORKERS, settings,
                                     servers=SERVERS, text=text, lab=lab)) as job:
        most = peaks(job)
        job.wait(600)
        timed = [one for one in job.steps() if WARM_UP <= one[1] <= WARM_UP + steps]
    begin, *_, end = timed
    return (end[0] - begin[0]) / (end[1] - begin[1]), most


def ask(options, name, network):
    """The same, of a plan."""
    command = [options.gradweir, "plan", os.path.join(EXAMPLES, name + ".job"),
               "--workers", str(WORKERS), "--servers", str(SERVERS), "--link", network,
               "--cores", str(os.cpu_count()), "--json", "-"]
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("OPENBLAS_")}
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE,
                                     env=environment).stdout)
    return told["step_s"], told["peak_rss_bytes"], told["seconds"]


def compare(options, scratch, lab, name, network, steps):
    """Prints the rows of a job on a network; returns whether all are near enough."""
    told, real, tries = [], [], options.tries
    while len(real) < options.rounds:
        await_quiet(options.patience)
        before = busy(), time.monotonic()
        plan = ask(options, name, network)
        job = run(options, scratch, lab, name, steps)
        if others(before) > QUIET and options.patience > 0 and tries > 0:
            tries -= 1  # somebody came in between
            continue
        told.append(plan)
        real.append(job)
    rows = [("step", "ms", 1e3, STEP_WITHIN, [one[0] for one in told],
             [one[0] for one in real])]
    rows += [(role, "MiB", 2**-20, MEMORY_WITHIN, [one[1][role] for one in told],
              [one[1][role] for one in real]) for role in ROLES]
    met = True
    for what, unit, times, within, planned, measured in rows:
        a, b = statistics.median(planned) * times, statistics.median(measured) * times
        fine = abs(a / b - 1) <= within
        met = met and fine
        note = f"  bound by {told[-1][2]['bound']}" if what == "step" else ""
        print(f"{name:<13}{network:<12}{what:<12}{a:>9.1f}{b:>10.1f}"
              f"{min(measured) * times:>9.1f}{max(measured) * times:>9.1f} {unit:<4}"
              f"{a / b:>8.3f}{note}{'' if fine else '  MISSED'}", flush=True)
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gradweir", default="build/gradweir")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--patience", type=float, default=0,
                        help="seconds to wait for others to be quiet, each time")
    parser.add_argument("--tries", type=int, default=20,
                        help="rounds of a job to throw away because of others")
    parser.add_argument("--congestion", default="reno", help="control of TCP")
    options = parser.parse_args()
    why = netlab.lacks()
    if why:
        print(f"SKIP: {why}")
        return 0
    netlab.remove_left()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and clears up
    print(f"# {options.gradweir}, {os.cpu_count()} cores, {WORKERS} workers, {SERVERS} "
          f"servers, {options.congestion}, medians of {options.rounds} rounds")
    print(f"{'job':<13}{'network':<12}{'what':<12}{'planned':>9}{'measured':>10}"
          f"{'from':>9}{'to':>9} {'':<4}{'ratio':>8}")
    met = True
    for network, bits_per_s, steps in NETWORKS:
        with tempfile.TemporaryDirectory() as scratch, contextlib.closing(
                netlab.Lab(1 + SERVERS + WORKERS, bits_per_s, options.congestion,
                           max(BURST_LEAST, int(bits_per_s / 8 * BURST_S)))) as lab:
            for name in NAMES:
                met &= compare(options, scratch, lab, name, network, steps)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
