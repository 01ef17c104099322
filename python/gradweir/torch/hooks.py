"""A hook on each parameter that runs when its gradient has grown."""

from __future__ import annotations

from typing import Any, Callable

import torch

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
    """From within a hook: runs `call` at the end of this backward pass, before
    backward() returns."""
    torch.autograd.Variable._execution_engine.queue_callback(call)
