#!/usr/bin/env python3
"""Two workers, one of them four times slower: what policies keep of their speeds.

    python3 tests/perf/slowed.py [--gradweir build/gradweir] [--rounds 1]

One worker is stopped and continued by signals, so that it runs a quarter of each
80 ms. Jobs of both workers, `sync`, `async`, and `sync` with `train.split = speed`, are
held against what the machine gives the two at once, each in a job of its own with a
server of its own, before and after. Each job trains a convolutional network on
Fashion-MNIST, with a thread per worker, where a step is mostly computing, and long
against the time for which a process is stopped and can neither send nor receive;
samples per second are taken from its --json lines, after a warm-up in which splits
have settled. Printed are the ratios to the sum of the two workers' speeds, medians
over the rounds, and what is asked for; the exit code is 1 where that is missed.

Needs two free cores; a machine with nothing else to do.
"""
import argparse
import contextlib
import itertools
import os
import statistics
import sys
import tempfile
import time

import jobs

SAMPLES = 60000
PERIOD_S, RUNS_S = 0.080, 0.020  # of each period the slowed one runs so long
JOBS = {"sync": [], "async": ["cluster.policy=async"],
        "sync, train.split = speed": ["train.split=speed"]}
ASKED = {"async": 0.95, "sync, train.split = speed": 0.90}
SYNC_WITHIN = 0.20  # of the slow one's pace; the other leaves it the machine


def duty_cycle():
    return ((PERIOD_S * turn, PERIOD_S * (turn + 1) - RUNS_S)
            for turn in itertools.count())


def samples_per_s(job, batch, warm_up):
    """Of its record, without the warm-up."""
    steps = [one for one in job.steps() if one[0] >= warm_up]
    if len(steps) < 3:
        sys.exit("too few steps were logged; take longer --seconds")
    (begin, first), (end, last) = steps[0], steps[-1]
    return (last - first) * batch / (end - begin)


def run(options, scratch, wanted):
    """Jobs at once: (name, workers, batch, slowed ranks, settings) each."""
    running = []
    with contextlib.ExitStack() as stack:
        for name, workers, batch, slowed, settings in wanted:
            job = jobs.Job(options.gradweir, scratch, name, workers,
                           [f"train.global_batch={batch}",
                            "train.accumulate=16", *settings])
            stack.callback(job.close)
            for rank in slowed:
                pid = job.workers[rank].pid
                stack.callback(jobs.Interruptions(pid, duty_cycle()).end)
            running.append((job, batch))
        time.sleep(options.warm_up + options.seconds)
    return [samples_per_s(job, batch, options.warm_up) for job, batch in running]


def speeds(options, scratch):
    """Of the two, in jobs of their own at once."""
    half = options.batch // 2
    return run(options, scratch, [("fast", 1, half, [], []),
                                  ("slow", 1, half, [0], [])])


def measure(options, scratch):
    """Speeds of the two in jobs of their own, and each job of both as a part of
    their sum: of what was measured before it and behind it."""
    alone, result = [speeds(options, scratch)], {}
    for name, settings in JOBS.items():
        rate, = run(options, scratch,
                    [("both", 2, options.batch, [1], settings)])
        alone.append(speeds(options, scratch))
        result[name] = 2 * rate / (sum(alone[-2]) + sum(alone[-1]))
    fast, slowed = (statistics.mean(column) for column in zip(*alone))
    return fast, slowed, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    jobs.arguments(parser, 30, 25)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--batch", type=int, default=10000,
                        help="samples of a step of both workers, a part of "
                        "an epoch of 60000 whose half is one too")
    options = parser.parse_args()
    if SAMPLES % options.batch or options.batch % 2:
        parser.error(f"--batch: {options.batch} does not divide {SAMPLES}, or is "
                     "odd: some steps would be shorter than others")
    with tempfile.TemporaryDirectory() as scratch:
        rounds = [measure(options, scratch) for _ in range(options.rounds)]
    fast, slowed = (statistics.median(one[i] for one in rounds) for i in (0, 1))
    slow_pace = 2 * slowed / (fast + slowed)
    print(f"# {options.gradweir}, {os.cpu_count()} cores, batch {options.batch}, "
          f"{options.rounds} x {options.seconds:.0f} s, a worker runs "
          f"{1e3 * RUNS_S:.0f} ms of {1e3 * PERIOD_S:.0f}")
    print(f"# at once, in jobs of their own: fast {fast:.0f} samples/s, slowed "
          f"{slowed:.0f}, sum {fast + slowed:.0f}")
    print(f"{'job of both':<34}{'of the sum':>12}  asked")
    met = True
    for name in JOBS:
        kept = statistics.median(one[2][name] for one in rounds)
        if name in ASKED:
            fine, asked = kept >= ASKED[name], f">= {ASKED[name]}"
        else:
            fine = abs(kept / slow_pace - 1) <= SYNC_WITHIN
            asked = f"the slowed one's pace, {slow_pace:.2f}"
        met = met and fine
        print(f"{name:<34}{kept:>12.3f}  {asked}{'' if fine else '  MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
