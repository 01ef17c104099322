"""The tensors of a script as keys of a job: which, their names, copies in and
out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Optional

import torch

from gradweir import library
from gradweir.job import Job, Key

_TYPES = {
    torch.float32: library.F32,
    torch.bfloat16: library.BF16,
    torch.float16: library.F16,
}


def type_of(name: str, tensor: torch.Tensor) -> int:
    """The library's type of a parameter; TypeError names the tensor."""
    found = _TYPES.get(tensor.dtype)
    if found is None:
        raise TypeError(
            f"gradweir: {name} is {tensor.dtype}; servers take float32, bfloat16 and float16: "
            f"convert the model (model.float())"
        )
    if tensor.layout != torch.strided:
        raise TypeError(f"gradweir: {name} is {tensor.layout}; a dense tensor is needed")
    return found


@dataclass
class Entry:
    """A parameter or buffer that is a key."""

    name: str
    tensor: torch.Tensor
    group: int
    shape: torch.Size
    address: int
    nbytes: int
    type: int
    like: tuple[torch.dtype, torch.Size, torch.device]
    home: Optional[dict[str, Optional[torch.Tensor]]] = None  # a module's buffers

    def refresh(self) -> None:
        """A module may have another tensor as its buffer by now. One of another
        shape or type, as a cache that has grown, is the rank's own."""
        now = self.home and self.home.get(self.name.rpartition(".")[2])
        if now is None or (now.dtype, now.shape, now.device) != self.like:
            return
        self.tensor = now


def entry_of(name: str, tensor: torch.Tensor, group: int) -> Entry:
    return Entry(
        name,
        tensor,
        group,
        tensor.shape,
        tensor.data_ptr(),
        tensor.numel() * tensor.element_size(),
        type_of(name, tensor),
        (tensor.dtype, tensor.shape, tensor.device),
    )


def key_of(entry: Entry) -> Key:
    return Key(entry.name, tuple(entry.shape), entry.type, entry.group)


def names_of(
    model: Optional[torch.nn.Module],
    named_parameters: Optional[Iterable[tuple[str, torch.nn.Parameter]]],
    groups: list[dict],
) -> list[tuple[str, torch.nn.Parameter]]:
    """(name, parameter) in the model's order, which is forward's for most
    models. A tied parameter has its first name."""
    if named_parameters is not None:
        return list(named_parameters)
    if model is not None:
        return list(model.named_parameters())
    if all("param_names" in group for group in groups):
        return [pair for group in groups for pair in zip(group["param_names"], group["params"])]
    raise ValueError(
        "gradweir: parameters have no names: pass the model, or named_parameters=; names are the "
        "keys on the servers"
    )


def parameters_of(
    names: list[tuple[str, torch.nn.Parameter]], groups: list[dict]
) -> list[Entry]:
    """The entries of an optimizer's parameters that are trained. Frozen
    parameters and those without an element are no keys."""
    group_of = {id(p): i for i, group in enumerate(groups) for p in group["params"]}
    entries = []
    for name, parameter in names:
        group = group_of.pop(id(parameter), None)
        if group is not None and parameter.requires_grad and parameter.numel() > 0:
            entries.append(entry_of(name, parameter, group))
    if group_of:
        raise ValueError(
            f"gradweir: the optimizer has {len(group_of)} parameters that are not in the model: "
            f"make it from the parameters of the model that is passed"
        )
    if not entries:
        raise ValueError("gradweir: no parameter of the optimizer requires a gradient")
    return entries


def frozen_of(
    names: list[tuple[str, torch.nn.Parameter]], groups: list[dict]
) -> list[tuple[str, torch.nn.Parameter]]:
    """The optimizer's parameters that are no keys, since they are not trained."""
    held = {id(p) for group in groups for p in group["params"]}
    return [
        (name, p) for name, p in names if id(p) in held and not p.requires_grad and p.numel() > 0
    ]


# Buffers of a model have names of their own among the keys.
BUFFER = "buffer."


def buffers_of(model: Optional[torch.nn.Module], group: int) -> list[Entry]:
    """The entries of a model's buffers in floating point, and staging copies of
    those that count."""
    if model is None:
        return []
    entries = []
    for name, buffer in model.named_buffers():
        if buffer.numel() > 0 and buffer.dtype in _TYPES:
            entry = entry_of(BUFFER + name, buffer, group)
            entry.home = model.get_submodule(name.rpartition(".")[0])._buffers
            entries.append(entry)
    return entries


def put(job: Job, key: int, entry: Entry) -> None:
    """First weights of a key from its tensor."""
    value = entry.tensor.detach().cpu().contiguous()
    job.put(key, value.data_ptr())
