"""where="servers": gradients go out, the servers have the optimizer.

The reference is torch's own optimizer on the whole batch, in the same process.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

import gradweir.torch
from models import apart, batch, digest, groups_of, loss_of, net
from support import RANK, WORLD, JobTest, main, tell

OPTIMIZERS = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, weight_decay=1e-2),
    "momentum": lambda m: torch.optim.SGD(m.parameters(), lr=0.02, momentum=0.9),
    "nesterov": lambda m: torch.optim.SGD(m.parameters(), lr=0.02, momentum=0.9, nesterov=True),
    "adam": lambda m: torch.optim.Adam(m.parameters(), lr=1e-3, weight_decay=1e-2, eps=1e-6),
    "adamw": lambda m: torch.optim.AdamW(groups_of(m), lr=1e-3, betas=(0.8, 0.99)),
}


def beside_torch(kind: str, overlap: str = "backward") -> None:
    """20 steps of a job, and of torch's optimizer on the batches of all ranks."""
    model = net(seed=7 + RANK)  # all get rank 0's
    optimizer = OPTIMIZERS[kind](model)
    alone = net(seed=7)
    reference = OPTIMIZERS[kind](alone)
    steps = 20
    with gradweir.torch.Optimizer(optimizer, model, overlap=overlap, log=False) as optimizer:
        lower = [torch.optim.lr_scheduler.CosineAnnealingLR(o, steps) for o in (optimizer, reference)]
        for step in range(steps):
            x, y = batch(step)
            for m, o, part in ((model, optimizer, slice(RANK, None, WORLD)), (alone, reference, slice(None))):
                o.zero_grad()
                loss_of(m, x[part], y[part]).backward()
                o.step()
            for scheduler in lower:
                scheduler.step()
        optimizer.wait()
        tell(apart=apart(model, alone), digest=digest(model), where=optimizer.where)


def many_kinds() -> None:
    """Tied, unused, frozen and empty parameters, channels-last, batch norm."""

    class Zoo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 3, bias=False).to(memory_format=torch.channels_last)
            self.norm = nn.BatchNorm2d(4)
            self.embed = nn.Parameter(torch.randn(10, 4))
            self.tied = nn.Linear(4, 10, bias=False)
            self.tied.weight = self.embed
            self.sometimes = nn.Linear(4, 4)
            self.never = nn.Linear(4, 4)
            self.frozen = nn.Linear(4, 4)
            self.frozen.requires_grad_(False)
            self.empty = nn.Parameter(torch.empty(0, 3))

        def forward(self, x: torch.Tensor, uses: bool) -> torch.Tensor:
            h = self.norm(self.conv(x.to(memory_format=torch.channels_last))).relu().mean((2, 3))
            h = self.frozen(h) + h @ self.embed.t() @ self.embed
            if uses:
                h = self.sometimes(h)
            return self.tied(h)

    torch.manual_seed(3)
    model = Zoo()
    alone = copy.deepcopy(model)
    make = lambda m: torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-2)
    reference = make(alone)
    with gradweir.torch.Optimizer(make(model), model, log=False) as optimizer:
        for step in range(9):
            x, y = batch(step)
            # each rank has the whole batch, so that batch norm is the same
            for m, o in ((model, optimizer), (alone, reference)):
                o.zero_grad()
                nn.functional.cross_entropy(m(x, step % 3 == 0), y).backward()
                o.step()
        buffers = zip(model.buffers(), alone.buffers())
        tell(
            apart=apart(model, alone),
            never=(model.never.weight - alone.never.weight).abs().max().item(),
            buffers=max((a.float() - b.float()).abs().max().item() for a, b in buffers),
        )


