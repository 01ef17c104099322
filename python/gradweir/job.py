"""A job in which this process is a rank: the calls of gradweir.h for Python."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Callable, NoReturn, Optional, Sequence

from gradweir import library
from gradweir.errors import Error, Interrupted, JobEnded
from gradweir.library import FLOAT_BYTES, quick, slow

# A wait gives the interpreter's lock up for so long at most: then signals and
# other threads have their turn.
WAIT_MS = 100
# A copy of so many bytes is worth giving the lock up.
LONG_COPY = 1 << 20


# The coordinators that this process has joined.
_joined: set[str] = set()


@dataclass(frozen=True)
class Key:
    """A tensor of the job: its name, shape and type (``library.F32`` ..)."""

    name: str
    shape: tuple[int, ...]
    type: int = library.F32
    group: int = 0


@dataclass(frozen=True)
class Terms:
    """Hyperparameters of a group of keys; what its optimizer does not have is 0."""

    lr: float
    weight_decay: float = 0.0
    momentum: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8


@dataclass
class Result:
    """The outcome of a step on this rank: mean loss, predictions, samples."""

    loss: float = 0.0
    correct: int = 0
    samples: int = 0


def coordinator_beside(store: bool) -> Optional[str]:
    """HOST:PORT of the coordinator where the environment names none, but
    MASTER_ADDR and MASTER_PORT are those of a `store` of torch's: the port after
    it. None: the library finds it."""
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if not store or os.environ.get("GRADWEIR_COORDINATOR") or not host or not port:
        return None
    return f"{host}:{int(port) + 1}"


def _second_of(error: Error) -> Error:
    """What the coordinator says to a process that has been a member already."""
    return Error(
        error.status,
        f"{error.text}: this process has joined this job already, and each Optimizer needs a job "
        f"of its own: start another one by gradweir coordinator and gradweir server, and pass "
        f"coordinator=HOST:PORT, or have one Optimizer over all parameters",
    )


class Job:
    """One job, used by one thread at a time.

    The constructor joins the coordinator; it returns when this process has its
    rank. Then: ``declare``, ``put`` on the rank that makes the first weights,
    ``start``, and steps: ``begin``, ``wait``/``take``, ``push``/``skip``,
    ``end``. ``finish`` and ``close`` end it.

    Every call raises :class:`Error` with the library's line; :class:`JobEnded`
    says that there is no further step. Calls that wait can be interrupted
    (KeyboardInterrupt) and change nothing then.
    """

    def __init__(
        self,
        coordinator: Optional[str] = None,
        rank: Optional[int] = None,
        set: Sequence[str] = (),
        wait: float = 30.0,
    ) -> None:
        """`coordinator`: HOST:PORT, else GRADWEIR_COORDINATOR of the environment,
        else MASTER_ADDR with MASTER_PORT, under torchrun the port after it.
        `rank`: the one to ask for, else RANK of the environment, else a free
        one. `set`: settings that may differ per host. `wait`: seconds for the
        coordinator to be there."""
        self._handle = ctypes.c_void_p()
        coordinator = coordinator or coordinator_beside("TORCHELASTIC_RUN_ID" in os.environ)
        texts = (ctypes.c_char_p * len(set))(*(text.encode() for text in set))
        options = library.Options(
            coordinator=coordinator.encode() if coordinator else None,
            rank=library.ANY_RANK if rank is None else rank,
            set=texts,
            sets=len(set),
            wait_ms=max(1, int(wait * 1000)),
        )
        why = ctypes.create_string_buffer(1024)
        status = slow.open(options, self._handle, why, len(why))
        if status != library.OK:
            raise Error(status, why.value.decode(errors="replace"))
        self.step = library.Step()
        place = coordinator or os.environ.get("GRADWEIR_COORDINATOR", "")
        try:
            self._wait(slow.join)
        except BaseException as error:
            self.close()
            if type(error) is Error and place in _joined:
                raise _second_of(error) from None
            raise
        _joined.add(place)
        self.rank: int = quick.rank(self._handle)
        self.ranks: int = quick.ranks(self._handle)

    # ---- failures and waits ----

    @property
    def error(self) -> str:
        """The line about the last failure."""
        return quick.error(self._handle).decode(errors="replace")

    def _fails(self, status: int) -> NoReturn:
        text = self.error or quick.status_text(status).decode()
        if status == library.EEND:
            raise JobEnded(status, "the job has no further step")
        if status == library.EINTERRUPTED:
            raise Interrupted(status, text)
        raise Error(status, text)

    def _check(self, status: int) -> None:
        if status != library.OK:
            self._fails(status)

    def _wait(self, call: Callable[..., int], *arguments: object) -> None:
        """Makes a call that waits, in pieces between which signals are heard."""
        while True:
            status = call(self._handle, *arguments, WAIT_MS)
            if status == library.OK:
                return
            if status not in (library.ETIMEOUT, library.EAGAIN):
                self._fails(status)

    # ---- the job ----

    def setting(self, key: str) -> str:
        """The value of a key of the job, "cluster.policy", as text."""
        room = ctypes.create_string_buffer(4096)
        status = quick.setting(self._handle, key.encode(), room, len(room))
        if status < 0:
            raise Error(status, f"the job has no key {key}")
        return room.value.decode(errors="replace")

    # ---- from the declaration to the first step ----

    def declare(
        self,
        keys: Sequence[Key],
        rules: Sequence[int] = (library.RULE_OPTIMIZER,),
        optimizer: Optional[str] = None,
        step_weight: int = 0,
        scores: bool = False,
        own_steps: bool = False,
        device: Optional[str] = None,
        max_norm: float = 0.0,
    ) -> None:
        """Declares the tensors, equal on all ranks, and waits for all ranks.

        `rules`: of each group of keys. `optimizer`: the servers' ("adamw");
        None: the job's. `step_weight`: the sum of all ranks' weights in a full
        step; 0: one each. `scores`: the program can score a test set.
        `own_steps`: under local policies it pushes weights after steps of its
        own. `device`: for people. `max_norm`: the largest norm of a gradient,
        the mean over ranks; 0: the job's.
        """
        array = (library.Key * len(keys))(*(self._key(key) for key in keys))
        groups = (library.Group * len(rules))(*(library.Group(rule=rule) for rule in rules))
        declaration = library.Declaration(
            keys=array,
            n_keys=len(keys),
            step_weight=step_weight,
            scores=scores,
            device=device.encode() if device else None,
            groups=groups,
            n_groups=len(rules),
            optimizer=optimizer.encode() if optimizer else None,
            own_steps=own_steps,
            max_norm=max_norm,
        )
        self._wait(slow.declare, declaration)

    @staticmethod
    def _key(key: Key) -> library.Key:
        if len(key.shape) > library.DIMS_MAX:
            raise ValueError(
                f"gradweir: {key.name} has {len(key.shape)} dimensions, at most "
                f"{library.DIMS_MAX} are possible"
            )
        return library.Key(
            name=key.name.encode(),
            type=key.type,
            dims=len(key.shape),
            shape=(ctypes.c_uint64 * library.DIMS_MAX)(*key.shape),
            group=key.group,
        )

    @property
    def makes_weights(self) -> bool:
        """This rank puts the first weights, after declare and before start."""
        return quick.makes_weights(self._handle) != 0

    def put(self, key: int, address: int) -> None:
        """First weights of a key, of its type and shape, contiguous."""
        self._check(slow.put(self._handle, key, address))

    def start(self) -> None:
        """Connects to the servers."""
        self._wait(slow.start)

    # ---- steps ----

    def begin(self) -> int:
        """Begins the next step, ``self.step``: library.TRAIN, or SCORE.
        JobEnded: the job has no further step, and has taken ``step.number``."""
        step = self.step
        status = quick.begin(self._handle, step, 0)
        if status in (library.ETIMEOUT, library.EAGAIN):
            self._wait(slow.begin, step)
        elif status != library.OK:
            self._fails(status)
        return step.task

    def terms(self, group: int, terms: Terms) -> None:
        """Hyperparameters of a group from this step on; before its first push."""
        values = library.Terms(
            lr=terms.lr,
            weight_decay=terms.weight_decay,
            momentum=terms.momentum,
            beta1=terms.beta1,
            beta2=terms.beta2,
            eps=terms.eps,
        )
        self._check(quick.terms(self._handle, group, values))

    def wait(self, first: int, n: int) -> None:
        """Waits until keys [first, first + n) have the weights of the step."""
        status = quick.wait(self._handle, first, n, 0)
        if status in (library.ETIMEOUT, library.EAGAIN):
            self._wait(slow.wait, first, n)
        elif status != library.OK:
            self._fails(status)

    def has(self, first: int, n: int) -> bool:
        return quick.has(self._handle, first, n) != 0

    def take(self, key: int, address: int, nbytes: int = 0) -> None:
        """Copies weights that were waited for to the program's memory: of the
        key's type and shape, contiguous."""
        calls = slow if nbytes >= LONG_COPY else quick
        self._check(calls.take(self._handle, key, address))

    def weights(self, key: int) -> int:
        """The address of the library's weights of a key, fp32, which were waited
        for or pulled; until the end of the step."""
        return quick.weights(self._handle, key)

    def weigh(self, weight: int) -> None:
        """This rank's weight in the step, before its first push; 0: nothing."""
        self._check(quick.weigh(self._handle, weight))

    def push(self, key: int, address: Optional[int], nbytes: int = 0) -> None:
        """The gradient of a key, of its type and shape, contiguous; None: it is in
        the library's own array. It is read before this returns; the network is not
        waited for."""
        calls = slow if nbytes >= LONG_COPY else quick
        status = calls.push(self._handle, key, address)
        if status != library.OK:
            self._fails(status)

    def push_f32(self, key: int, address: int, elems: int) -> None:
        """As push(), of fp32 numbers whatever the key's type."""
        ctypes.memmove(quick.gradients(self._handle, key), address, elems * FLOAT_BYTES)
        self.push(key, None)

    def skip(self, first: int, n: int, counts: bool = False) -> None:
        """Keys [first, first + n) have no gradient in this step. `counts`: where
        other ranks have one, the mean is over this rank, too."""
        status = quick.skip(self._handle, first, n, counts, 0)
        if status in (library.ETIMEOUT, library.EAGAIN):
            self._wait(slow.skip, first, n, counts)
        elif status != library.OK:
            self._fails(status)

    def pull(self, first: int, n: int) -> None:
        """Waits for what this step makes of keys that were pushed in it."""
        self._wait(slow.pull, first, n)

    def end(self, result: Optional[Result] = None) -> None:
        """Ends the step, after all keys were pushed or skipped."""
        value = result and library.Result(
            loss=result.loss, correct=result.correct, samples=result.samples
        )
        status = quick.end(self._handle, value, 0)
        if status in (library.ETIMEOUT, library.EAGAIN):
            self._wait(slow.end, value)
        elif status != library.OK:
            self._fails(status)

    # ---- the end ----

    def save(self) -> None:
        """Asks for a checkpoint, and waits until it is complete."""
        self._wait(slow.save)

    def finish(self) -> None:
        """This rank has no further step; rank 0 ends the job by it. Waits for
        the job's end; Interrupted: it can go on later."""
        self._wait(slow.finish)

    def fail(self, line: str) -> None:
        """Ends the job for all ranks, with a line about this rank's failure, which
        they hear at close()."""
        slow.fail(self._handle, line.encode())

    def stop(self) -> None:
        """Asks for the end of the job; any thread."""
        self._check(quick.stop(self._handle))

    def close(self) -> None:
        """Leaves the job, which fails by that unless it was finished."""
        handle = self.__dict__.pop("_handle", None)
        if handle:
            slow.close(handle)

    def __getattr__(self, name: str) -> NoReturn:
        if name == "_handle":  # which close() has taken away
            raise Error(library.EUSAGE, "gradweir: the job was closed here")
        raise AttributeError(f"{type(self).__name__} has no {name}")
