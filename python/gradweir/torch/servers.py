"""Servers have the optimizer: gradients go out, new weights come back."""

from __future__ import annotations

from typing import Optional

import torch

from gradweir.job import Job, Terms
from gradweir.torch.exchange import Exchange, Weight
from gradweir.torch.rules import kind_of, terms_of
from gradweir.torch.tensors import Entry
from gradweir.torch.watch import Watch


class ServersExchange(Exchange):
    """A gradient leaves when the last micro-batch of its step has added to it;
    in the first step, from which that is learnt, all leave in step()."""

    where = "servers"

    def __init__(
        self,
        job: Job,
        parameters: list[Entry],
        buffers: list[Entry],
        buffers_of_all: bool,
        optimizer: torch.optim.Optimizer,
        weight: Weight,
        overlaps: bool,
    ) -> None:
        super().__init__(job, parameters, [], buffers, buffers_of_all, weight)
        self._optimizer = optimizer
        self._overlaps = overlaps
        self._watch = Watch(self.n)
        self._terms: list[Optional[Terms]] = [None] * len(optimizer.param_groups)
        self._kind = kind_of(optimizer)
        self._taken = [True] * self.n  # the step's weights are in the script's tensor
        self._versions: list[int] = []  # of the parameters, when a step begins

    # ---- forward ----

    def wait_in_forward(self) -> None:
        """From now on weights are taken by need()."""
        self.training.takes_early = False

    def need(self, i: int) -> None:
        """Has the step's weights of a parameter in the script's tensor; of a
        step that is given up they may not come."""
        if not self._taken[i]:
            self._try(lambda: self._wait_for(i))

    def _wait_for(self, i: int) -> None:
        self.job.wait(i, 1)
        with torch.no_grad():
            self.take_entries(i, i + 1)
        self.staging.taken()
        self._taken[i] = True

    def need_all(self) -> None:
        for i in range(self.n):
            self.need(i)

    def wait(self) -> None:
        """Has the newest weights: where a step is given up that no gradient
        knows of, those of the next one, or the job's last ones."""
        self.need_all()
        while self.training.given_up and not any(self._watch.fired):
            self._go_on()
            self.need_all()

    # ---- backward ----

    def fired(self, i: int, parameter: torch.nn.Parameter) -> None:
        gradient = self._gradient_of(i, parameter)
        if gradient is None:
            return
        self.need(i)
        is_final = self._watch.fire(i, gradient)
        if self._pushed[i]:
            raise RuntimeError(
                f"gradweir: {self.parameters[i].name} got a gradient after it had left: this step "
                f"has more backward passes than the first one, or a backward was not followed by "
                f'step(); pass overlap="none"'
            )
        if is_final and self._overlaps and not self._watch.strays:
            self._try(lambda: self._push(i, gradient))

    def _begin(self) -> None:
        self._check_kind()
        self._check_weights()
        for group, terms in enumerate(self._terms_now()):
            if terms != self._terms[group]:
                self.job.terms(group, terms)
                self._terms[group] = terms
        super()._begin()

    def _terms_now(self) -> list[Terms]:
        return [terms_of(group) for group in self._optimizer.param_groups]

    def _check_kind(self) -> None:
        kind = kind_of(self._optimizer)
        if kind != self._kind and kind != "sgd":  # a momentum of 0 is possible
            raise ValueError(
                f"gradweir: servers run {self._kind}, and the options of the optimizer ask for "
                f"{kind or 'another rule'} now (momentum, nesterov, amsgrad, ..): set them before "
                f"gradweir.torch.Optimizer takes it"
            )

    def note_weights(self) -> None:
        """What the parameters have now are the servers' weights."""
        self._versions = [entry.tensor._version for entry in self.parameters]

    def _check_weights(self) -> None:
        """Before the first gradient leaves, since a push may make new weights."""
        for i, entry in enumerate(self.parameters):
            if entry.tensor._version != self._versions[i] and self._is_other(i):
                raise ValueError(
                    f"gradweir: {entry.name} was written by the script (load_state_dict(), "
                    f"clamp_(), ..), but servers have the weights, and this one would be lost: "
                    f'write it before gradweir.torch.Optimizer, or pass where="worker"'
                )

    def _is_other(self, i: int) -> bool:
        """A parameter does not have the step's weights. Those of an average may
        have been there for a while."""
        if not self._taken[i]:
            return False
        tensor = self.parameters[i].tensor.detach().cpu()
        held = torch.empty(tensor.shape, dtype=tensor.dtype)
        self.job.take(i, held.data_ptr())
        return not torch.equal(tensor, held)

    # ---- step ----

    def step(self) -> None:
        self._check()
        self.need_all()
        self._try(self._push_rest)
        given_up = self.training.given_up
        self._watch.end_round()
        self._go_on()
        if given_up:
            self.training.check()

    def _go_on(self) -> None:
        self._taken = [False] * self.n
        self._advance()
        if not self.training.takes_early and self.training.ended is None:
            self._try(self._wait_for_buffers)

    def _wait_for_buffers(self) -> None:
        """No module waits for them."""
        first, n = self._first_buffer, len(self.entries) - self._first_buffer
        if n > 0:
            self.job.wait(first, n)
            with torch.no_grad():
                self.take_buffers()
            self.staging.taken()

    def _check(self) -> None:
        """Nothing may have happened to a gradient or a group that the servers
        did not see."""
        for i, entry in enumerate(self.parameters):
            gradient = entry.tensor.grad
            if gradient is None and self._pushed[i]:
                raise ValueError(
                    f"gradweir: the gradient of {entry.name} was dropped between backward() and "
                    f'step(), but has left: pass overlap="none", by which gradients leave in step()'
                )
            if gradient is not None and self._watch.was_changed(i, gradient):
                raise ValueError(
                    f"gradweir: the gradient of {entry.name} was changed between backward() and "
                    f"step(), as clipping does, but servers have it as backward() made it: pass "
                    f"max_norm= instead, by which servers clip the average as DDP does, or "
                    f'where="worker"'
                )
        if self._begun and self._terms != self._terms_now():
            raise ValueError(
                "gradweir: a learning rate or another option of the optimizer was changed between "
                "backward() and step(), but gradients have left with the old one: change it after "
                'step(), or pass overlap="none"'
            )

    def take(self) -> None:
        self.take_entries(0, len(self.entries))
        self.staging.taken()
        self._taken = [True] * self.n
