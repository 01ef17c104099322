#!/usr/bin/env python3
"""Real jobs on slow networks beside what a simulated study says of them.

    python3 tests/perf/predicted.py [--gradweir build/gradweir] [--rounds 3]

Two servers and two workers, and the coordinator, run in network namespaces with 1
Gbit/s and then with 100 Mbit/s in each direction, one job for each policy. A study is
given what was measured there: the rate and the latency of bare TCP, and how long a
worker computed for a step, as the job's record says. Printed is the time of a step, the
median over rounds, beside the study's; the exit code is 1 where they are further apart
than 15 %.

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

import jobs
import netlab

WITHIN = 0.15
SERVERS, WORKERS = 2, 2
POLICIES = ("sync", "backup:1", "async", "ssp:2", "local:4", "diloco:8")
PERIOD = 8  # steps, of which all rounds of local steps are a part
WARM_UP = 2 * PERIOD
NETWORKS = (("1 Gbit/s", 1e9, 12), ("100 Mbit/s", 1e8, 5))  # and periods

TEXT = f"""
data = {{ train = ("{jobs.DATA}/train-images-idx3-ubyte.gz",
                  "{jobs.DATA}/train-labels-idx1-ubyte.gz");
         normalize = (0.286, 0.353); }};
model = {{ kind = "mlp"; layers = (784, 512, 512, 10); }};
train = {{ eval_every = "never"; }};
optimizer = {{ kind = "sgd"; lr = 0.001; }};
log = {{ every = 1; }};
"""


def settings_of(policy, batch, periods):
    steps = WARM_UP + PERIOD * periods + 1
    return [f"cluster.policy={policy}", f"train.batch={batch}",
            f"train.steps={steps}"]


def step_ms(steps):
    """Of (seconds, step) of a record, behind the warm-up, over whole periods."""
    begin, *_, end = [one for one in steps
                      if one[1] >= WARM_UP and one[1] % PERIOD == 0]
    return 1e3 * (end[0] - begin[0]) / (end[1] - begin[1])


def run(options, scratch, lab, policy, periods):
    """Of a job: the time of a step, and what a worker's computed, in ms."""
    with contextlib.closing(jobs.Job(
            options.gradweir, scratch, "real", WORKERS,
            ["cluster.insecure=true",
             *settings_of(policy, options.batch, periods)],
            servers=SERVERS, text=TEXT, lab=lab)) as job:
        final = job.wait(600)["workers"]
        return step_ms(job.steps()), 1e-3 * final["compute_us"] / final["steps"]


def measure(options, scratch, bits_per_s, periods):
    """(bytes per second and seconds of bare TCP, and of each policy the times of a
    step and of its computing in ms, of each round)"""
    with contextlib.closing(netlab.Lab(
            1 + SERVERS + WORKERS, bits_per_s, options.congestion)) as lab:
        line = netlab.lines(lab, range(1, 1 + SERVERS),
                            range(1 + SERVERS, 1 + SERVERS + WORKERS))
        rounds = [[run(options, scratch, lab, policy, periods)
                   for policy in POLICIES] for _ in range(options.rounds)]
    return line, dict(zip(POLICIES, zip(*rounds)))


def simulate(options, scratch, line, policy, compute_ms, periods):
    """The time of a step in a study, in ms."""
    path = os.path.join(scratch, "predicted.study")
    with open(os.path.join(scratch, "simulated.job"), "w", encoding="ascii") as job:
        job.write(TEXT)
    settings = [f"cluster.workers={WORKERS}", f"cluster.servers={SERVERS}",
                *settings_of(policy, options.batch, periods)]
    with open(path, "w", encoding="ascii") as study:
        study.write('job = "simulated.job";\nset = [ ' +
                    ", ".join(f'"{one}"' for one in settings) + " ];\n"
                    f"compute = {{ step_us = {1e3 * compute_ms:.1f}; }};\n"
                    f'grid = {{ network = "{8e-6 * line[0]:.2f} Mbit/s, '
                    f'{1e3 * line[1]:.3f} ms"; }};\n')
    out = tempfile.mkdtemp(dir=scratch)
    subprocess.run([options.gradweir, "study", path, "--out", out],
                   check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(out, "results.jsonl"), encoding="ascii") as lines:
        last = json.loads(lines.readlines()[-1])
    return step_ms(jobs.steps_of(
        os.path.join(out, "runs", last["id"] + ".jsonl")))


def compare(options, scratch, name, bits_per_s, periods):
    """Prints a network's rows; returns whether all are near enough."""
    line, real = measure(options, scratch, bits_per_s, periods)
    met = True
    for policy in POLICIES:
        took, computed = zip(*real[policy])
        # of backup workers those count that give up in between
        if policy.startswith("backup"):
            computed = [one[1] for one in real["sync"]]
        step, compute = statistics.median(took), statistics.median(computed)
        told = simulate(options, scratch, line, policy, compute, periods)
        fine = abs(step / told - 1) <= WITHIN
        met = met and fine
        print(f"{name:<12}{policy:<10}{compute:>9.1f} ms{step:>9.1f} ms"
              f"{min(took):>8.1f}{max(took):>8.1f}{told:>9.1f} ms"
              f"{step / told:>10.3f}{'' if fine else '  MISSED'}", flush=True)
    print(f"# {name}: bare TCP between all at once, {8e-6 * line[0]:.1f} Mbit/s in "
          f"each direction, {1e3 * line[1]:.3f} ms one way")
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gradweir", default="build/gradweir")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=800, help="of each worker")
    # reno is in every kernel and fills a line in both directions at once; bbr does
    # not: it measures a line while it is empty
    parser.add_argument("--congestion", default="reno", help="control of TCP")
    options = parser.parse_args()
    why = netlab.lacks()
    if why:
        print(f"SKIP: {why}")
        return 0
    netlab.remove_left()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and clears up
    print(f"# {options.gradweir}, {os.cpu_count()} cores, {WORKERS} workers, "
          f"{SERVERS} servers, mlp 784-512-512-10, batch {options.batch}, "
          f"{options.congestion}, medians of {options.rounds} rounds")
    print(f"{'network':<12}{'policy':<10}{'computing':>12}{'real step':>12}"
          f"{'from':>8}{'to':>8}{'simulated':>12}{'real/sim':>10}")
    met = True
    for name, bits_per_s, periods in NETWORKS:
        with tempfile.TemporaryDirectory() as scratch:
            met &= compare(options, scratch, name, bits_per_s, periods)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