def accumulates(overlap: str) -> None:
    """4 micro-batches in a step, and 3 in the last one."""
    model, alone = net(), net()
    reference = torch.optim.SGD(alone.parameters(), lr=0.05, momentum=0.9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    with gradweir.torch.Optimizer(optimizer, model, overlap=overlap, log=False) as optimizer:
        micro = 0
        for step in range(5):
            for m, o in ((model, optimizer), (alone, reference)):
                o.zero_grad()
            for _ in range(4 if step < 4 else 3):
                x, y = batch(micro)
                micro += 1
                (loss_of(model, x[RANK::WORLD], y[RANK::WORLD]) / 4).backward()
                (loss_of(alone, x, y) / 4).backward()
            optimizer.step()
            reference.step()
        optimizer.wait()
        tell(apart=apart(model, alone))


def clips() -> None:
    """Servers clip the mean gradient, as clip_grad_norm_ does under DDP."""
    model, alone = net(), net()
    reference = torch.optim.SGD(alone.parameters(), lr=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with gradweir.torch.Optimizer(optimizer, model, max_norm=0.05, log=False) as optimizer:
        for step in range(10):
            x, y = batch(step)
            optimizer.zero_grad()
            loss_of(model, x[RANK::WORLD], y[RANK::WORLD]).backward()
            optimizer.step()
            reference.zero_grad()
            loss_of(alone, x, y).backward()
            nn.utils.clip_grad_norm_(alone.parameters(), 0.05)
            reference.step()
        tell(apart=apart(model, alone))


def weighs() -> None:
    """Batches of 12 and 4 samples, by weight= and by a callable."""
    model, alone = net(), net()
    reference = torch.optim.SGD(alone.parameters(), lr=0.05)
    mine = slice(0, 12) if RANK == 0 else slice(12, 16)
    optimizer = gradweir.torch.Optimizer(
        torch.optim.SGD(model.parameters(), lr=0.05),
        model,
        weight=lambda: mine.stop - mine.start,
        step_weight=16,
        log=False,
    )
    with optimizer:
        for step in range(10):
            x, y = batch(step)
            for m, o, part in ((model, optimizer, mine), (alone, reference, slice(None))):
                o.zero_grad()
                loss_of(m, x[part], y[part]).backward()
                o.step()
        tell(apart=apart(model, alone))


def in_closures() -> None:
    """step(closure) computes the gradients, as Lightning has it."""
    model, alone = net(), net()
    reference = torch.optim.SGD(alone.parameters(), lr=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        for step in range(6):
            x, y = batch(step)

            def closure(m: nn.Module, o: torch.optim.Optimizer, part: slice) -> torch.Tensor:
                o.zero_grad()
                loss = loss_of(m, x[part], y[part])
                loss.backward()
                return loss

            mine = slice(RANK, None, WORLD)
            with torch.no_grad():
                loss = optimizer.step(lambda: closure(model, optimizer, mine))
                reference.step(lambda: closure(alone, reference, slice(None)))
            assert loss is not None and loss.item() > 0
        tell(apart=apart(model, alone))


def in_bf16() -> None:
    """Parameters in bf16 are rounded from the servers' fp32."""
    model = net().bfloat16()
    alone = net()
    reference = torch.optim.SGD(alone.parameters(), lr=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        for step in range(20):
            x, y = batch(step)
            optimizer.zero_grad()
            loss_of(model, x[RANK::WORLD].bfloat16(), y[RANK::WORLD]).backward()
            optimizer.step()
            reference.zero_grad()
            loss_of(alone, x, y).backward()
            reference.step()
        tell(apart=apart(model.float(), alone), type=str(next(net().bfloat16().parameters()).dtype))


def attends() -> None:
    """overlap="both" with a module whose children are not called."""
    torch.manual_seed(5)
    model = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    alone = copy.deepcopy(model)
    reference = torch.optim.SGD(alone.parameters(), lr=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradweir.torch.Optimizer(optimizer, model, overlap="both", log=False) as optimizer:
        for step in range(8):
            x = torch.randn(4, 5, 16, generator=torch.Generator().manual_seed(step))
            for m, o, part in ((model, optimizer, slice(RANK, None, WORLD)), (alone, reference, slice(None))):
                o.zero_grad()
                m(x[part]).square().mean().backward()
                o.step()
        optimizer.wait()
        tell(apart=apart(model, alone))


def shares_buffers(overlap: str) -> None:
    """Each rank has data of its own; buffers are rank 0's, as under DDP."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradweir.torch.Optimizer(optimizer, model, overlap=overlap, log=False) as optimizer:
        for step in range(5):
            drawn = torch.Generator().manual_seed(step * 2 + RANK)
            optimizer.zero_grad()
            model(torch.randn(8, 6, generator=drawn) + RANK).square().mean().backward()
            optimizer.step()
        optimizer.wait()
        tell(mean=model[1].running_mean.tolist())


def compiles() -> None:
    model = net()
    compiled = torch.compile(model)
    alone = net()
    reference = torch.optim.SGD(alone.parameters(), lr=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        for step in range(5):
            x, y = batch(step)
            for m, o, part in ((compiled, optimizer, slice(RANK, None, WORLD)), (alone, reference, slice(None))):
                o.zero_grad()
                loss_of(m, x[part], y[part]).backward()
                o.step()
        tell(apart=apart(model, alone))


def under_policy() -> None:
    """The loss falls under any policy; a plain loop of steps."""
    model = net()

    def mean_loss() -> float:
        with torch.no_grad():
            return sum(loss_of(model, *batch(i)).item() for i in range(8)) / 8

    first = mean_loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        for step in optimizer.steps(range(160)):
            x, y = batch(step % 8)
            loss = loss_of(model, x[RANK::WORLD], y[RANK::WORLD])
            optimizer.zero_grad()
            loss.backward()
            optimizer.report(loss, samples=len(y) // WORLD)
            optimizer.step()
    tell(first=first, last=mean_loss())


class Servers(JobTest):
    def assert_same_weights(self, outcome, least=1e-5) -> None:
        self.assertEqual(len(outcome.told), 2)
        for told in outcome.told.values():
            self.assertLessEqual(told["apart"], least)

    def test_optimizers(self) -> None:
        """SGD, momentum, nesterov, Adam, AdamW in two groups, with a schedule: torch's weights"""
        for kind in OPTIMIZERS:
            with self.subTest(kind):
                outcome = self.job(beside_torch, kind)
                self.assert_same_weights(outcome)
                self.assertEqual(outcome.told[0]["digest"], outcome.told[1]["digest"])

    def test_the_same_bits(self) -> None:
        """the same bits with 1 to 3 servers, over shm and tcp, in any overlap"""
        runs = [
            self.job(beside_torch, "adamw", "backward", servers=1),
            self.job(beside_torch, "adamw", "none", servers=3),
            self.job(beside_torch, "adamw", "both", settings=("cluster.transport=tcp",)),
        ]
        self.assertEqual(len({run.told[0]["digest"] for run in runs}), 1)

    def test_many_kinds(self) -> None:
        """tied, unused, frozen and empty parameters, channels-last, batch norm: as torch"""
        outcome = self.job(many_kinds)
        self.assert_same_weights(outcome, 2e-5)
        for told in outcome.told.values():
            self.assertEqual(told["never"], 0)
            self.assertLessEqual(told["buffers"], 1e-6)

    def test_accumulation(self) -> None:
        """4 micro-batches in a step and a short last one: torch's weights"""
        self.assert_same_weights(self.job(accumulates, "backward"))
        self.assert_same_weights(self.job(accumulates, "both"))

    def test_clip(self) -> None:
        """max_norm: servers clip the mean gradient as clip_grad_norm_ does"""
        for settings in ((), ("train.clip=0.05",)):
            with self.subTest(settings):
                outcome = self.job(clips, settings=settings)
                self.assert_same_weights(outcome)
                self.assert_says(outcome, "train.clip is 0.05, as the program asks")

    def test_weight(self) -> None:
        """unequal batches count by their samples"""
        self.assert_same_weights(self.job(weighs))

    def test_closure(self) -> None:
        """step(closure) computes the gradients once"""
        self.assert_same_weights(self.job(in_closures))

    def test_bf16(self) -> None:
        """a model in bf16 trains from fp32 weights on the servers"""
        self.assert_same_weights(self.job(in_bf16), 5e-2)

    def test_forward(self) -> None:
        """modules that do not call their children wait for their weights, too"""
        self.assert_same_weights(self.job(attends))

    def test_buffers(self) -> None:
        """buffers are rank 0's on all ranks, in any overlap"""
        seen = []
        for overlap in ("backward", "both"):
            for told in self.job(shares_buffers, overlap).told.values():
                seen.append(told["mean"])
        self.assertEqual(len(seen), 4)
        self.assertTrue(all(mean == seen[0] for mean in seen), seen)

    def test_compile(self) -> None:
        """torch.compile: the same weights"""
        if not hasattr(torch, "compile"):
            self.skipTest(f"torch {torch.__version__} has no compile")
        self.assert_same_weights(self.job(compiles))

    def test_policies(self) -> None:
        """the same script under other policies"""
        for policy in ("ssp:2", "async", "backup:1", "local:4", "easgd:4", "downpour:4"):
            with self.subTest(policy):
                outcome = self.job(under_policy, settings=(f"cluster.policy={policy}",))
                for told in outcome.told.values():
                    self.assertLess(told["last"], told["first"])


if __name__ == "__main__":
    main()
