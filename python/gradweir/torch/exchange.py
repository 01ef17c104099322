"""What the ways of an exchange have in common: gradients or weights of a
script's parameters go to the servers, and come back.

    servers.py   gradients go out, weights come back: servers have the optimizer
    worker.py    gradients go out, their mean comes back: the script has it
    local.py     the script takes steps of its own, weights are exchanged
"""

from __future__ import annotations

from typing import Callable, Optional, Union

import torch

from gradweir.errors import JobEnded
from gradweir.job import Job
from gradweir.torch.staging import staging_of
from gradweir.torch.tensors import Entry, key_of, put
from gradweir.training import Score, Training

Weight = Union[int, Callable[[], int]]


class Exchange:
    """Keys of a job: first the parameters, then a way's own, then buffers.

    `rules`: of the keys' groups; the last one is of buffers. `buffers_of_all`:
    their mean is taken, and not rank 0's.
    """

    where: str

    def __init__(
        self,
        job: Job,
        parameters: list[Entry],
        own: list[Entry],
        buffers: list[Entry],
        buffers_of_all: bool,
        weight: Weight = 1,
    ) -> None:
        self.job = job
        self.parameters = parameters
        self.entries = parameters + own + buffers
        self.n = len(parameters)
        self._first_buffer = self.n + len(own)
        self._buffers_of_all = buffers_of_all
        self._weight = weight
        self._factor = 1
        self._begun = False  # a gradient of this step has left
        self._pushed = [False] * self.n
        self.seeds = False  # servers have nothing but this rank's weights
        self.staging = staging_of(job, self.entries)
        self.training: Training

    def join(
        self,
        rules: list[int],
        optimizer: Optional[str],
        step_weight: int,
        score: Optional[Score],
        own_steps: bool = False,
        max_norm: float = 0.0,
    ) -> None:
        """Declares the keys, gives or takes the first weights, and begins."""
        self.job.declare(
            [key_of(entry) for entry in self.entries],
            rules,
            optimizer,
            step_weight,
            score is not None,
            own_steps,
            f"torch {torch.__version__}, {self.parameters[0].tensor.device}",
            max_norm,
        )
        self.seeds = self.job.makes_weights
        if self.seeds:
            for key, entry in enumerate(self.entries):
                put(self.job, key, entry)
        self.job.start()
        self.training = Training(self.job, len(self.entries), self.take, score)
        self.training.begin()

    def _gradient_of(self, i: int, parameter: torch.nn.Parameter) -> Optional[torch.Tensor]:
        """A gradient that a pass has added to; None: there is nothing to do."""
        gradient = parameter.grad
        if gradient is None or self.training.ended is not None:
            return None
        check_gradient(self.parameters[i], gradient)
        return gradient

    # ---- for the ways ----

    def take(self) -> None:
        """The keys' weights have come: copies them to the script's tensors."""
        raise NotImplementedError

    def fired(self, i: int, parameter: torch.nn.Parameter) -> None:
        """A backward pass has added to a parameter's gradient."""
        raise NotImplementedError

    def step(self) -> None:
        """Of the optimizer."""
        raise NotImplementedError

    def check(self) -> None:
        """JobEnded: a step cannot be taken, for the job has no further one."""
        self.training.check()

    # ---- parts of them ----

    def _begin(self) -> None:
        """Before the first gradient of a step: the step's weight."""
        self._factor = self._weight() if callable(self._weight) else self._weight
        if callable(self._weight) or self._factor != 1:
            self.job.weigh(self._factor)
        self._begun = True

    def _try(self, calls: Callable[[], None]) -> None:
        """Makes calls for the step that has begun, unless it is given up."""
        if self.training.given_up:
            return
        try:
            calls()
        except JobEnded:
            self.training.given_up = True

    def _push(self, i: int, gradient: torch.Tensor) -> None:
        """A gradient leaves, after what must precede a step's first one."""
        if not self._begun:
            self._begin()
        self._send(i, gradient)
        self._pushed[i] = True

    def _send(self, key: int, value: torch.Tensor) -> None:
        """Times this rank's weight, by whose sum servers divide: in fp32, as the
        product of 16 bits may be too large for them. A rank whose weight is 0 pushes
        nothing."""
        if self._factor != 0:
            self.staging.push(key, value if self._factor == 1 else value.float() * self._factor)

    def _push_rest(self) -> None:
        """What has not left: gradients, that there is none, and buffers."""
        skipped = []
        for i, entry in enumerate(self.parameters):
            if self._pushed[i]:
                continue
            gradient = entry.tensor.grad
            if gradient is None:
                skipped.append(i)
            else:
                check_gradient(entry, gradient)
                self._push(i, gradient)
        if not self._begun:
            self._begin()
        self.staging.flush()
        if self._factor != 0:
            self.skip_all(skipped, counts=True)
            self.push_buffers()

    def _advance(self) -> None:
        """Ends the step, and begins the next one."""
        if self.training.given_up:
            self.staging.drop()
        self._pushed = [False] * self.n
        self._begun = False
        self.training.advance()

    def push_buffers(self) -> None:
        first, n = self._first_buffer, len(self.entries) - self._first_buffer
        if n == 0:
            return
        for entry in self.entries[first:]:
            entry.refresh()
        if self._buffers_of_all or self.job.rank == 0:
            for key in range(first, first + n):
                self._send(key, self.entries[key].tensor)
            self.staging.flush()
        else:
            self.job.skip(first, n)

    def take_entries(self, first: int, end: int) -> None:
        for key in range(first, end):
            self.entries[key].refresh()
            self.staging.take(key, self.entries[key].tensor.data)

    def take_buffers(self) -> None:
        self.take_entries(self._first_buffer, len(self.entries))

    def skip_all(self, keys: list[int], counts: bool) -> None:
        """Skips keys in order, in as few calls as there are runs of them."""
        begin = 0
        for at in range(1, len(keys) + 1):
            if at == len(keys) or keys[at] != keys[at - 1] + 1:
                self.job.skip(keys[begin], at - begin, counts)
                begin = at


def check_gradient(entry: Entry, gradient: torch.Tensor) -> None:
    """TypeError: the gradient cannot be sent as it is."""
    if gradient.layout != torch.strided:
        raise TypeError(
            f"gradweir: the gradient of {entry.name} is {gradient.layout}: make the layer with "
            f"sparse=False"
        )
    if gradient.dtype != entry.tensor.dtype:
        raise TypeError(
            f"gradweir: the gradient of {entry.name} is {gradient.dtype}, the parameter "
            f"{entry.tensor.dtype}"
        )
