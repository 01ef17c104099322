"""The script takes steps of its own, by its own optimizer; under a local policy
weights are exchanged every so many steps (local, diloco, easgd, downpour)."""

from __future__ import annotations

import torch

from gradweir.job import Job
from gradweir.torch.exchange import Exchange
from gradweir.torch.tensors import Entry


class LocalExchange(Exchange):
    """Weights go out after each step; the library knows when an exchange is
    due. What comes back then are the servers' weights, or a mixture."""

    where = "local"

    def __init__(
        self, job: Job, parameters: list[Entry], buffers: list[Entry], buffers_of_all: bool
    ) -> None:
        super().__init__(job, parameters, [], buffers, buffers_of_all)

    def fired(self, i: int, parameter: torch.nn.Parameter) -> None:
        pass

    def step(self) -> None:
        self._try(self._push_all)
        given_up = self.training.given_up
        self._advance()
        if given_up:
            self.training.check()

    def _push_all(self) -> None:
        for i, entry in enumerate(self.parameters):
            self.staging.push(i, entry.tensor.detach())
        self.staging.flush()
        self.push_buffers()

    def take(self) -> None:
        self.take_entries(0, len(self.entries))
        self.staging.taken()
