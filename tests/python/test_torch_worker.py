"""where="worker": servers average gradients, the script has the optimizer; and
local policies, under which it takes steps of its own."""

from __future__ import annotations

import torch
from torch import nn

import gradweir.torch
from models import apart, batch, digest, loss_of, net
from support import RANK, WORLD, JobTest, main, tell


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.5)


def _average(models: list[nn.Module]) -> None:
    """What DDP makes of the gradients of two ranks."""
    for one, other in zip(models[0].parameters(), models[1].parameters()):
        if one.grad is None:
            continue
        mean = (one.grad + other.grad) * 0.5
        one.grad = mean.clone()
        other.grad = mean.clone()


def beside_ddp() -> None:
    """20 steps with a clip, beside what DDP computes, to the bit."""
    model = net(seed=7 + RANK)
    both = [net(), net()]
    references = [_optimizer(m) for m in both]
    with gradweir.torch.Optimizer(_optimizer(model), model, log=False) as optimizer:
        lower = torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma=0.5)
        lowers = [torch.optim.lr_scheduler.StepLR(o, 5, gamma=0.5) for o in references]
        for step in range(20):
            x, y = batch(step)
            optimizer.zero_grad()
            loss_of(model, x[RANK::WORLD], y[RANK::WORLD]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            lower.step()
            for rank, (m, o) in enumerate(zip(both, references)):
                o.zero_grad()
                loss_of(m, x[rank::2], y[rank::2]).backward()
            _average(both)
            for m, o, s in zip(both, references, lowers):
                nn.utils.clip_grad_norm_(m.parameters(), 0.5)
                o.step()
                s.step()
        tell(same=digest(model) == digest(both[0]), where=optimizer.where, digest=digest(model))


def beside_plain() -> None:
    """One rank is the plain script, to the bit."""
    model, alone = net(), net()
    reference = _optimizer(alone)
    with gradweir.torch.Optimizer(_optimizer(model), model, log=False) as optimizer:
        for step in range(20):
            x, y = batch(step)
            for m, o in ((model, optimizer), (alone, reference)):
                o.zero_grad()
                loss_of(m, x, y).backward()
                o.step()
        tell(same=digest(model) == digest(alone))


def accumulates(how: str) -> None:
    """4 micro-batches in a step, 3 in the last: every pass, no_sync, accumulate."""
    model, alone = net(), net()
    reference = _optimizer(alone)
    accumulate = 4 if how == "accumulate" else "auto"
    optimizer = gradweir.torch.Optimizer(
        _optimizer(model), model, where="worker", accumulate=accumulate, log=False
    )
    with optimizer:
        micro = 0
        for step in range(4):
            n = 4 if step < 3 else 3
            optimizer.zero_grad()
            reference.zero_grad()
            for i in range(n):
                x, y = batch(micro)
                micro += 1
                loss = loss_of(model, x[RANK::WORLD], y[RANK::WORLD]) / 4
                if how == "no_sync" and i < n - 1:
                    with optimizer.no_sync():
                        loss.backward()
                else:
                    loss.backward()
                (loss_of(alone, x, y) / 4).backward()
            optimizer.step()
            reference.step()
        tell(apart=apart(model, alone), clock=optimizer.clock)


def scales() -> None:
    """GradScaler with a step that overflows: skipped, on all ranks."""
    model, alone = net(), net()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    beside = torch.amp.GradScaler("cpu", init_scale=1024.0)
    reference = torch.optim.SGD(alone.parameters(), lr=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with gradweir.torch.Optimizer(optimizer, model, where="worker", log=False) as optimizer:
        for step in range(6):
            x, y = batch(step)
            for m, o, s, part in (
                (model, optimizer, scaler, slice(RANK, None, WORLD)),
                (alone, reference, beside, slice(None)),
            ):
                o.zero_grad()
                loss = s.scale(loss_of(m, x[part], y[part]))
                if step == 3 and (RANK == 1 or m is alone):
                    loss = loss * float("inf")
                loss.backward()
                s.unscale_(o)
                nn.utils.clip_grad_norm_(m.parameters(), 1.0)
                s.step(o)
                s.update()
        tell(apart=apart(model, alone), scale=scaler.get_scale(), beside=beside.get_scale())


def differs() -> None:
    """Rank 1 does not use a layer; nobody uses another one."""
    torch.manual_seed(1)
    model = nn.ModuleDict({name: nn.Linear(4, 4) for name in ("all", "one", "none")})
    before = {name: layer.weight.detach().clone() for name, layer in model.items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.5)
    with gradweir.torch.Optimizer(optimizer, model, where="worker", log=False) as optimizer:
        y = model["all"](torch.ones(1, 4))
        if RANK == 0:
            y = model["one"](y)
        y.sum().backward()
        none = model["none"].weight.grad is None
        one = model["one"].weight.grad
        optimizer.step()
        tell(
            none=none and torch.equal(before["none"], model["none"].weight),
            one=one is not None and not torch.equal(before["one"], model["one"].weight),
            digest=digest(model),
        )


def steps_alone() -> None:
    """Adagrad steps in the script, weights are exchanged every 4 steps."""
    model = net(seed=7 + RANK)

    def mean_loss() -> float:
        with torch.no_grad():
            return sum(loss_of(model, *batch(i)).item() for i in range(8)) / 8

    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        first = mean_loss()
        for step in range(64):
            x, y = batch(step % 8)
            optimizer.zero_grad()
            loss_of(model, x[RANK::WORLD], y[RANK::WORLD]).backward()
            optimizer.step()
        tell(first=first, last=mean_loss(), where=optimizer.where, digest=digest(model))


def averages_at_rounds() -> None:
    """local:2 with the script's SGD: the mean of the ranks' weights, by hand."""
    model = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.5)
    seen = []
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        optimizer.inner.param_groups[0]["lr"] = 0.0
        for step in range(4):
            model.weight.grad = torch.zeros_like(model.weight)
            optimizer.inner.step = lambda: model.weight.data.add_(1.0 + RANK)
            optimizer.step()
            seen.append(model.weight[0, 0].item())
        tell(seen=seen)


class Worker(JobTest):
    def test_ddp(self) -> None:
        """two ranks, RMSprop, clip, StepLR: DDP to the bit, whatever the servers"""
        digests = set()
        for servers, transport in ((1, "shm"), (3, "tcp")):
            outcome = self.job(
                beside_ddp, servers=servers, settings=(f"cluster.transport={transport}",)
            )
            for told in outcome.told.values():
                self.assertTrue(told["same"])
                self.assertEqual(told["where"], "worker")
                digests.add(told["digest"])
        self.assertEqual(len(digests), 1)

    def test_plain(self) -> None:
        """one rank: the plain script to the bit"""
        self.assertTrue(self.job(beside_plain, ranks=1).told[0]["same"])

    def test_accumulation(self) -> None:
        """accumulation: each pass, no_sync(), accumulate=4 with a short last one"""
        for how, clock in (("passes", 15), ("no_sync", 4), ("accumulate", 4)):
            with self.subTest(how):
                for told in self.job(accumulates, how).told.values():
                    self.assertLessEqual(told["apart"], 2e-5)
                    self.assertEqual(told["clock"], clock)

    def test_scaler(self) -> None:
        """GradScaler: an overflow on one rank skips the step on all"""
        if not hasattr(getattr(torch, "amp", None), "GradScaler"):
            self.skipTest(f"torch {torch.__version__} has no GradScaler for the CPU")
        for told in self.job(scales).told.values():
            self.assertLessEqual(told["apart"], 1e-5)
            self.assertEqual(told["scale"], told["beside"])

    def test_unused(self) -> None:
        """a layer that one rank uses gets its mean, one that none uses stays"""
        outcome = self.job(differs)
        for told in outcome.told.values():
            self.assertTrue(told["none"])
            self.assertTrue(told["one"])
        self.assertEqual(outcome.told[0]["digest"], outcome.told[1]["digest"])

    def test_local(self) -> None:
        """local, diloco, easgd, downpour: the script's own optimizer"""
        for policy in ("local:4", "diloco:4", "easgd:4", "downpour:4"):
            with self.subTest(policy):
                outcome = self.job(steps_alone, settings=(f"cluster.policy={policy}",))
                for told in outcome.told.values():
                    self.assertEqual(told["where"], "local")
                    self.assertLess(told["last"], told["first"])
                if policy in ("local:4", "diloco:4"):
                    self.assertEqual(outcome.told[0]["digest"], outcome.told[1]["digest"])

    def test_rounds(self) -> None:
        """local:2: after each round the weights are the ranks' mean"""
        outcome = self.job(averages_at_rounds, settings=("cluster.policy=local:2",))
        # 1, then two steps of 1 and of 2: the mean of 3 and 5 is 4; then 6 and 8
        self.assertEqual(outcome.told[0]["seen"], [2.0, 4.0, 5.0, 7.0])
        self.assertEqual(outcome.told[1]["seen"], [3.0, 4.0, 6.0, 7.0])


if __name__ == "__main__":
    main()
