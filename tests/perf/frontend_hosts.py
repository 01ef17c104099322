#!/usr/bin/env python3
"""The Python front end where machines differ, beside DDP over Gloo.

    frontend_hosts.py --gradweir build/gradweir [--rounds 3] [--only linked slowed]

`linked`: a model of 100 MB on hosts of 1 Gbit/s up and down, network namespaces.
Of two workers each has a server beside it: as many bytes pass each link as in a
ring, 2 (n - 1) / n of the model. Of four workers the servers have hosts of their
own: each link has the model once. Milliseconds of a step. Needs root and iproute2.

`slowed`: one of two workers computes four times as long as the other. Samples per
second of both together, over the same seconds; the policy is async.

Every round runs each way once, in turn; figures are medians over rounds. Needs
torch; a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

import netlab

BITS_PER_S = 1e9
WIDTH, LAYERS = 2236, 5  # 25 M weights, 100 MB
STEPS, WARM = 8, 2
BATCH = {"linked": 4, "slowed": 256}
SLOWED_S, SLOWED_BY = 6.0, 4
PORT = 7177
HERE = os.path.abspath(__file__)


# ---- a rank ----


def make(case: str):
    """A model of dense layers, and the loss of a batch."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    widths = [WIDTH] * (LAYERS + 1) if case == "linked" else [784, 512, 512, 10]
    layers: list[nn.Module] = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    x = torch.randn(BATCH[case], widths[0])
    y = torch.randint(0, widths[-1], (BATCH[case],))
    return model, lambda net: nn.functional.cross_entropy(net(x), y)


def rank(case: str, way: str) -> None:
    import torch

    torch.set_num_threads(1)
    model, loss_of = make(case)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    net: torch.nn.Module = model
    if way == "gloo":
        torch.distributed.init_process_group("gloo")
        net = torch.nn.parallel.DistributedDataParallel(model)
    else:
        import gradweir.torch

        where, _, overlap = way.partition(" ")
        optimizer = gradweir.torch.Optimizer(
            optimizer, model, where=where, overlap=overlap or "backward", log=False
        )

    def step() -> None:
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(net)
        if case == "slowed" and os.environ["RANK"] == "1":
            time.sleep((SLOWED_BY - 1) * 2.5 * (time.perf_counter() - began))
        loss.backward()
        optimizer.step()

    (timed if case == "linked" else counted)(step, way)
    if way == "gloo":
        torch.distributed.destroy_process_group()
    else:
        with contextlib.suppress(gradweir.JobEnded):
            optimizer.finish()


def timed(step, _way: str) -> None:
    for _ in range(WARM):
        step()
    began = time.perf_counter()
    for _ in range(STEPS):
        step()
    print(f"figure {(time.perf_counter() - began) / STEPS * 1e3:.4f}", flush=True)


def counted(step, way: str) -> None:
    """Samples per second of this rank. DDP's ranks stop at one step, of which
    rank 0 says when; gradweir's stop by their own clocks."""
    import torch
    import gradweir

    def goes_on(began: float) -> bool:
        left = torch.tensor([SLOWED_S - (time.perf_counter() - began)])
        if way == "gloo":
            torch.distributed.broadcast(left, 0)
        return left.item() > 0

    for _ in range(WARM):
        step()
    began, taken = time.perf_counter(), 0
    with contextlib.suppress(gradweir.JobEnded):
        while goes_on(began):
            step()
            taken += 1
    print(f"figure {taken * BATCH['slowed'] / (time.perf_counter() - began):.4f}", flush=True)


# ---- all of them ----


