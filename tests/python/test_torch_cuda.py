"""Models on a GPU: gradients and weights go through pinned memory."""

from __future__ import annotations

import time

import torch
from torch import nn

import gradweir.torch
from models import apart, batch, digest, loss_of, net
from support import RANK, WORLD, JobTest, main, tell

DEVICE = torch.device("cuda", 0)


def beside_torch(where: str, overlap: str, dtype: str) -> None:
    """20 steps beside torch's optimizer on the whole batch, on the same GPU."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    kind = getattr(torch, dtype)
    model, alone = net(seed=7 + RANK).to(DEVICE, kind), net().to(DEVICE)
    make = lambda m: torch.optim.AdamW(m.parameters(), lr=1e-3)
    reference = make(alone)
    optimizer = gradweir.torch.Optimizer(make(model), model, where=where, overlap=overlap, log=False)
    with optimizer:
        for step in range(20):
            x, y = (part.to(DEVICE) for part in batch(step))
            optimizer.zero_grad()
            loss_of(model, x[RANK::WORLD].to(kind), y[RANK::WORLD]).backward()
            optimizer.step()
            reference.zero_grad()
            loss_of(alone, x, y).backward()
            reference.step()
        optimizer.wait()
        tell(apart=apart(model.float(), alone), digest=digest(model.cpu()))


def scales() -> None:
    """GradScaler and autocast in fp16, with an overflow on one rank."""
    model = net().to(DEVICE)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with gradweir.torch.Optimizer(optimizer, model, where="worker", log=False) as optimizer:
        for step in range(6):
            x, y = (part.to(DEVICE) for part in batch(step))
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.float16):
                loss = loss_of(model, x[RANK::WORLD], y[RANK::WORLD])
            loss = scaler.scale(loss)
            if step == 3 and RANK == 1:
                loss = loss * float("inf")
            loss.backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        finite = all(p.isfinite().all().item() for p in model.parameters())
        tell(scale=scaler.get_scale(), finite=finite, digest=digest(model.cpu()))


def sums() -> None:
    import torch.distributed as dist

    import gradweir.torch.backend  # noqa: F401

    dist.init_process_group("gradweir")
    for n in (5000, 3_000_001):
        for dtype in (torch.float32, torch.bfloat16):
            mine = torch.full((n,), 1.5 * (RANK + 1), device=DEVICE, dtype=dtype)
            dist.all_reduce(mine)
            assert torch.equal(mine, torch.full_like(mine, 4.5)), (n, dtype)
    model = net(seed=7 + RANK).to(DEVICE)
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(10):
        x, y = (part.to(DEVICE) for part in batch(step))
        optimizer.zero_grad()
        loss_of(wrapped, x[RANK::WORLD], y[RANK::WORLD]).backward()
        optimizer.step()
    tell(digest=digest(model.cpu()))
    dist.destroy_process_group()


class Block(nn.Module):
    """A dense model of 50 million weights, for the cost of copies."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Sequential(nn.Linear(2048, 2048), nn.GELU()) for _ in range(12)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def costs(where: str) -> None:
    """Milliseconds of a step, by itself and in a job of one rank."""
    model = Block().to(DEVICE)
    make = lambda: torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(16384, 2048, device=DEVICE)

    def step_ms(step: torch.optim.Optimizer, n: int) -> float:
        for i in range(n + 3):
            if i == 3:
                torch.cuda.synchronize()
                began = time.monotonic()
            step.zero_grad()
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(x).square().mean()
            loss.backward()
            step.step()
        torch.cuda.synchronize()
        return (time.monotonic() - began) / n * 1e3

    alone = step_ms(make(), 20)
    with gradweir.torch.Optimizer(make(), model, where=where, log=False) as wrapped:
        tell(alone_ms=alone, job_ms=step_ms(wrapped, 20))


class Cuda(JobTest):
    def setUp(self) -> None:
        super().setUp()
        if not torch.cuda.is_available():
            self.skipTest("no GPU that torch can use")

    def test_servers(self) -> None:
        """servers run AdamW for two ranks on a GPU, in each overlap: torch's weights"""
        digests = set()
        for overlap in ("none", "backward", "both"):
            outcome = self.job(beside_torch, "servers", overlap, "float32")
            for told in outcome.told.values():
                self.assertLessEqual(told["apart"], 1e-4)
                digests.add(told["digest"])
        self.assertEqual(len(digests), 1)

    def test_worker(self) -> None:
        """the script runs AdamW on the mean of two ranks on a GPU"""
        for told in self.job(beside_torch, "worker", "backward", "float32").told.values():
            self.assertLessEqual(told["apart"], 1e-4)

    def test_bf16(self) -> None:
        """parameters in bf16 on a GPU"""
        for told in self.job(beside_torch, "servers", "backward", "bfloat16").told.values():
            self.assertLessEqual(told["apart"], 5e-2)

    def test_scaler(self) -> None:
        """autocast in fp16 and GradScaler: an overflow skips the step on both ranks"""
        outcome = self.job(scales)
        self.assertEqual(outcome.told[0], outcome.told[1])
        self.assertTrue(outcome.told[0]["finite"])
        self.assertEqual(outcome.told[0]["scale"], 512.0)

    def test_backend(self) -> None:
        """sums of tensors on a GPU, and DDP"""
        outcome = self.job(sums)
        self.assert_stepped(outcome)
        self.assertEqual(outcome.told[0]["digest"], outcome.told[1]["digest"])

    def test_costs(self) -> None:
        """a step of 50 million weights, alone and in a job (a figure)"""
        for where in ("servers", "worker"):
            told = self.job(costs, where, ranks=1).told[0]
            print(f"# {where}: {told['alone_ms']:.1f} ms alone, {told['job_ms']:.1f} in a job")


if __name__ == "__main__":
    main()
