"""Servers have the optimizer: gradients go out, new weights come back."""

from __future__ import annotations

from typing import Optional

import torch

from gradweir.errors import JobEnded
from gradweir.job import Job, Terms
from gradweir.torch.exchange import Exchange, Weight, check_gradient
from gradweir.torch.rules import terms_of
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
        super().__init__(job, parameters, [], buffers, buffers_of_all)
        self._optimizer = optimizer
        self._weight = weight
        self._overlaps = overlaps
        self._watch = Watch(self.n)
        self._pushed = [False] * self.n
        self._terms: list[Optional[Terms]] = [None] * len(optimizer.param_groups)
        self._begun = False  # a gradient of this step has left
        self._given_up = False
        self._factor = 1
        self._taken = [True] * self.n  # the step's weights are in the script's tensor

    # ---- forward ----

    def wait_in_forward(self) -> None:
        """From now on weights are taken by need()."""
        self.training.takes_early = False

    def need(self, i: int) -> None:
        """Has the step's weights of a parameter in the script's tensor."""
        if self._taken[i]:
            return
        try:
            self.job.wait(i, 1)
        except JobEnded:
            self._given_up = True
            return
        with torch.no_grad():
            self.take_entries(i, i + 1)
        self.staging.taken()
        self._taken[i] = True

    def need_all(self) -> None:
        for i in range(self.n):
            self.need(i)

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
        overlaps = self._overlaps and not self._watch.strays
        if is_final and overlaps and not self._given_up:
            try:
                self._push(i, gradient)
            except JobEnded:
                self._given_up = True

    def _push(self, i: int, gradient: torch.Tensor) -> None:
        check_gradient(self.parameters[i], gradient)
        if not self._begun:
            self._begin()
        self.staging.push(i, gradient if self._factor == 1 else gradient * self._factor)
        self._pushed[i] = True

    def _begin(self) -> None:
        """Before the first gradient of a step: its terms and its weight."""
        for group, terms in enumerate(self._terms_now()):
            if terms != self._terms[group]:
                self.job.terms(group, terms)
                self._terms[group] = terms
        if callable(self._weight):
            self._factor = self._weight()
            self.job.weigh(self._factor)
        elif self._weight != 1:
            self._factor = self._weight
            self.job.weigh(self._factor)
        self._begun = True

    def _terms_now(self) -> list[Terms]:
        return [terms_of(group) for group in self._optimizer.param_groups]

    # ---- step ----

    def step(self) -> None:
        self._check()
        if not self._given_up:
            try:
                self._push_rest()
            except JobEnded:
                self._given_up = True
        given_up = self._given_up
        self._watch.end_round()
        self._pushed = [False] * self.n
        self._begun = self._given_up = False
        self._taken = [False] * self.n
        self.advance()
        if given_up:
            self.training.check()
        if not self.training.takes_early:
            self._wait_for_buffers()

    def _wait_for_buffers(self) -> None:
        try:
            with torch.no_grad():
                self.wait_for_buffers()
        except JobEnded:
            self._given_up = True

    def _check(self) -> None:
        """Nothing may have happened to a gradient or a group that the servers
        did not see."""
        for i, entry in enumerate(self.parameters):
            gradient = entry.tensor.grad
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

    def _push_rest(self) -> None:
        self.need_all()
        skipped = []
        for i, entry in enumerate(self.parameters):
            if self._pushed[i]:
                continue
            gradient = entry.tensor.grad
            if gradient is None:
                skipped.append(i)
            else:
                self._push(i, gradient)
        if not self._begun:
            self._begin()
        self.staging.flush()
        self.skip_all(skipped, counts=True)
        self.push_buffers()

    def take(self) -> None:
        self.take_entries(0, len(self.entries))
        self.staging.taken()
        self._taken = [True] * self.n
