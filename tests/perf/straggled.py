#!/usr/bin/env python3
"""Transient stragglers among real processes: `sync` and `backup:1` beside their
simulation.

    python3 tests/perf/straggled.py [--gradweir build/gradweir]
                                    [--simulator build/tests/perf/straggled]

Three workers train a convolutional network; each is stopped and continued by signals
at random, for exponential times. First comes a job of two workers alone, as there are
while one is stopped: where cores are fewer than workers, those that run are faster
then. Then come jobs of three under both policies, with stragglers and without by
turns, and with the same stops under both. The simulator, which runs the program's own
coordinator, server and workers in virtual time, is given the measured step times and
the stops as they were made, and says how many steps they leave. Printed are medians of
steps per second, and of what was kept of those without stragglers; the exit code is 1
where real and simulated steps differ by more than a tenth, or `backup:1` does not keep
more than `sync`.

Needs two cores; a machine with nothing else to do.
"""
import argparse
import contextlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

import jobs

WORKERS = 3
STOPPED_S, RUNS_S = 0.150, 0.600  # means of the exponential times
LONGEST_S = 0.8  # that a process may be stopped and not be taken for dead
WITHIN = 0.10
POLICIES = (("sync", "streaming"), ("backup:1", "whole"))  # and its commit


def stops(turn, rank, seconds):
    """(begin, end), as Interruptions wants them."""
    law = random.Random(f"{turn} {rank}")
    end = 0
    while True:
        begin = end + law.expovariate(1 / RUNS_S)
        end = begin + min(LONGEST_S, law.expovariate(1 / STOPPED_S))
        if end > seconds:
            return
        yield begin, end


def simulate(options, scratch, policy, step_s, fewer_s, straggled):
    """Steps in simulation, for what was seen of a job."""
    _, seconds, made = straggled
    trace = os.path.join(scratch, "trace")
    with open(trace, "w", encoding="ascii") as lines:
        for rank, begin, end in sorted(made, key=lambda stop: stop[1]):
            lines.write(f"{rank} {1e6 * begin:.0f} {1e6 * end:.0f}\n")
    told = subprocess.run(
        [options.simulator, policy, f"{1e6 * seconds:.0f}", f"{1e6 * step_s:.0f}",
         f"{1e6 * fewer_s:.0f}", trace], check=True, stdout=subprocess.PIPE,
        text=True).stdout
    return int(told)


class Job(jobs.Job):
    def __init__(self, options, scratch, policy, workers, *settings):
        super().__init__(options.gradweir, scratch, "job", workers,
                         [f"cluster.policy={policy}",
                          f"train.batch={options.batch}", *settings])
        self.rounds = 0

    def watch(self, seconds, straggle):
        """Steps, the seconds that they took, and the stops meanwhile: (rank,
        begin, end) in seconds from there on."""
        before, begin = self.steps(), time.monotonic()
        interruptions = []
        self.rounds += 1
        with contextlib.ExitStack() as stack:
            for rank, worker in enumerate(self.workers if straggle else []):
                one = jobs.Interruptions(
                    worker.pid, stops(self.rounds, rank, seconds))
                stack.callback(one.end)
                interruptions.append(one)
            time.sleep(seconds)
        after, end = self.steps(), time.monotonic()
        if not before or len(after) == len(before):
            sys.exit("no step was logged; take longer --seconds")
        return (after[-1][1] - before[-1][1], end - begin,
                [(rank, stop[0] - begin, stop[1] - begin)
                 for rank, one in enumerate(interruptions) for stop in one.made])


def step_seconds(options, scratch, workers, *settings):
    with contextlib.closing(Job(options, scratch, "sync", workers,
                                *settings)) as job:
        time.sleep(options.warm_up)
        steps, seconds, _ = job.watch(options.seconds, False)
        return seconds / steps


def measure(options, scratch, policy, fewer_s):
    """Calm and straggled by turns, so that both meet what else the machine
    does: (steps per second calm, straggled, simulated) of each round."""
    with contextlib.closing(Job(options, scratch, policy, WORKERS)) as job:
        time.sleep(options.warm_up)
        seen = [(job.watch(options.seconds / 2, False),
                 job.watch(options.seconds, True))
                for _ in range(options.rounds)]
    rounds = []
    for calm, straggled in seen:
        step_s = calm[1] / calm[0]
        told = simulate(options, scratch, policy, step_s, fewer_s, straggled)
        rounds.append((1 / step_s, straggled[0] / straggled[1],
                       told / straggled[1]))
    return rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    jobs.arguments(parser, 10, 5)
    parser.add_argument("--simulator", default="build/tests/perf/straggled")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batch", type=int, default=128, help="of each worker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        fewer_s = {policy: step_seconds(options, scratch, WORKERS - 1,
                                        f"train.commit={commit}")
                   for policy, commit in POLICIES}
        rounds = {policy: measure(options, scratch, policy, fewer_s[policy])
                  for policy, _ in POLICIES}
    print(f"# {options.gradweir}, {os.cpu_count()} cores, {WORKERS} workers, "
          f"stopped for {1e3 * STOPPED_S:.0f} ms of "
          f"{1e3 * (STOPPED_S + RUNS_S):.0f} in the mean, medians of "
          f"{options.rounds} x {options.seconds:.0f} s")
    print(f"{'policy':<10}{'calm':>10}{'straggled':>12}{'kept':>8}"
          f"{'simulated':>12}{'kept':>8}{'real/sim':>10}")
    met, kept = True, {}
    for policy, of in rounds.items():
        calm, real, told, kept[policy], kept_told, ratio = (
            statistics.median(column) for column in zip(*(
                (calm, real, told, real / calm, told / calm, real / told)
                for calm, real, told in of)))
        fine = abs(ratio - 1) <= WITHIN
        met = met and fine
        print(f"{policy:<10}{calm:>8.1f}/s{real:>10.1f}/s{kept[policy]:>8.3f}"
              f"{told:>10.1f}/s{kept_told:>8.3f}{ratio:>10.3f}"
              f"{'' if fine else '  MISSED'}")
    if kept["backup:1"] <= kept["sync"]:
        print("backup:1 keeps no more than sync  MISSED")
        met = False
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