class Processes:
    """What runs until the ranks have ended; nothing is left behind."""

    def __init__(self) -> None:
        self._all: list[subprocess.Popen] = []

    def start(self, command: list[str], **env: str) -> subprocess.Popen:
        process = subprocess.Popen(
            command,
            env={**os.environ, "OMP_NUM_THREADS": "1", **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._all.append(process)
        return process

    def close(self) -> str:
        """What they have said that nobody has read."""
        said = ""
        for process in self._all:
            if process.poll() is None:
                process.kill()
            if process.stdout and not process.stdout.closed:
                said += process.communicate()[0]
        return said


def figures_of(out: str) -> list[float]:
    return [float(line.split("figure ", 1)[1]) for line in out.splitlines() if "figure " in line]


def ranks_of(processes: Processes, prefixes, case: str, way: str, **env: str) -> list[float]:
    """Runs a rank on each host, and gives their figures."""
    program = [sys.executable, HERE, "--rank", case, way]
    ranks = [
        processes.start(prefix + program, RANK=str(r), WORLD_SIZE=str(len(prefixes)), **env)
        for r, prefix in enumerate(prefixes)
    ]
    outs = [process.communicate(timeout=300)[0] for process in ranks]
    found = [figure for out in outs for figure in figures_of(out)]
    if len(found) != len(prefixes):
        said = "".join(outs) + processes.close()
        raise SystemExit(f"{case}, {way}: a rank gave no figure:\n{said}")
    return found


def by_group(prefixes, address: str, device: str, case: str, way: str) -> list[float]:
    with contextlib.closing(Processes()) as processes:
        env = {"MASTER_ADDR": address, "MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": device}
        return ranks_of(processes, prefixes, case, way, **env)


def by_job(
    gradweir: str, workers, servers, address: str, case: str, way: str, policy: str
) -> list[float]:
    """A cluster started by hand, with the coordinator on the first host."""
    sets = ["cluster.insecure=true", f"cluster.policy={policy}"]
    sets += [f"cluster.workers={len(workers)}", f"cluster.servers={len(servers)}"]
    at = f"{address}:{PORT}"
    with contextlib.closing(Processes()) as processes, tempfile.TemporaryDirectory() as scratch:
        job = os.path.join(scratch, "external.job")
        with open(job, "w", encoding="ascii") as file:
            file.write('model = { kind = "external"; };')
        command = [gradweir, "coordinator", job, "--listen", at]
        for setting in sets:
            command += ["--set", setting]
        processes.start(workers[0] + command)
        for server in servers:
            processes.start(server + [gradweir, "server", "--join", at])
        return ranks_of(processes, workers, case, way, GRADWEIR_COORDINATOR=at)


def compare(name: str, unit: str, ways, rounds: int, of_ranks, ratio) -> None:
    seen: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, run in ways.items():
            seen[way].append(of_ranks(run()))
    base = statistics.median(seen["DDP over Gloo"])
    for way, all_of in seen.items():
        figure = statistics.median(all_of)
        print(
            f"{name:7} {way:16} {figure:9.1f} {unit:10} {ratio(base, figure):5.2f}"
            f"  ({min(all_of):.1f} to {max(all_of):.1f})",
            flush=True,
        )


def linked(gradweir: str, rounds: int) -> None:
    why = netlab.lacks()
    if why:
        print(f"linked  not run: {why}")
        return
    for n, apart in ((2, False), (4, True)):
        print(f"linked  {n} workers, {n} servers {'apart' if apart else 'beside them'}")
        with contextlib.closing(netlab.Lab(2 * n if apart else n, BITS_PER_S, "cubic")) as lab:
            workers = [lab.on(i) for i in range(n)]
            servers = [lab.on(n + i) for i in range(n)] if apart else workers
            compare_linked(gradweir, rounds, workers, servers, lab.addresses[0])


def compare_linked(gradweir: str, rounds: int, workers, servers, address: str) -> None:
    ways = {"DDP over Gloo": lambda: by_group(workers, address, "eth0", "linked", "gloo")}
    for way in ("servers", "servers both", "worker"):
        ways[way] = lambda way=way: by_job(
            gradweir, workers, servers, address, "linked", way, "sync"
        )
    compare("linked", "ms a step", ways, rounds, max, lambda base, ms: base / ms)


def slowed(gradweir: str, rounds: int) -> None:
    here = [[], []]
    ways = {"DDP over Gloo": lambda: by_group(here, "127.0.0.1", "lo", "slowed", "gloo")}
    for policy in ("sync", "async"):
        ways[policy] = lambda policy=policy: by_job(
            gradweir, here, here, "127.0.0.1", "slowed", "servers", policy
        )
    compare("slowed", "samples/s", ways, rounds, sum, lambda base, rate: rate / base)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gradweir", default="./gradweir")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=["linked", "slowed"])
    parser.add_argument("--rank", nargs=2, metavar=("CASE", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(*options.rank)
        return
    for case in options.only:
        {"linked": linked, "slowed": slowed}[case](os.path.abspath(options.gradweir), options.rounds)


if __name__ == "__main__":
    main()
