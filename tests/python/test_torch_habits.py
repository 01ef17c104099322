"""What scripts do around a step: it has the effect that it has in one process,
or one line says that it has none."""

from __future__ import annotations

import gc
import time

import torch
from torch import nn

import gradweir.torch
from models import batch, loss_of, net
from support import RANK, JobTest, main, tell


def _sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr)


def _steps(model: nn.Module, optimizer: torch.optim.Optimizer, n: int) -> None:
    for step in range(n):
        optimizer.zero_grad()
        loss_of(model, *batch(step * 2 + RANK)).backward()
        optimizer.step()


# ---- buffers ----


class Running(nn.Module):
    """BatchNorm, a buffer that each pass replaces by a new tensor, and one that
    grows."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("cache", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache = torch.zeros(len(self.cache) + 1)
        self.seen = self.seen * 0.5 + x.detach().mean()
        return self.norm(x) + self.seen


def keeps_buffers(where: str, weight: str) -> None:
    """Rank 0's buffers, beside those of a model that rank 0's data passed alone."""
    model, alone = Running(), Running()
    with gradweir.torch.Optimizer(
        _sgd(model, 0.0), model, where=where, weight=int(weight), log=False
    ) as optimizer:
        for step in range(3):
            x = [torch.randn(8, 4, generator=torch.Generator().manual_seed(step * 2 + r)) for r in (0, 1)]
            optimizer.zero_grad()
            model(x[RANK]).square().mean().backward()
            optimizer.step()
            alone(x[0])
        pairs = zip(model.buffers(), alone.buffers())
        tell(apart=max((a.double() - b.double()).abs().max().item() for a, b in pairs))


def has_none(where: str) -> None:
    """Rank 1 has no samples in step 1: rank 0's gradient is the mean."""
    model, alone = net(), net()
    steps = iter(range(9))
    optimizer = gradweir.torch.Optimizer(
        _sgd(model), model, where=where, weight=lambda: 0 if next(steps) == 1 and RANK == 1 else 2,
        step_weight=4, log=False,
    )  # fmt: skip
    reference = _sgd(alone)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, *batch(step * 2 + RANK)).backward()
        optimizer.step()
        reference.zero_grad()
        losses = [loss_of(alone, *batch(step * 2 + rank)) for rank in (0, 1)]
        (losses[0] if step == 1 else sum(losses) / 2).backward()
        reference.step()
    pairs = zip(model.parameters(), alone.parameters())
    tell(apart=max((a.detach() - b.detach()).abs().max().item() for a, b in pairs))


# ---- an optimizer that nobody keeps ----


def is_dropped() -> None:
    """A function trains and returns; the script goes on with something else."""

    def train() -> None:
        model = net()
        _steps(model, gradweir.torch.Optimizer(_sgd(model), model, log=False), 2)

    train()
    gc.collect()
    time.sleep(0.5 * RANK)


class Habits(JobTest):
    def test_buffers(self) -> None:
        """buffers are rank 0's, whatever a rank's gradient counts, and if they are new tensors"""
        for where in ("servers", "worker"):
            for weight in ("1", "4"):
                with self.subTest(where, weight=weight):
                    outcome = self.job(keeps_buffers, where, weight)
                    for told in outcome.told.values():
                        self.assertLess(told["apart"], 1e-6)

    def test_no_samples(self) -> None:
        """a rank whose weight is 0 in a step has no part in it"""
        for where in ("servers", "worker"):
            with self.subTest(where):
                for told in self.job(has_none, where).told.values():
                    self.assertLess(told["apart"], 1e-6)

    def test_dropped(self) -> None:
        """an optimizer that nobody keeps says good-bye at the script's end"""
        self.assertIn("finished at step 2", self.job(is_dropped).text)


if __name__ == "__main__":
    main()
