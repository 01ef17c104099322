"""Backward passes and gradients of every kind that scripts make: one worker has
the weights of the plain script, or one line says that it cannot, and two have
those of the whole batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gradweir.torch
from models import HAS_TRANSFORMERS, apart, gpt2, next_token_loss, text
from support import RANK, WORLD, JobTest, main, tell

STEPS = 4
WHERES = ("servers", "worker")

try:
    from torch.func import functional_call
except ImportError:  # torch before 2.0
    from torch.nn.utils.stateless import functional_call


class Stack(nn.Module):
    """Layers of which each is a checkpoint, as large models have them; the last
    two share their weight."""

    def __init__(self, reentrant: Optional[bool] = None) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))
        self.layers[4].weight = self.layers[3].weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            x = self._run(layer, x).tanh()
        return self._run(lambda h: self._run(self.layers[-1], h) * 0.5, x)  # one in another

    def _run(self, call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        if self.reentrant is None:
            return call(x)
        return checkpoint(call, x, use_reentrant=self.reentrant)


def stack(reentrant: Optional[bool] = None) -> Stack:
    torch.manual_seed(5)
    return Stack(reentrant)


def data(step: int, size: int = 8) -> torch.Tensor:
    return torch.randn(size, 6, generator=torch.Generator().manual_seed(300 + step))


def mean_loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return (model(x) - 1).square().mean()


Step = Callable[[nn.Module, torch.optim.Optimizer, torch.Tensor], Any]


def plain(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    mean_loss(model, x).backward()
    optimizer.step()


def of_leaf(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """The first segment is a checkpoint, too: its input needs a gradient."""
    plain(model, optimizer, x.clone().requires_grad_())


def two_passes(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    for part in (x[: len(x) // 2], x[len(x) // 2 :]):
        (mean_loss(model, part.clone().requires_grad_()) / 2).backward()
    optimizer.step()


def clipped(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    mean_loss(model, x.clone().requires_grad_()).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-2)
    optimizer.step()


def clipped_by_value(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    mean_loss(model, x).backward()
    nn.utils.clip_grad_value_(model.parameters(), 1e-3)
    optimizer.step()


def penalty(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """Of the gradient of the input, as in WGAN-GP."""
    optimizer.zero_grad()
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    (mean_loss(model, x) + slope.square().mean()).backward()
    optimizer.step()


def penalty_of_weights(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor
) -> None:
    """Of the gradient of the parameters."""
    optimizer.zero_grad()
    loss = mean_loss(model, x)
    slopes = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    (loss + sum(slope.square().sum() for slope in slopes)).backward()
    optimizer.step()


def creates_graph(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """A second pass goes through the gradients of the first one."""
    optimizer.zero_grad(set_to_none=True)
    mean_loss(model, x).backward(create_graph=True)
    sum(p.grad.square().sum() for p in model.parameters()).backward()
    optimizer.step()
    for parameter in model.parameters():
        parameter.grad = None


def retains(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss = mean_loss(model, x)
    loss.backward(retain_graph=True)
    loss.backward()
    optimizer.step()


def of_some(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """A pass with inputs=."""
    optimizer.zero_grad()
    mean_loss(model, x).backward(inputs=[model.layers[0].weight, model.layers[2].bias])
    optimizer.step()


def functional(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    halves = {name: parameter * 0.5 for name, parameter in model.named_parameters()}
    (functional_call(model, halves, (x,)) - 1).square().mean().backward()
    optimizer.step()


@torch.no_grad()
def within_no_grad(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    with torch.enable_grad():
        loss = mean_loss(model, x)
    loss.backward()
    optimizer.step()


def closure(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    def call() -> torch.Tensor:
        optimizer.zero_grad()
        loss = mean_loss(model, x)
        loss.backward()
        return loss

    assert optimizer.step(call).item() > 0


def keeps_zeros(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    model.zero_grad(set_to_none=False)
    mean_loss(model, x).backward()
    optimizer.step()


def by_hand(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """No backward(): gradients are set, and one is none."""
    parameters = list(model.parameters())
    slopes = torch.autograd.grad(mean_loss(model, x), parameters)
    for parameter, slope in zip(parameters[1:], slopes[1:]):
        parameter.grad = slope
    optimizer.step()


def by_hand_alike(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """As of a sum: a gradient is one number, seen from all places."""
    for parameter in model.parameters():
        parameter.grad = x.mean().expand_as(parameter)
    optimizer.step()


def by_hand_after(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """Changed after backward()."""
    optimizer.zero_grad()
    mean_loss(model, x).backward()
    for parameter in model.parameters():
        parameter.grad = parameter.grad * 0.5
    optimizer.step()


def without(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """step() with no gradient, with one, and again with that."""
    optimizer.zero_grad(set_to_none=True)
    optimizer.step()
    mean_loss(model, x).backward()
    optimizer.step()
    optimizer.step()


def sharpness(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    """SAM: the gradient at weights near by."""
    optimizer.zero_grad()
    mean_loss(model, x).backward()
    with torch.no_grad():
        own = [parameter.clone() for parameter in model.parameters()]
        for parameter in model.parameters():
            parameter.add_(parameter.grad, alpha=0.05)
    optimizer.zero_grad()
    mean_loss(model, x).backward()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), own):
            parameter.copy_(value)
    optimizer.step()


def hooks(model: nn.Module) -> None:
    """Of the script: a gradient is halved before it is added."""
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient * 0.5)


def late_hooks(model: nn.Module) -> None:
    """Of the script: a gradient is halved after it was added."""

    def halve(parameter: nn.Parameter) -> None:
        parameter.grad.mul_(0.5)

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(halve)


def dropping_hooks(model: nn.Module) -> None:
    """Of the script: an optimizer of each parameter steps in backward()."""

    def step(parameter: nn.Parameter) -> None:
        with torch.no_grad():
            parameter.add_(parameter.grad, alpha=-0.5)
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)


@dataclass(frozen=True)
class Case:
    """A step; the checkpoints of the model, which the plain script has not; what
    the script does to the model before, or after, Optimizer takes it; passes and
    steps of a round; what servers, or the worker, say against it."""

    step: Step
    reentrant: Optional[bool] = None
    before: Optional[Callable[[nn.Module], None]] = None
    after: Optional[Callable[[nn.Module], None]] = None
    passes: int = 1
    steps: int = 1
    overlap: str = "backward"
    servers: tuple[str, ...] = ()
    worker: tuple[str, ...] = ()


CHANGED = ("was changed between backward() and step()", 'where="worker"')

LATE = {late_hooks, dropping_hooks}
IN_BACKWARD = ("changed in backward()", "hooks before gradweir.torch.Optimizer", 'overlap="none"')
DROPPED = ("was dropped in backward()", "hook")
BOTH = ('overlap="both" needs', "servers")
WRITTEN = ("was written by the script",)

CASES = {
    "reentrant": Case(of_leaf, reentrant=True),
    "reentrant, passes": Case(two_passes, reentrant=True, passes=2),
    "reentrant, clip": Case(clipped, reentrant=True, servers=CHANGED),
    "reentrant, both": Case(of_leaf, reentrant=True, overlap="both", worker=BOTH),
    "not reentrant, both": Case(plain, reentrant=False, overlap="both", worker=BOTH),
    "not reentrant": Case(plain, reentrant=False),
    "not reentrant, passes": Case(two_passes, reentrant=False, passes=2),
    "clip value": Case(clipped_by_value, servers=CHANGED),
    "penalty": Case(penalty),
    "penalty of weights": Case(penalty_of_weights),
    "create_graph": Case(creates_graph, passes=2),
    "retain_graph": Case(retains, passes=2),
    "inputs": Case(of_some),
    "functional_call": Case(functional),
    "no_grad": Case(within_no_grad),
    "closure": Case(closure),
    "zeros": Case(keeps_zeros),
    "by hand": Case(by_hand),
    "by hand, alike": Case(by_hand_alike),
    "without": Case(without, passes=3, steps=3),
    "by hand after": Case(by_hand_after, servers=CHANGED),
    "sharpness": Case(sharpness, passes=2),
    "hooks": Case(plain, before=hooks),
    "hooks after": Case(plain, after=hooks),
    "late hooks": Case(plain, before=late_hooks),
    "late hooks after": Case(plain, after=late_hooks, servers=CHANGED, worker=IN_BACKWARD),
    "late hooks after, none": Case(plain, after=late_hooks, overlap="none", servers=CHANGED),
    "dropping hooks": Case(plain, after=dropping_hooks, servers=WRITTEN, worker=DROPPED),
}
if not hasattr(nn.Parameter, "register_post_accumulate_grad_hook"):  # torch before 2.1
    CASES = {name: case for name, case in CASES.items() if not LATE & {case.before, case.after}}


def beside(name: str, where: str) -> None:
    """Steps of the case, and of the plain script on the batches of all ranks."""
    case = CASES[name]
    model, alone = stack(case.reentrant), stack()
    reference = torch.optim.SGD(alone.parameters(), lr=0.5, momentum=0.9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for change in (case.before, case.after):
        if change is not None:
            change(alone)
    if case.before is not None:
        case.before(model)
    optimizer = gradweir.torch.Optimizer(
        optimizer, model, where=where, overlap=case.overlap, log=False
    )
    if case.after is not None:
        case.after(model)
    for step in range(STEPS):
        x = data(step)
        case.step(model, optimizer, x[RANK::WORLD])
        case.step(alone, reference, x)
    optimizer.wait()
    tell(apart=apart(model, alone), clock=optimizer.clock)
    optimizer.finish()


def of_gpt2(reentrant: str, where: str) -> None:
    """Hugging Face's model with checkpoints, beside one without."""
    model, alone = gpt2(), gpt2()
    for module in [*model.modules(), *alone.modules()]:
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    options = {} if reentrant == "default" else {"use_reentrant": reentrant == "True"}
    model.gradient_checkpointing_enable(options or None)
    make = lambda m: torch.optim.AdamW(m.parameters(), lr=1e-3)
    reference = make(alone)
    with gradweir.torch.Optimizer(make(model), model, where=where, log=False) as optimizer:
        for step in range(STEPS):
            x = text(step)
            for m, o, part in ((model, optimizer, x[RANK::WORLD]), (alone, reference, x)):
                o.zero_grad()
                next_token_loss(m, part).backward()
                o.step()
        tell(apart=apart(model, alone), clock=optimizer.clock)


