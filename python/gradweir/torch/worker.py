"""The script has the optimizer: gradients go out, and their mean comes back into
``.grad`` before backward() returns, as under DDP."""

from __future__ import annotations

import torch

from gradweir.errors import Error
from gradweir.job import Job
from gradweir.library import EUSAGE
from gradweir.torch.exchange import Exchange, Weight
from gradweir.torch.hooks import after_backward
from gradweir.torch.tensors import Entry, entry_of
from gradweir.torch.watch import Watch

# The key that says which parameters had a gradient on any rank.
USED = "gradweir.used"


class WorkerExchange(Exchange):
    """An exchange is a step of the job: one for each backward pass, or for every
    `accumulate` passes.

    A parameter that had no gradient on any rank keeps its ``.grad``, which may
    be None; one that had none here gets the mean over all ranks.
    """

    where = "worker"

    def __init__(
        self,
        job: Job,
        parameters: list[Entry],
        buffers: list[Entry],
        buffers_of_all: bool,
        accumulate: int,
        weight: Weight,
        overlaps: bool,
    ) -> None:
        self._used = torch.zeros(len(parameters))
        used = entry_of(USED, self._used, 0)
        super().__init__(job, parameters, [used], buffers, buffers_of_all, weight)
        self._accumulate = accumulate
        self._overlaps = overlaps
        self._watch = Watch(self.n)
        self._in_backward = False
        self._passes = 0  # since the last exchange
        self._holds = 0  # depth of no_sync()
        self._has_weights = False
        self._pushed_at = 0  # the number of the last step with gradients
        self._is_fresh = False  # gradients came that no step has used
        self._held = [False] * self.n  # has grown since the last exchange

    # ---- backward ----

    def hold(self, on: bool) -> None:
        """Between hold(True) and hold(False) gradients stay here."""
        self._holds += 1 if on else -1

    @property
    def _exchanges(self) -> bool:
        """The backward pass that goes on is the last before an exchange."""
        return self._holds == 0 and (self._passes + 1) % self._accumulate == 0

    def fired(self, i: int, parameter: torch.nn.Parameter) -> None:
        gradient = self._gradient_of(i, parameter)
        if gradient is None:
            return
        if not self._in_backward:
            self._in_backward = True
            after_backward(self._after_backward)
        is_final = self._watch.fire(i, gradient)
        self._held[i] = True
        if self._pushed[i]:
            raise RuntimeError(
                f"gradweir: {self.parameters[i].name} got a gradient twice in a backward pass "
                f'after it had left: pass overlap="none"'
            )
        if is_final and self._overlaps and self._exchanges:
            self._try(lambda: self._push(i, gradient))

    def _after_backward(self) -> None:
        self._check_hooks()
        exchanges = self._exchanges
        self._in_backward = False
        self._passes += 1
        if exchanges:
            self._exchange()
        self._watch.end_round()

    def _check_hooks(self) -> None:
        """Hooks of the script that are called after those of this module."""
        for i, entry in enumerate(self.parameters):
            gradient = entry.tensor.grad
            if gradient is None and self._watch.fired[i] > 0:
                raise ValueError(
                    f"gradweir: the gradient of {entry.name} was dropped in backward() before it was "
                    f"averaged, as by a hook that steps: let optimizer.step() take the step"
                )
            if gradient is not None and self._pushed[i] and self._watch.is_other(i, gradient):
                raise ValueError(
                    f"gradweir: the gradient of {entry.name} was changed in backward() after it had "
                    f"left, as by a hook: register hooks before gradweir.torch.Optimizer, or pass "
                    f'overlap="none"'
                )

    # ---- the exchange ----

    def _exchange(self) -> None:
        self._try(self._push_rest)
        self._passes = 0
        self._held = [False] * self.n
        self._pushed_at = self.training.clock
        self._advance()

    def _push_rest(self) -> None:
        used = [entry.tensor.grad is not None for entry in self.parameters]
        self._used.copy_(torch.tensor(used))
        super()._push_rest()
        self._send(self.n, self._used)
        self.staging.flush()

    @torch.no_grad()
    def take(self) -> None:
        if not self._has_weights:
            self._take_weights()
            return
        if self.training.clock <= self._pushed_at:
            return  # the job has ended without the step
        self.staging.take(self.n, self._used)
        for i, used in enumerate(self._used.tolist()):
            if used == 0:
                continue
            parameter = self.parameters[i].tensor
            if parameter.grad is None or 0 in parameter.grad.stride():  # expanded
                parameter.grad = torch.empty_like(parameter)
            self.staging.take(i, parameter.grad)
        self.take_buffers()
        self.staging.taken()
        self._is_fresh = True

    def _take_weights(self) -> None:
        """What the keys begin with are rank 0's parameters."""
        self._has_weights = True
        if self.job.step.number > 0:
            raise Error(
                EUSAGE,
                'gradweir: where="worker" keeps no weights on servers, from which this job goes '
                "on: start it without --resume, and load the script's own checkpoint",
            )
        self.take_entries(0, self.n)
        self.take_buffers()
        self.staging.taken()

    # ---- step ----

    def check(self) -> None:
        if not self._is_fresh:
            self.training.check()

    def step(self) -> None:
        """Exchanges what no backward pass has: a short last accumulation, and
        gradients that the script set itself, or steps by again."""
        if self._in_backward:
            raise RuntimeError(
                "gradweir: a backward pass did not come to its end, for it raised an exception: "
                "gradients were not averaged since then; let that exception end the script"
            )
        if self._passes > 0 or not self._is_fresh:
            self._check_rest()
            self._exchange()
            self.check()
        self._is_fresh = False

    def _check_rest(self) -> None:
        if self._holds:
            raise RuntimeError("gradweir: step() within no_sync(): its gradients stay on this rank")
        for i, entry in enumerate(self.parameters):
            gradient = entry.tensor.grad
            if self._held[i] and gradient is not None and self._watch.is_other(i, gradient):
                raise ValueError(
                    f"gradweir: the gradient of {entry.name} was changed before it was exchanged: "
                    f"this step has {self._passes} backward passes, and accumulate is "
                    f"{self._accumulate}"
                )
