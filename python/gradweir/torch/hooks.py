"""Hooks on what PyTorch does: a gradient has grown, a pass ends, an optimizer is
asked to step."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, Callable, Optional

import torch
from torch.autograd.function import BackwardCFunction

Fired = Callable[[int, torch.nn.Parameter], None]


def _hook_accumulator(parameter: torch.nn.Parameter, call: Callable[[], None]) -> list[Any]:
    """For torch before 2.1, which has no public hook: on the node of the graph
    that adds to the gradient, and lives as long as somebody keeps it."""
    with torch.enable_grad():
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return [node, node.register_hook(lambda *_: call())]


def hook_all(parameters: list[torch.nn.Parameter], fired: Fired) -> list[Any]:
    """Calls fired(i, parameter) after each addition to a parameter's gradient.
    The hooks last as long as what is returned is kept."""
    kept: list[Any] = []
    for i, parameter in enumerate(parameters):
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            kept.append(
                parameter.register_post_accumulate_grad_hook(lambda p, i=i: fired(i, p))
            )
        else:
            kept.extend(_hook_accumulator(parameter, lambda p=parameter, i=i: fired(i, p)))
    return kept


def after_backward(call: Callable[[], None]) -> None:
    """From within a hook: runs `call` at the end of the script's backward(),
    before it returns. A pass that a node of another pass makes, as reentrant
    checkpoints of activations do, is a part of that one."""
    queue = torch.autograd.Variable._execution_engine.queue_callback
    queue(lambda: _end_pass(call))


def _end_pass(call: Callable[[], None]) -> None:
    node = _node_around()
    if node is None:
        call()
    else:
        _in_pass_of(node, lambda: after_backward(call))


def _node_around() -> Optional[Any]:
    """The node whose backward() makes the pass that goes on here, if one does."""
    frame = sys._getframe()
    while frame is not None and frame.f_code is not BackwardCFunction.apply.__code__:
        frame = frame.f_back
    return frame and frame.f_locals["self"]


def _in_pass_of(node: Any, call: Callable[[], None]) -> None:
    """Runs `call` within the pass that `node` is computed in, which goes on to
    the nodes after it."""
    handles: list[Any] = []

    def run(*_: Any) -> None:
        if handles:
            while handles:
                handles.pop().remove()
            call()

    handles.extend(after.register_hook(run) for after, _ in node.next_functions if after is not None)


def guard_step(optimizer: torch.optim.Optimizer, check: Callable[[], None]) -> None:
    """Calls check() before each step() of an optimizer; by an exception it
    refuses the step."""
    own = optimizer.step

    @functools.wraps(own)  # with the marks that schedulers look for
    def step(_: torch.optim.Optimizer, *arguments: Any, **options: Any) -> Any:
        check()
        return own(*arguments, **options)

    optimizer.step = types.MethodType(step, optimizer)  # type: ignore[method-assign]
