"""The optimizer that a script wraps its own in."""

from __future__ import annotations

import contextlib
import sys
from collections import OrderedDict
from numbers import Integral
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

import torch

from gradweir import checkpoint, library
from gradweir.job import Job
from gradweir.torch.exchange import Exchange, Weight
from gradweir.torch.forward import Forward
from gradweir.torch.hooks import guard_step, hook_all
from gradweir.torch.local import LocalExchange
from gradweir.torch.rules import LOCAL, check_options, describe, kind_of, kinds_of
from gradweir.torch.servers import ServersExchange
from gradweir.torch.state import has_states, state_dict_of
from gradweir.torch.tensors import Entry, buffers_of, frozen_of, names_of, parameters_of
from gradweir.torch.worker import WorkerExchange
from gradweir.training import Member, Score, Training, give_up


def _one_of(name: str, value: str, words: Sequence[str]) -> str:
    if value not in words:
        raise ValueError(f"gradweir: {name}={value!r}: {', '.join(words)} are possible")
    return value


class Optimizer(Member, torch.optim.Optimizer):
    """Trains through gradweir's servers; takes the place of the optimizer.

    The constructor joins the job, waits for all ranks, and gives all of them
    rank 0's parameters and buffers. After ``step()`` the parameters have the
    weights of the next step.

    `optimizer`: any torch.optim.Optimizer; becomes ``.inner``. Groups, defaults
    and state are shared with it, so schedulers may have either.
    `model` or `named_parameters`: names of the parameters, which are the keys
    on the servers: equal on all ranks.
    `where`: "servers": they run the optimizer (SGD, Adam, AdamW), under any
    policy; "worker": the script does, and servers average gradients, as DDP
    does; under local policies it takes steps of its own, and weights are
    exchanged. "auto": servers if they know the optimizer.
    `accumulate`: backward passes in a step. "auto": where servers have the
    optimizer, as many as the first step has; else gradients are averaged after
    each pass, as DDP does, unless ``no_sync()`` holds them back.
    `max_norm`: servers clip the mean gradient to that norm, over all
    parameters; under local policies each rank's own is clipped. None: the job's
    (train.clip, policy.inner_clip).
    `weight`: what this rank's mean gradient counts: a whole number, such as its
    samples, or a callable that is asked before each step (0: this rank has none
    in it); `step_weight`: the sum over all ranks in a full step, needed for a
    callable.
    `overlap`: "backward": gradients leave while backward goes on; "none": all
    leave in step(); "both": step() does not wait for weights either, each
    module waits for its own in forward. Who reads parameters elsewhere calls
    wait() first. Needs the model, and is not for torch.compile.
    `buffers`: "rank0": all ranks get rank 0's after each step, as under DDP;
    "mean": the mean; "local": each rank keeps its own.
    `score`: returns (mean loss, correct, samples) over this rank's part of the
    test set; is called when train.eval_every of the job says so.
    `coordinator`, `rank`, `set`: see :class:`gradweir.job.Job`.
    `log`: rank 0 says on standard error where the optimizer is.

    Raises gradweir.Error with the library's line; TypeError and ValueError for
    what cannot be exchanged, with the remedy. One thread at a time.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: Optional[torch.nn.Module] = None,
        *,
        named_parameters: Optional[Iterable[tuple[str, torch.nn.Parameter]]] = None,
        where: str = "auto",
        accumulate: Union[int, str] = "auto",
        max_norm: Optional[float] = None,
        weight: Weight = 1,
        step_weight: int = 0,
        overlap: str = "backward",
        buffers: str = "rank0",
        score: Optional[Score] = None,
        coordinator: Optional[str] = None,
        rank: Optional[int] = None,
        set: Sequence[str] = (),
        log: bool = True,
    ) -> None:
        if isinstance(optimizer, Optimizer):
            raise ValueError("gradweir: the optimizer is one of gradweir's already")
        _one_of("where", where, ("auto", "servers", "worker"))
        _one_of("overlap", overlap, ("backward", "none", "both"))
        _one_of("buffers", buffers, ("rank0", "mean", "local"))
        if accumulate != "auto" and (not isinstance(accumulate, int) or accumulate < 1):
            raise ValueError(f'gradweir: accumulate={accumulate!r}: "auto" or a number from 1 on')
        if not callable(weight) and (not isinstance(weight, Integral) or weight < 1):
            raise ValueError(
                f"gradweir: weight={weight!r}: a whole number from 1 on, or a callable, is possible"
            )
        if callable(weight) and step_weight == 0:
            raise ValueError(
                "gradweir: weight is a callable, so servers need step_weight=, the sum of the "
                "weights of all ranks in a full step"
            )
        self.inner = optimizer
        self._share()
        names = names_of(model, named_parameters, optimizer.param_groups)
        self._parameters = parameters_of(names, optimizer.param_groups)
        self._frozen = frozen_of(names, optimizer.param_groups)
        self._size = sum(len(group["params"]) for group in optimizer.param_groups)
        self.job = Job(coordinator, rank, set)
        try:
            self._join(model, where, accumulate, max_norm, weight, step_weight, overlap, buffers, score)
            self._check_states(optimizer.state)
            self._note_weights()
        except BaseException as error:
            give_up(self.job, error)
            raise
        self._hooks = hook_all([entry.tensor for entry in self._parameters], self._exchange.fired)
        self._forward = self._forward_of(model) if overlap == "both" else None
        self._steps_inner = False
        if self.where != "worker":
            guard_step(optimizer, self._check_inner)
        if log and self.rank == 0:
            self._say()

    def _share(self) -> None:
        """What torch's own constructor sets, without a state of its own."""
        for name, value in vars(self.inner).items():
            if isinstance(value, OrderedDict):
                self.__dict__[name] = OrderedDict()
        patch = getattr(self, "_patch_step_function", None) or getattr(
            self, "_hook_for_profile", None
        )
        if patch is not None:
            patch()

    # ---- joining ----

    def _join(
        self,
        model: Optional[torch.nn.Module],
        where: str,
        accumulate: Union[int, str],
        max_norm: Optional[float],
        weight: Weight,
        step_weight: int,
        overlap: str,
        buffers: str,
        score: Optional[Score],
    ) -> None:
        self.policy = self.job.setting("cluster.policy")
        kind = kind_of(self.inner)
        where = self._where(where, kind)
        if max_norm is not None:
            self._check_clip(where, max_norm)
        last = len(self.inner.param_groups) if where == "servers" else 1
        entries = [] if buffers == "local" else buffers_of(model, last)
        of_all = buffers == "mean"
        rules = [library.RULE_OPTIMIZER if where != "worker" else library.RULE_MEAN] * last
        if entries:
            rules.append(library.RULE_MEAN)
        if not callable(weight) and weight != 1:
            step_weight = step_weight or weight * self.job.ranks
        overlaps = overlap != "none"
        self._exchange: Exchange
        if where == "servers":
            self._exchange = ServersExchange(
                self.job, self._parameters, entries, of_all, self.inner, weight, overlaps
            )
        else:
            for entry in self._parameters:
                entry.group = 0
            if where == "worker":
                passes = 1 if accumulate == "auto" else int(accumulate)
                self._exchange = WorkerExchange(
                    self.job, self._parameters, entries, of_all, passes, weight, overlaps
                )
            elif weight != 1:
                raise ValueError(
                    f"gradweir: weight= is of gradients, and under cluster.policy = "
                    f'"{self.policy}" the script takes steps of its own, which all count alike: '
                    f"leave it out"
                )
            else:
                self._exchange = LocalExchange(self.job, self._parameters, entries, of_all)
        wanted = {"servers": kind, "worker": "none", "local": None}[where]
        self._exchange.join(
            rules, wanted, step_weight, score, where == "local", max_norm or 0.0
        )

    def _forward_of(self, model: Optional[torch.nn.Module]) -> Optional[Forward]:
        exchange = self._exchange
        if model is None or not isinstance(exchange, ServersExchange):
            raise ValueError(
                'gradweir: overlap="both" needs the model, whose modules wait for their weights, '
                'and servers that run the optimizer; pass overlap="backward"'
            )
        tensors = [entry.tensor for entry in self._parameters]
        return Forward(model, tensors, exchange.need)

    def _where(self, where: str, kind: Optional[str]) -> str:
        """"servers", "worker" or "local"."""
        kinds = kinds_of(self.policy)
        if where == "auto":
            where = "servers" if kind is not None else "worker"
        if where == "servers":
            if kind is None:
                raise ValueError(
                    f"gradweir: servers do not know {describe(self.inner)}: SGD without "
                    f"dampening, Adam and AdamW without amsgrad and maximize are possible; pass "
                    f'where="worker", by which they average gradients and the script updates'
                )
            return "servers"
        if kinds == {"sync"}:
            return "worker"
        if kinds <= set(LOCAL):
            return "local"
        raise ValueError(
            f"gradweir: {describe(self.inner)} runs in the script, and under cluster.policy = "
            f'"{self.policy}" servers must run the optimizer: take SGD, Adam or AdamW, or one of '
            f"the policies sync, local, diloco, easgd, downpour"
        )

    @staticmethod
    def _check_clip(where: str, max_norm: float) -> None:
        if not 0 < max_norm < float("inf"):
            raise ValueError(f"gradweir: max_norm={max_norm}: a norm above 0 is possible")
        if where != "servers":
            raise ValueError(
                "gradweir: max_norm= is for servers that run the optimizer; here the script has "
                "the mean gradient, and clips it as always (clip_grad_norm_)"
            )

    def _say(self) -> None:
        text = {
            "servers": f"servers run {describe(self.inner)}",
            "worker": f"servers average gradients, {describe(self.inner)} runs in the script",
            "local": f"{describe(self.inner)} runs in the script, weights are exchanged",
        }[self.where]
        print(
            f"gradweir: {len(self._parameters)} tensors, {self.world_size} ranks, policy "
            f"{self.policy}: {text}",
            file=sys.stderr,
            flush=True,
        )

    # ---- as torch's ----

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.inner.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.inner.param_groups = groups

    @property
    def defaults(self) -> dict[str, Any]:
        return self.inner.defaults

    @property
    def state(self) -> Any:
        return self.inner.state

    @state.setter
    def state(self, state: Any) -> None:
        self.inner.state = state

    def __repr__(self) -> str:
        return f"gradweir.torch.Optimizer({self.inner!r}, where={self.where!r})"

    def zero_grad(self, *arguments: bool, **options: bool) -> None:
        """As torch's, whose default is another one since 2.0."""
        self.training.use()
        self.inner.zero_grad(*arguments, **options)

    def add_param_group(self, group: dict[str, Any]) -> None:
        raise RuntimeError(
            "gradweir: keys are fixed when a job begins: add parameters to the optimizer before "
            "gradweir.torch.Optimizer takes it"
        )

    def state_dict(self) -> dict[str, Any]:
        """In torch's format. Where servers have the states, asks them for a
        checkpoint, waits for it, and reads it: the job's checkpoint.dir must be
        seen here. Before the first step there are none."""
        if self.where != "servers" or self.clock == 0:
            return self.inner.state_dict()
        if self.policy != "sync":
            raise RuntimeError(
                f'gradweir: state_dict(): the states are on the servers, which under '
                f'cluster.policy = "{self.policy}" save them while steps go on: let '
                f"checkpoint.every do that, and read them by gradweir.torch.load_checkpoint"
            )
        directory = self.job.setting("checkpoint.dir")
        if not directory:
            raise RuntimeError(
                "gradweir: state_dict(): the states are on the servers, and the job has no "
                "checkpoint.dir to save them in: start it with --set checkpoint.dir=DIR"
            )
        self.job.save()
        names = {id(entry.tensor): entry.name for entry in self._parameters}
        return state_dict_of(checkpoint.read(directory), self.param_groups, names)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Of the groups; where the script has the optimizer, of the states, too.
        Servers have states of their own: of the checkpoint that the job goes on
        from, or none; RuntimeError then."""
        if self.where != "servers":
            self.inner.load_state_dict(state_dict)
            return
        check_options(self.inner, state_dict["param_groups"])
        self._check_states(state_dict["state"])
        self.inner.load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})

    def _check_states(self, state: Mapping[Any, Mapping[str, Any]]) -> None:
        """States of a training elsewhere are not lost in silence."""
        if self.where == "servers" and self._exchange.seeds and self.clock == 0:
            if has_states(state):
                raise RuntimeError(
                    "gradweir: the optimizer has states, and the servers of this new job have "
                    "none: write them as a checkpoint, gradweir.torch.save_checkpoint(DIR, model, "
                    "optimizer), and start the job with --set checkpoint.dir=DIR --resume"
                )

    # GradScaler hands its factor to an optimizer that says so, and multiplies
    # the gradients itself elsewhere.
    @property
    def _step_supports_amp_scaling(self) -> bool:
        return self.where == "servers" or getattr(self.inner, "_step_supports_amp_scaling", False)

    def step(self, closure: Optional[Callable[[], float]] = None) -> Optional[float]:
        """Takes the step, and waits for the next weights. `closure` computes the
        gradients, once, as in Lightning, and returns the loss, which this
        returns. JobEnded: the job has no further step, and this one was not
        taken."""
        loss = None
        if closure is not None:
            self._check_closure()
            with torch.enable_grad():
                loss = closure()
        self._take_step()
        return loss

    def _check_closure(self) -> None:
        if isinstance(self.inner, torch.optim.LBFGS):
            raise ValueError(
                "gradweir: LBFGS computes gradients several times in a step, each rank as often as "
                "it needs: take an optimizer that computes them once"
            )

    def _take_step(self) -> None:
        self._exchange.check()
        self._check_parameters()
        if self.where == "servers":
            self._check_scaler()
            self._check_hooks()
            self._count_step()
        else:
            if self.where == "worker":
                self._exchange.step()
            self._step_inner()
        if self.where != "worker":
            self._exchange.step()
        if self._forward is not None:
            self._wait_in_forward()
        self._count_change()

    def _count_step(self) -> None:
        """For a scheduler that was made of the inner optimizer, and warns where
        that has not stepped."""
        self.inner._opt_called = True
        if hasattr(self.inner, "_step_count"):  # torch before 2.4
            self.inner._step_count += 1

    def _step_inner(self) -> None:
        for name in ("grad_scale", "found_inf"):
            if hasattr(self, name):
                setattr(self.inner, name, getattr(self, name))
        self._steps_inner = True
        try:
            self.inner.step()
        finally:
            self._steps_inner = False

    def _check_inner(self) -> None:
        """A step of the script's own optimizer would exchange nothing."""
        if not self._steps_inner:
            raise RuntimeError(
                "gradweir: gradweir.torch.Optimizer has taken this optimizer, whose own step() the "
                "other ranks would not hear of: call step() of what it returned"
            )

    def _check_hooks(self) -> None:
        """Nobody calls those of an optimizer that does not step."""
        for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
            if getattr(self.inner, name, None):
                raise RuntimeError(
                    "gradweir: servers take the step, and hooks of the script's own optimizer are "
                    "not called: register them on what gradweir.torch.Optimizer returned"
                )

    def _wait_in_forward(self) -> None:
        """From the second step on, when it is known which modules wait."""
        assert self._forward is not None and isinstance(self._exchange, ServersExchange)
        self._forward.learn()
        self._exchange.wait_in_forward()

    def wait(self) -> None:
        """All parameters have the newest weights; only overlap="both" waits."""
        if isinstance(self._exchange, ServersExchange):
            self._exchange.wait()

    def _check_scaler(self) -> None:
        if getattr(self, "grad_scale", None) is not None:
            raise ValueError(
                "gradweir: GradScaler multiplies gradients, which servers must have as they are: "
                'use bfloat16, which needs no scale, or pass where="worker"'
            )

    def _check_parameters(self) -> None:
        """The keys are the parameters as they were at first."""
        if sum(len(group["params"]) for group in self.inner.param_groups) != self._size:
            raise RuntimeError(
                "gradweir: the optimizer has other parameters than at first: make a new "
                "gradweir.torch.Optimizer for them, in a new job"
            )
        for entry in self._parameters:
            tensor = entry.tensor
            if tensor.data_ptr() != entry.address:
                self._check_moved(entry)
        for name, parameter in self._frozen:
            if parameter.requires_grad:
                raise RuntimeError(
                    f"gradweir: {name} was frozen when gradweir.torch.Optimizer took the "
                    f"optimizer, and is no key on the servers: call requires_grad_(True) before, "
                    f"and have it without a gradient (.grad = None) where it is not to be trained"
                )

    @staticmethod
    def _check_moved(entry: Entry) -> None:
        tensor = entry.tensor
        now = (tensor.dtype, tensor.shape, tensor.device)
        if now != entry.like:
            dtype, shape, device = entry.like
            raise RuntimeError(
                f"gradweir: {entry.name} was {dtype} {tuple(shape)} on {device}, and is "
                f"{now[0]} {tuple(now[1])} on {now[2]}: convert and move the model before "
                f"gradweir.torch.Optimizer takes it"
            )
        entry.address = tensor.data_ptr()

    def _count_change(self) -> None:
        """For autograd, which finds tensors that were changed too early."""
        count = getattr(torch.autograd.graph, "increment_version", None)
        if count is not None:
            for entry in self._parameters:
                count(entry.tensor)
        self._note_weights()

    def _note_weights(self) -> None:
        if isinstance(self._exchange, ServersExchange):
            self._exchange.note_weights()

    # ---- the job ----

    @property
    def training(self) -> Training:
        return self._exchange.training

    @property
    def where(self) -> str:
        """"servers", "worker", or "local": the script's own steps."""
        return self._exchange.where

    @property
    def world_size(self) -> int:
        return self.job.ranks

    def report(self, loss: float, *, correct: int = 0, samples: int = 0) -> None:
        """The outcome of this step on this rank, for the job's lines: its mean
        loss, and how many samples it had. Before step()."""
        self._exchange.training.report(float(loss), correct, samples)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes within it only add up gradients, as DDP's no_sync();
        where servers have the optimizer nothing leaves before step() anyway."""
        exchange = self._exchange
        if not isinstance(exchange, WorkerExchange):
            yield
            return
        exchange.hold(True)
        try:
            yield
        finally:
            exchange.hold(False)

    def __enter__(self) -> "Optimizer":
        return self
