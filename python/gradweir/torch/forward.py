"""Weights that come while forward computes: a module waits for its own."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch


class Forward:
    """Calls need(i) for each parameter i before a module computes with it.

    Not every module that owns parameters is called (nn.MultiheadAttention reads
    those of its out_proj itself), so the first pass learns which are: a
    parameter is guarded by the nearest module above it that was called.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        parameters: list[torch.nn.Parameter],
        need: Callable[[int], None],
    ) -> None:
        self._model = model
        self._parameters = parameters
        self._need = need
        self._called: set[str] = set()
        self._handles: list[Any] = [
            module.register_forward_pre_hook(lambda *_, name=name: self._called.add(name))
            for name, module in model.named_modules()
        ]
        self._learnt = False

    def learn(self) -> None:
        """After the first step: hooks stay on the modules that guard."""
        if self._learnt:
            return
        self._learnt = True
        for handle in self._handles:
            handle.remove()
        guarded: dict[str, list[int]] = {}
        index = {id(parameter): i for i, parameter in enumerate(self._parameters)}
        for owner, module in self._model.named_modules():
            for parameter in module.parameters(recurse=False):
                i = index.get(id(parameter))
                guard = self._guard_of(owner)
                if i is not None and guard is not None:
                    guarded.setdefault(guard, []).append(i)
        modules = dict(self._model.named_modules())
        self._handles = [
            modules[name].register_forward_pre_hook(lambda *_, keys=keys: self._need_all(keys))
            for name, keys in guarded.items()
        ]

    def _guard_of(self, name: str) -> Optional[str]:
        while name not in self._called:
            if not name:
                return None
            name = name.rpartition(".")[0]
        return name

    def _need_all(self, keys: list[int]) -> None:
        for i in keys:
            self._need(i)
