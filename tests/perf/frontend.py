#!/usr/bin/env python3
"""The Python front end beside plain PyTorch and beside DDP over Gloo.

    frontend.py --gradweir build/gradweir [--rounds 5] [--models mlp resnet18 gpt2]

Each round runs every way once, in turn, so that what else the machine does
falls on all of them; a figure is the median over rounds of the milliseconds of
a step. Needs torch; resnet18 needs torchvision, gpt2 transformers. Each process
has one thread.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time

STEPS = {"mlp": 300, "resnet18": 15, "gpt2": 15}
WARM = {"mlp": 50, "resnet18": 3, "gpt2": 3}


# ---- a rank ----


def make(name: str):
    """A model, its loss of a batch, and the batch."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    if name == "mlp":
        model = nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )
        x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
        return model, lambda m: nn.functional.cross_entropy(m(x), y)
    if name == "resnet18":
        from torchvision.models import resnet18

        x, y = torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))
        return resnet18(num_classes=10), lambda m: nn.functional.cross_entropy(m(x), y)
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=4096, n_positions=64, n_embd=256, n_layer=6, n_head=8)
    tokens = torch.randint(0, 4096, (4, 64))
    return GPT2LMHeadModel(config), lambda m: m(input_ids=tokens, labels=tokens).loss


def rank(name: str, way: str) -> None:
    import torch

    torch.set_num_threads(1)
    model, loss_of = make(name)
    net = model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if way in ("servers", "worker"):
        import gradweir.torch

        optimizer = gradweir.torch.Optimizer(optimizer, model, where=way, log=False)
    elif way in ("gloo", "gradweir"):
        import torch.distributed as dist

        if way == "gradweir":
            import gradweir.torch.backend  # noqa: F401
        dist.init_process_group(way)
        net = torch.nn.parallel.DistributedDataParallel(model)
    began = 0.0
    for step in range(WARM[name] + STEPS[name]):
        if step == WARM[name]:
            began = time.perf_counter()
        optimizer.zero_grad()
        loss_of(net).backward()
        optimizer.step()
    ms = (time.perf_counter() - began) / STEPS[name] * 1e3
    print(f"ms {ms:.4f}", flush=True)
    if way in ("servers", "worker"):
        optimizer.finish()
    elif way in ("gloo", "gradweir"):
        torch.distributed.destroy_process_group()


# ---- all of them ----


def ms_of(out: str) -> float:
    """The slowest rank's."""
    found = [float(line.split("ms ", 1)[1]) for line in out.splitlines() if "ms " in line]
    if not found:
        raise SystemExit(f"no figure in:\n{out}")
    return max(found)


def run_job(gradweir: str, name: str, way: str, ranks: int) -> float:
    command = [gradweir, "run", "--workers", str(ranks), "--servers", "1", "--"]
    command += [sys.executable, os.path.abspath(__file__), "--rank", name, way]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.lstrip("[01] ").startswith("ms ")]
    return ms_of("\n".join(lines) if lines else done.stdout + done.stderr)


def run_group(name: str, way: str, ranks: int) -> float:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--rank", name, way],
            env={
                **os.environ,
                "RANK": str(r),
                "WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for r in range(ranks)
    ]
    return max(ms_of(process.communicate()[0]) for process in processes)


def rounds_of(gradweir: str, name: str, rounds: int) -> None:
    ways = {
        "plain, 1 process": lambda: run_group(name, "plain", 1),
        "servers, 1 worker": lambda: run_job(gradweir, name, "servers", 1),
        "worker, 1 worker": lambda: run_job(gradweir, name, "worker", 1),
        "DDP over Gloo, 2": lambda: run_group(name, "gloo", 2),
        "servers, 2 workers": lambda: run_job(gradweir, name, "servers", 2),
        "worker, 2 workers": lambda: run_job(gradweir, name, "worker", 2),
        "DDP over gradweir, 2": lambda: run_job(gradweir, name, "gradweir", 2),
    }
    seen: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, run in ways.items():
            seen[way].append(run())
    median = {way: statistics.median(times) for way, times in seen.items()}
    for way, times in seen.items():
        base = median["plain, 1 process" if "1" in way[-9:] else "DDP over Gloo, 2"]
        print(
            f"{name:9} {way:22} {median[way]:9.2f} ms  {base / median[way]:5.2f}"
            f"  ({min(times):.2f} to {max(times):.2f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gradweir", default="./gradweir")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--rank", nargs=2, metavar=("MODEL", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(*options.rank)
        return
    for name in options.models:
        rounds_of(os.path.abspath(options.gradweir), name, options.rounds)


if __name__ == "__main__":
    main()
