"""State dicts in torch's format, of optimizers whose states are on servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Mapping, Union

import torch

from gradweir import checkpoint, library
from gradweir.torch.rules import check_states, describe, kind_of
from gradweir.torch.tensors import BUFFER, Entry, buffers_of, names_of, parameters_of

# What the servers' optimizers keep of a parameter, by torch's names.
_STATES = {
    "momentum": ("momentum_buffer",),
    "nesterov": ("momentum_buffer",),
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
}


def _tensor(data: bytearray, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.frombuffer(data, dtype=torch.float32).reshape(shape)


def _state_of(tensor: checkpoint.Tensor) -> dict[str, Any]:
    """Of one parameter, as torch's optimizer has it."""
    state: dict[str, Any] = {
        name: _tensor(data, tensor.shape) for name, data in tensor.states.items()
    }
    if "exp_avg" in state:
        state = {"step": torch.tensor(float(tensor.updates)), **state}
    return state


def state_dict_of(
    held: checkpoint.Checkpoint, groups: list[dict[str, Any]], names: dict[int, str]
) -> dict[str, Any]:
    """An optimizer's state dict: its groups, and the states of a checkpoint.
    `names`: of its parameters, by id()."""
    state: dict[int, dict[str, Any]] = {}
    told, at = [], 0
    for group in groups:
        row = {name: value for name, value in group.items() if name != "params"}
        row["params"] = list(range(at, at + len(group["params"])))
        told.append(row)
        for parameter in group["params"]:
            name = names.get(id(parameter))
            found = held.tensors.get(name) if name is not None else None
            if found is not None and found.states:
                state[at] = _state_of(found)
            at += 1
    return {"state": state, "param_groups": told}


def load_checkpoint(
    directory: Union[str, Path],
    model: torch.nn.Module,
    optimizer: Union[torch.optim.Optimizer, None] = None,
) -> int:
    """Loads a checkpoint of a job's servers into a model and an optimizer of
    torch's, without a job.

    `directory`: a checkpoint, or a checkpoint.dir of which the newest is taken.
    `optimizer`: made from the model's parameters, of the class that the servers
    ran; it gets their states. Returns the step. FileNotFoundError, ValueError:
    there is no whole checkpoint, or it has no weights, or other states. KeyError:
    it has not all of the model's parameters. What the script keeps itself (frozen
    parameters, buffers of integers) stays as it is.
    """
    held = checkpoint.read(directory)
    if optimizer is not None:
        check_states(getattr(optimizer, "inner", optimizer), held.optimizer, held.policy)
    with torch.no_grad():
        _load_into(model.named_parameters(), "", held, True)
        _load_into(model.named_buffers(), BUFFER, held, False)
    if optimizer is not None:
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        optimizer.load_state_dict(state_dict_of(held, optimizer.param_groups, names))
    return held.step


def save_checkpoint(
    directory: Union[str, Path],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    step: int = 0,
    buffers: str = "rank0",
) -> Path:
    """Writes a model, and an optimizer of torch's with its states, as a
    checkpoint of servers: the way of a training that has begun elsewhere into a
    job, by ``gradweir run --set checkpoint.dir=DIRECTORY --resume``.

    `optimizer`, `buffers`: as gradweir.torch.Optimizer is to have them in that
    job. `step`: its first. Returns the checkpoint's path. ValueError: servers
    do not know the optimizer. FileExistsError: there is one of this step.
    """
    kind = kind_of(optimizer)
    if kind is None:
        raise ValueError(
            f'gradweir: servers do not know {describe(optimizer)}, which runs in the script: '
            f'with where="worker" the script saves its state itself'
        )
    groups = optimizer.param_groups
    entries = parameters_of(names_of(model, None, groups), groups)
    tensors = {entry.name: _held_of(entry, optimizer.state, kind) for entry in entries}
    for entry in [] if buffers == "local" else buffers_of(model, len(groups)):
        tensors[entry.name] = _held_of(entry, {}, kind)
        tensors[entry.name].rule = library.RULE_MEAN
    most = max(tensor.updates for tensor in tensors.values())
    for tensor in tensors.values():
        if tensor.rule == library.RULE_MEAN:
            tensor.updates = most
    return checkpoint.write(directory, checkpoint.Checkpoint(step, kind, tensors))


def has_states(states: Mapping[Any, Mapping[str, Any]]) -> bool:
    """An optimizer with these states of its parameters has taken steps."""
    return any(
        isinstance(value, torch.Tensor) and bool(value.any())
        for state in states.values()
        for value in state.values()
    )


def _bytes_of(tensor: torch.Tensor) -> bytearray:
    return bytearray(tensor.detach().cpu().float().contiguous().numpy().tobytes())


def _held_of(entry: Entry, state: Any, kind: str) -> checkpoint.Tensor:
    """A key of a checkpoint: a parameter or a buffer, and its states."""
    own = state.get(entry.tensor, {})
    held = checkpoint.Tensor(tuple(entry.shape), _bytes_of(entry.tensor), group=entry.group)
    for name in _STATES.get(kind, ()):
        value = own.get(name)
        held.states[name] = (
            bytearray(len(held.weights)) if value is None else _bytes_of(value)
        )
    held.updates = int(own.get("step", 1 if own else 0))
    return held


def _load_into(
    named: Iterable[tuple[str, torch.Tensor]],
    prefix: str,
    held: checkpoint.Checkpoint,
    is_parameter: bool,
) -> None:
    for name, tensor in named:
        found = held.tensors.get(prefix + name)
        if found is not None and found.shape != tuple(tensor.shape):
            raise ValueError(
                f"gradweir: {prefix}{name} is {found.shape} in the checkpoint, and "
                f"{tuple(tensor.shape)} in the model"
            )
        if found is not None and is_parameter and found.rule == library.RULE_MEAN:
            raise ValueError(
                f'gradweir: {name} is a mean of gradients in the checkpoint: with where="worker" '
                f"servers have no weights; load the script's own checkpoint"
            )
        if found is not None:
            tensor.copy_(_tensor(found.weights, found.shape))
        elif is_parameter and tensor.requires_grad and tensor.numel() > 0:
            raise KeyError(f"gradweir: the checkpoint has no {name}, which the model trains")
