"""What scripts do around a step: it has the effect that it has in one process,
or one line says that it has none."""

from __future__ import annotations

import gc
import time
import warnings

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


class Halves(nn.Module):
    """Parameters in 16 bits, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Parameter(torch.zeros(3, dtype=torch.float16))
        self.short = nn.Parameter(torch.zeros(2, 2, dtype=torch.bfloat16))
        self.register_buffer("seen", torch.full((2,), 300.0, dtype=torch.float16))


def weighs_halves(where: str) -> None:
    """Gradients of 16 bits whose products with the weight need more: 1000 * 300 and
    3000 * 100 are above fp16, and 1.0078125 * 1000 is between two of bf16."""
    model = Halves()
    with gradweir.torch.Optimizer(
        _sgd(model, 1.0), model, where=where, weight=(1000, 3000)[RANK], step_weight=4000, log=False
    ) as optimizer:
        model.small.grad = torch.full_like(model.small, (300.0, 100.0)[RANK])
        model.short.grad = torch.full_like(model.short, 1.0078125)
        optimizer.step()
        tell(**{name: value.float().flatten().tolist() for name, value in model.state_dict().items()})


# ---- an optimizer that nobody keeps ----


def is_dropped() -> None:
    """A function trains and returns; the script goes on with something else."""

    def train() -> None:
        model = net()
        _steps(model, gradweir.torch.Optimizer(_sgd(model), model, log=False), 2)

    train()
    gc.collect()
    time.sleep(0.5 * RANK)


# ---- between backward() and step() ----


class Fails(torch.autograd.Function):
    """Raises in backward() when it is asked to."""

    now = False

    @staticmethod
    def forward(ctx, x):  # noqa: D102
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):  # noqa: D102
        if Fails.now:
            raise RuntimeError("no memory")
        return gradient


def changes(case: str) -> None:
    model = net()
    options = {
        "worker": {"where": "worker"},
        "local": {"where": "worker"},
        "held": {"where": "worker", "accumulate": 4},
    }
    name = case.split()[0]
    optimizer = gradweir.torch.Optimizer(_sgd(model), model, log=False, **options.get(name, {}))
    for step in range(4):
        if case == "loaded" and step == 1:
            model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
        if case == "momentum" and step == 1:
            optimizer.param_groups[0]["momentum"] = 0.9
        optimizer.zero_grad()
        Fails.now = case == "worker fails" and step == 0
        try:
            x, y = batch(step)
            nn.functional.cross_entropy(Fails.apply(model.body(x)) @ model.head.weight.t(), y).backward()
        except RuntimeError:
            continue
        if case == "data":
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad.data.mul_(0.5)
        if case == "dropped" and step == 2:
            optimizer.zero_grad(set_to_none=True)
        if case == "held clip":
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        if case == "inner hook" and step == 1:
            optimizer.inner.register_step_post_hook(lambda *_: None)
        if case.endswith(" step"):
            optimizer.inner.step()
        else:
            optimizer.step()
    optimizer.finish()


CHANGES = {
    "loaded": ("body.0.weight was written", "before gradweir.torch.Optimizer"),
    "momentum": ("momentum", "sgd", "before gradweir.torch.Optimizer"),
    "worker fails": ("did not come to its end",),
    "data": ("was changed between backward() and step()", "max_norm="),
    "dropped": ("was dropped between backward() and step()", 'overlap="none"'),
    "held clip": ("was changed before it was exchanged", "accumulate is 4"),
    "inner step": ("has taken this optimizer", "call step() of what it returned"),
    "local step": ("has taken this optimizer", "call step() of what it returned"),
    "inner hook": ("register them on what gradweir.torch.Optimizer returned",),
}
if not hasattr(torch.optim.Optimizer, "register_step_post_hook"):  # torch before 2.0
    del CHANGES["inner hook"]


def steps_on(where: str) -> None:
    """A scheduler of the optimizer that was taken, made before and after: it
    lowers the rate, and warns of nothing."""
    warnings.simplefilter("error")
    model = net()
    inner = _sgd(model, 1.0)
    schedulers = [torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.5)]
    optimizer = gradweir.torch.Optimizer(inner, model, where=where, log=False)
    schedulers.append(torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.5))
    schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5))
    for scheduler in schedulers:
        _steps(model, optimizer, 1)
        scheduler.step()
    tell(lr=inner.param_groups[0]["lr"])
    optimizer.finish()


def writes_the_same() -> None:
    """Weights of an average are tried, and the own ones put back."""
    model = net()
    optimizer = gradweir.torch.Optimizer(_sgd(model), model, log=False)
    for _ in range(3):
        _steps(model, optimizer, 1)
        own = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict({name: value * 0.5 for name, value in own.items()})
        model.load_state_dict(own)
    optimizer.finish()


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

    def test_weighed_halves(self) -> None:
        """a weight times a gradient of 16 bits is exact"""
        for where in ("servers", "worker"):
            with self.subTest(where):
                for told in self.job(weighs_halves, where).told.values():
                    self.assertEqual(told["small"], [-150.0] * 3)
                    self.assertEqual(told["short"], [-1.0078125] * 4)
                    self.assertEqual(told["seen"], [300.0] * 2)

    def test_dropped(self) -> None:
        """an optimizer that nobody keeps says good-bye at the script's end"""
        self.assertIn("finished at step 2", self.job(is_dropped).text)

    def test_changes(self) -> None:
        """what would have no effect is one exception with the remedy"""
        for case, words in CHANGES.items():
            with self.subTest(case):
                policy = "local:2" if "local" in case else "sync"
                settings = (f"cluster.policy={policy}",)
                outcome = self.job(changes, case, ranks=1, servers=1, settings=settings, code=1)
                for word in words:
                    self.assertIn(word, outcome.text)

    def test_schedulers(self) -> None:
        """a scheduler may be that of the optimizer that was taken"""
        for where, policy in (("servers", "sync"), ("worker", "sync"), ("worker", "local:2")):
            with self.subTest(where, policy=policy):
                settings = (f"cluster.policy={policy}",)
                outcome = self.job(steps_on, where, settings=settings)
                self.assertEqual(outcome.told[0]["lr"], 0.125)

    def test_the_same(self) -> None:
        """weights that are written and put back are no change"""
        for policy in ("sync", "async", "local:2"):
            with self.subTest(policy):
                self.job(writes_the_same, settings=(f"cluster.policy={policy}",))


if __name__ == "__main__":
    main()