BY_HAND = ("by hand", "by hand, alike", "without")


class Passes(JobTest):
    def check(self, name: str, where: str, ranks: int) -> None:
        case = CASES[name]
        words = case.servers if where == "servers" else case.worker
        with self.subTest(name, where=where, ranks=ranks):
            code = 1 if words else 0
            outcome = self.job(beside, name, where, ranks=ranks, servers=1, code=code)
            self.assert_says(outcome, *words)
            clock = STEPS * (case.passes if where == "worker" else case.steps)
            self.assertEqual(len(outcome.told), 0 if words else ranks)
            for told in outcome.told.values():
                self.assertLessEqual(told["apart"], 1e-6)
                self.assertEqual(told["clock"], clock)

    def test_one(self) -> None:
        """one worker: the plain script's weights, or one line"""
        for name in CASES:
            for where in WHERES:
                self.check(name, where, 1)

    def test_two(self) -> None:
        """two workers: checkpoints of either kind, gradients by hand: those of all ranks"""
        for name in ("reentrant", "reentrant, passes", "not reentrant", *BY_HAND):
            for where in WHERES:
                self.check(name, where, 2)

    def test_gpt2(self) -> None:
        """GPT-2 with gradient_checkpointing_enable(), reentrant, not, and as it is"""
        if not HAS_TRANSFORMERS:
            self.skipTest("no transformers")
        for reentrant in ("True", "False", "default"):
            for where in WHERES:
                with self.subTest(reentrant, where=where):
                    for told in self.job(of_gpt2, reentrant, where).told.values():
                        self.assertLessEqual(told["apart"], 2e-5)
                        self.assertEqual(told["clock"], STEPS)


if __name__ == "__main__":
    main()
