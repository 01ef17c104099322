"""Many tensors, a large one, long names, forks of a DataLoader."""

from __future__ import annotations

import time

import torch
from torch import nn

import gradweir.torch
from models import batch, digest, loss_of, net
from support import JobTest, main, tell


def many_tensors() -> None:
    """5,000 parameters, with names of 200 characters."""
    torch.manual_seed(1)
    long = "layer_" * 32
    model = nn.ParameterDict({f"{long}{i:06d}": nn.Parameter(torch.randn(8)) for i in range(5000)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = digest(model)
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        began = time.monotonic()
        for _ in range(3):
            optimizer.zero_grad()
            torch.stack([p.square().sum() for p in model.parameters()]).sum().backward()
            optimizer.step()
        seconds = time.monotonic() - began
        tell(digest=digest(model), moved=digest(model) != before, seconds=seconds)


def large_tensor() -> None:
    """An embedding of 400 MB."""
    torch.manual_seed(1)
    model = nn.Embedding(100_000, 1000)
    before = model.weight[5].detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.tensor([5])).sum().backward()
            optimizer.step()
        tell(apart=(before - 1.0 - model.weight[5]).abs().max().item())


class Squares(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = batch(i, 1)
        return x[0], y[0]


def forks() -> None:
    """Data comes from forked processes, which are made while the job is open."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        for _ in range(2):
            loader = torch.utils.data.DataLoader(
                Squares(), batch_size=8, num_workers=2, multiprocessing_context="fork"
            )
            for x, y in loader:
                optimizer.zero_grad()
                loss_of(model, x, y).backward()
                optimizer.step()
        tell(clock=optimizer.clock)


class Sizes(JobTest):
    def test_many(self) -> None:
        """5,000 parameters with names of 200 characters"""
        outcome = self.job(many_tensors)
        self.assertEqual(outcome.told[0]["digest"], outcome.told[1]["digest"])
        self.assertTrue(outcome.told[0]["moved"])

    def test_large(self) -> None:
        """an embedding of 400 MB"""
        self.assertLessEqual(self.job(large_tensor, ranks=1).told[0]["apart"], 1e-5)

    def test_forks(self) -> None:
        """a DataLoader that forks while a job is open"""
        for told in self.job(forks).told.values():
            self.assertEqual(told["clock"], 16)


if __name__ == "__main__":
    main()
