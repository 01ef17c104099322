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


_KINDS = {torch.optim.SGD: _sgd_kind, torch.optim.Adam: _adam_kind, torch.optim.AdamW: _adamw_kind}


def kind_of(optimizer: torch.optim.Optimizer) -> Optional[str]:
    """The servers' name of an optimizer; None: servers do not know it. A class
    derived from one of torch's may do something else, and is not known."""
    find = _KINDS.get(type(optimizer))
    groups = optimizer.param_groups
    if find is None or any(group.get("maximize") for group in groups):
        return None
    return find(groups)


def describe(optimizer: torch.optim.Optimizer) -> str:
    """The optimizer's class with the options that servers do not know."""
    flags = [
        flag
        for flag in ("amsgrad", "maximize", "dampening")
        if any(group.get(flag) for group in optimizer.param_groups)
    ]
    name = type(optimizer).__name__
    return f"{name} with {', '.join(flags)}" if flags else name


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
