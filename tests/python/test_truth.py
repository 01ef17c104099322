"""The losses of 50 steps of two ranks are those of the same script with DDP over Gloo.

GW_GPT2="6 256 64" in the environment makes GPT-2 larger: layers, width, tokens.
"""

from __future__ import annotations

from typing import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

import gradweir.torch
from models import (
    HAS_TRANSFORMERS,
    batch,
    gpt2,
    groups_of,
    loss_of,
    net,
    next_token_loss,
    text,
)
from support import RANK, WORLD, JobTest, main, tell

STEPS = 50

OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.05),
    "momentum": lambda m: torch.optim.SGD(
        m.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3
    ),
    "adamw": lambda m: torch.optim.AdamW(groups_of(m), lr=1e-3),
    "nadam": lambda m: torch.optim.NAdam(m.parameters(), lr=1e-3),
    "rmsprop": lambda m: torch.optim.RMSprop(m.parameters(), lr=1e-3, momentum=0.5),
}


def _schedulers(kind: str, optimizer: torch.optim.Optimizer) -> list[LambdaLR]:
    """AdamW has five steps of warm-up and a linear decay."""
    if kind != "adamw":
        return []
    return [LambdaLR(optimizer, lambda step: min((step + 1) / 5, 1 - step / (2 * STEPS)))]


def _loss_at(name: str, model: nn.Module, step: int) -> torch.Tensor:
    """The loss of this rank's part of the batch."""
    if name == "gpt2":
        return next_token_loss(model, text(step)[RANK::WORLD])
    x, y = batch(step)
    return loss_of(model, x[RANK::WORLD], y[RANK::WORLD])


def _train(how: str, kind: str, name: str) -> list[float]:
    """The script. `how`: "ddp", "servers" or "worker"."""
    model = {"net": net, "gpt2": gpt2}[name](seed=7 + RANK)  # all get rank 0's
    optimizer = OPTIMIZERS[kind](model)
    if how == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        optimizer = gradweir.torch.Optimizer(optimizer, model, where=how, log=False)
    schedulers = _schedulers(kind, optimizer)
    torch.manual_seed(11 + RANK)  # for dropout
    losses = []
    for step in range(STEPS):
        loss = _loss_at(name, model, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
        losses.append(loss.item())
    return losses


def in_job(how: str, kind: str, name: str) -> None:
    tell(losses=_train(how, kind, name))


def with_ddp(name: str, *kinds: str) -> None:
    """All optimizers, one after another in one process group."""
    dist.init_process_group("gloo")
    tell(**{kind: _train("ddp", kind, name) for kind in kinds})
    dist.destroy_process_group()


def apart(losses: list[float], expected: list[float]) -> float:
    """The largest relative difference."""
    return max(abs(one - other) / abs(other) for one, other in zip(losses, expected))


class Truth(JobTest):
    def check(self, name: str, servers: tuple[str, ...], worker: tuple[str, ...]) -> None:
        gloo = self.alone(with_ddp, name, *{*servers, *worker})
        for how, kinds in (("servers", servers), ("worker", worker)):
            for kind in kinds:
                with self.subTest(f"{how} {kind}"):
                    told = self.job(in_job, how, kind, name).told
                    for rank, expected in gloo.items():
                        self.check_losses(how, told[rank]["losses"], expected[kind])

    def check_losses(self, how: str, losses: list[float], expected: list[float]) -> None:
        self.assertEqual(len(losses), STEPS)
        if how == "worker":
            self.assertEqual(losses, expected)
        else:
            self.assertLessEqual(apart(losses, expected), 1e-5)

    def test_net(self) -> None:
        """a convnet: DDP's losses within 1e-5 by servers, to every digit where the script steps"""
        self.check("net", ("sgd", "momentum", "adamw"), ("adamw", "nadam", "rmsprop"))

    def test_gpt2(self) -> None:
        """GPT-2: DDP's losses within 1e-5 by servers, to every digit where the script steps"""
        if not HAS_TRANSFORMERS:
            self.skipTest("no transformers")
        self.check("gpt2", ("sgd", "momentum", "adamw"), ("adamw", "nadam"))


if __name__ == "__main__":
    main()
