#!/usr/bin/env python3
"""Workers of one host that push one gradient, on lines of 1 Gbit/s.

    python3 tests/perf/summed.py [--gradweir build/gradweir] [--rounds 3]

A model of 100 MB, one sample for each worker, in network namespaces. First four workers
on one host and two servers on another, with cluster.local_reduction on and off in turns:
the bytes that leave the workers' host in a step, as its interface counts them, and the
time of a step that is not computing. Then two hosts with two workers each, and two
servers on a host each: that time beside the model's bytes over what bare TCP makes of
such a line, once under each congestion control that is asked for and loaded. (Sums are
compared under the first.) The exit code is 1 where sums do not give the same weights,
are not three times as fast as pushes of each worker, or are further than 10 % from the
line.

Needs root, two cores, and a machine with nothing else to do. Where there can be no
namespaces it says so, and measures nothing.
"""
import argparse
import contextlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import jobs
import netlab

LAYERS = (784, 4096, 4096, 1200, 10)
MODEL = 4 * sum(a * b + b for a, b in zip(LAYERS, LAYERS[1:]))  # bytes
WARM_UP, STEPS = 2, 8
TIMES, WITHIN = 3, 0.10
BITS_PER_S = 1e9

TEXT = f"""
data = {{ train = ("{jobs.DATA}/train-images-idx3-ubyte.gz",
                  "{jobs.DATA}/train-labels-idx1-ubyte.gz");
         normalize = (0.286, 0.353); }};
model = {{ kind = "mlp"; layers = ({", ".join(map(str, LAYERS))}); }};
train = {{ batch = 1; steps = {WARM_UP + STEPS + 1}; eval_every = "never"; }};
optimizer = {{ kind = "sgd"; lr = 0.001; }};
log = {{ every = 1; }};
"""


def sent(lab, host):
    """Bytes that have left a host so far."""
    return int(subprocess.run(
        lab.on(host) + ["cat", "/sys/class/net/eth0/statistics/tx_bytes"], check=True,
        text=True, stdout=subprocess.PIPE).stdout)


def sent_a_step(job, lab, host):
    """Bytes of a step, once the first weights are everywhere."""
    marks = []
    while len(marks) < 2 and any(one.poll() is None for one in job.processes):
        with contextlib.suppress(FileNotFoundError, IndexError):
            step = job.steps()[-1][1]
            if step >= (marks[0][0] + STEPS // 2 if marks else WARM_UP):
                marks.append((step, sent(lab, host)))
        time.sleep(0.01)
    if len(marks) < 2:
        sys.exit(f"the job did not last; are there {jobs.DATA} and memory for it?")
    return (marks[1][1] - marks[0][1]) / (marks[1][0] - marks[0][0])


def run(options, scratch, lab, hosts, reduction):
    """Of a job: seconds of a step that are not computing, bytes of a step that leave
    the last host, and what its weights come to."""
    servers, workers = 2, len(hosts) - 3
    with contextlib.closing(jobs.Job(
            options.gradweir, scratch, reduction, workers,
            ["cluster.insecure=true", f"cluster.local_reduction={reduction}"],
            servers=servers, text=TEXT, lab=lab, hosts=hosts)) as job:
        left = sent_a_step(job, lab, hosts[-1])
        final = job.wait(600)
        steps = [one for one in job.steps() if one[1] >= WARM_UP]
    begin, *_, end = steps
    computed = 1e-6 * final["workers"]["compute_us"] / final["workers"]["steps"]
    step = (end[0] - begin[0]) / (end[1] - begin[1])
    return step - computed, left, final["weights_sha256"]


def lab_of(hosts, congestion):
    return contextlib.closing(netlab.Lab(hosts, BITS_PER_S, congestion))


def compare(options, scratch, congestion):
    """Sums beside pushes of each worker."""
    hosts, rows = [0, 0, 0, 1, 1, 1, 1], {"off": [], "on": []}
    with lab_of(2, congestion) as lab:
        for _ in range(options.rounds):
            for reduction, row in rows.items():
                row.append(run(options, scratch, lab, hosts, reduction))
    seconds = {}
    for reduction, row in rows.items():
        seconds[reduction] = statistics.median(one[0] for one in row)
        left = statistics.median(one[1] for one in row)
        print(f"4 workers, sums {reduction:<4} {seconds[reduction]:>8.3f} s "
              f"{left / 1e6:>9.1f} MB a step, {left / MODEL:.3f} of a gradient",
              flush=True)
    same = len({one[2] for row in rows.values() for one in row}) == 1
    times = seconds["off"] / seconds["on"]
    fine = same and times >= TIMES
    print(f"{times:.2f} times as fast, {'the same' if same else 'OTHER'} weights"
          f"{'' if fine else '  MISSED'}", flush=True)
    return fine


def beside_line(options, scratch, congestion):
    """Two hosts of two workers, beside bare TCP."""
    hosts = [0, 1, 2, 3, 3, 4, 4]
    with lab_of(5, congestion) as lab:
        rate, _ = netlab.lines(lab, (1, 2), (3, 4))
        rows = [run(options, scratch, lab, hosts, "on") for _ in range(options.rounds)]
    took, bound = statistics.median(one[0] for one in rows), MODEL / rate
    fine = took <= (1 + WITHIN) * bound
    print(f"2 hosts of 2 workers {took:>8.3f} s under {congestion}, the line "
          f"{bound:.3f} s at {8e-6 * rate:.0f} Mbit/s, {took / bound:.3f} of it"
          f"{'' if fine else '  MISSED'}", flush=True)
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gradweir", default="build/gradweir")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--congestion", default="cubic,reno,bbr", metavar="LIST")
    options = parser.parse_args()
    why = netlab.lacks()
    if why:
        print(f"SKIP: {why}")
        return 0
    asked = options.congestion.split(",")
    controls = [one for one in asked if one in netlab.controls()]
    missing = sorted({*asked} - {*controls})
    if not controls:
        sys.exit(f"this kernel has not loaded {', '.join(missing)}")
    netlab.remove_left()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and clears up
    print(f"# model of {MODEL / 1e6:.1f} MB, lines of {BITS_PER_S / 1e9:.0f} Gbit/s, "
          f"medians of {options.rounds}")
    if missing:
        print(f"# not measured, since not loaded: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as scratch:
        fine = compare(options, scratch, controls[0])
        for control in controls:
            fine = beside_line(options, scratch, control) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
