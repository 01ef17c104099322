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
    def test_dropped(self) -> None:
        """an optimizer that nobody keeps says good-bye at the script's end"""
        self.assertIn("finished at step 2", self.job(is_dropped).text)


if __name__ == "__main__":
    main()
