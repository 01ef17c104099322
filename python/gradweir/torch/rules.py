"""Optimizers of torch that servers know, and the terms of their groups.

The servers' rules are those of torch: with the same gradient they make the same
weights, up to the rounding of fp32.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from gradweir.job import Terms


def _sgd_kind(groups: list[dict[str, Any]]) -> Optional[str]:
    moving = [group for group in groups if group["momentum"] != 0]
    if any(group["dampening"] != 0 for group in moving):
        return None
    kinds = {bool(group["nesterov"]) for group in moving}
    if not kinds:
        return "sgd"
    if len(kinds) == 2:
        return None
    return "nesterov" if kinds.pop() else "momentum"


def _adam_kind(groups: list[dict[str, Any]]) -> Optional[str]:
    decoupled = {bool(group.get("decoupled_weight_decay")) for group in groups}
    if any(group["amsgrad"] for group in groups) or len(decoupled) == 2:
        return None
    return "adamw" if decoupled.pop() else "adam"


def _adamw_kind(groups: list[dict[str, Any]]) -> Optional[str]:
    return None if any(group["amsgrad"] for group in groups) else "adamw"


# Flags of any of them that servers do not know.
_UNKNOWN = ("maximize", "differentiable")
# An option that only some of them have.
_OPTIONS = ("momentum", "nesterov", "betas", "eps", "amsgrad")
_CLASSES = {"sgd": "SGD", "momentum": "SGD", "nesterov": "SGD", "adam": "Adam", "adamw": "AdamW"}
# Policies under which ranks take steps of their own.
LOCAL = ("local", "diloco", "easgd", "downpour")

_KINDS = {torch.optim.SGD: _sgd_kind, torch.optim.Adam: _adam_kind, torch.optim.AdamW: _adamw_kind}


def kind_of(optimizer: torch.optim.Optimizer) -> Optional[str]:
    """The servers' name of an optimizer; None: servers do not know it. A class
    derived from one of torch's may do something else, and is not known."""
    find = _KINDS.get(type(optimizer))
    groups = optimizer.param_groups
    if find is None or any(group.get(flag) for group in groups for flag in _UNKNOWN):
        return None
    return find(groups)


def describe(optimizer: torch.optim.Optimizer) -> str:
    """The optimizer's class with the options that servers do not know."""
    flags = [
        flag
        for flag in ("amsgrad", "dampening", *_UNKNOWN)
        if any(group.get(flag) for group in optimizer.param_groups)
    ]
    name = type(optimizer).__name__
    return f"{name} with {', '.join(flags)}" if flags else name


def kinds_of(policy: str) -> set[str]:
    """The words of cluster.policy, without their numbers."""
    return {word.split(" until")[0].strip().split(":")[0] for word in policy.split(",")}


def check_states(optimizer: torch.optim.Optimizer, of: str, policy: str) -> None:
    """ValueError: the states of `of`, which servers ran under a policy, are not
    an optimizer's."""
    kind = kind_of(optimizer)
    if of == "none" or (kind == "sgd" and _CLASSES.get(of) == "SGD"):
        return  # there are none
    if kinds_of(policy) <= set(LOCAL):
        raise ValueError(
            f'gradweir: under cluster.policy = "{policy}" servers had the states of their own '
            f"{of}, and not those of the script's {describe(optimizer)}: leave it out, and load "
            f"the weights alone"
        )
    if kind is None or _CLASSES[kind] != _CLASSES.get(of):
        raise ValueError(
            f"gradweir: the checkpoint has the states of {of}, and the optimizer is "
            f"{describe(optimizer)}: make one of that class, or leave it out, and load the "
            f"weights alone"
        )


def check_options(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> None:
    """ValueError: groups of a state dict are those of another optimizer."""
    for own, other in zip(optimizer.param_groups, groups):
        ours, theirs = ([name for name in _OPTIONS if name in group] for group in (own, other))
        if ours != theirs:
            raise ValueError(
                f"gradweir: the state dict is of an optimizer with {', '.join(theirs)}, and this "
                f"one is {describe(optimizer)}, with {', '.join(ours)}"
            )


def terms_of(group: dict[str, Any]) -> Terms:
    """The hyperparameters of a group, as they are now."""
    beta1, beta2 = group.get("betas", (0.9, 0.999))
    return Terms(
        lr=float(group["lr"]),
        weight_decay=float(group["weight_decay"]),
        momentum=float(group.get("momentum", 0.0)),
        beta1=float(beta1),
        beta2=float(beta2),
        eps=float(group.get("eps", 1e-8)),
    )
