"""Arrays trained by gradweir's servers: for any framework that gives arrays.

    import numpy as np
    import gradweir.numpy

    w = {"slope": np.zeros(()), "offset": np.zeros(())}
    with gradweir.numpy.Trainer(w, optimizer="adam", lr=0.1) as trainer:
        for batch in trainer.steps(batches):
            trainer.step(gradients(w, batch))
"""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

import numpy as np

from gradweir import library
from gradweir.errors import JobEnded
from gradweir.job import Job, Key, Terms
from gradweir.training import Member, Score, Training, give_up

__all__ = ["Trainer"]


def _state_of(array: np.ndarray, name: str) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.dtype not in (np.float32, np.float64):
        what = getattr(array, "dtype", type(array).__name__)
        raise TypeError(f"gradweir: {name} is {what}, an array of float32 or float64 is needed")
    return np.ascontiguousarray(array, dtype=np.float32).reshape(array.shape)


class Trainer(Member):
    """Arrays whose weights and optimizer servers keep.

    `arrays`: name -> array of float32 or float64 (servers keep float32), equal
    names and shapes on all ranks. Rank 0's values are the first weights of the
    job; each step writes new ones into the arrays, in place.
    `optimizer`: "sgd", "momentum", "nesterov", "adam", "adamw", "lamb"; None:
    the job's. `lr`, `weight_decay`, ..: its settings; None: the job's.
    `max_norm`: the largest norm of the mean gradient, over all arrays; 0: the
    job's.
    `score`: see :class:`gradweir.training.Training`.
    `coordinator`, `rank`, `set`: see :class:`gradweir.job.Job`.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        optimizer: Optional[str] = None,
        *,
        lr: Optional[float] = None,
        weight_decay: float = 0.0,
        momentum: float = 0.9,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        max_norm: float = 0.0,
        coordinator: Optional[str] = None,
        rank: Optional[int] = None,
        set: tuple[str, ...] = (),
        score: Optional[Score] = None,
    ) -> None:
        self.arrays = dict(arrays)
        self._names = list(self.arrays)
        self._held = [_state_of(array, name) for name, array in self.arrays.items()]
        self._others = (weight_decay, momentum, beta1, beta2, eps)
        self._terms: Optional[Terms] = None
        self.job = Job(coordinator, rank, set)
        try:
            self._join(optimizer, score, max_norm)
            if lr is not None:
                self.set_lr(lr)
        except BaseException as error:
            give_up(self.job, error)
            raise

    def _join(
        self, optimizer: Optional[str], score: Optional[Score], max_norm: float
    ) -> None:
        keys = [Key(name, held.shape) for name, held in zip(self._names, self._held)]
        self.job.declare(
            keys, optimizer=optimizer, scores=score is not None, max_norm=max_norm
        )
        if self.job.makes_weights:
            for key, held in enumerate(self._held):
                self.job.put(key, held.ctypes.data)
        self.job.start()
        self.training = Training(self.job, len(keys), self._take, score)
        self.training.begin()

    def _take(self) -> None:
        for key, (name, held) in enumerate(zip(self._names, self._held)):
            self.job.take(key, held.ctypes.data, held.nbytes)
            if self.arrays[name] is not held:
                self.arrays[name][...] = held

    @property
    def ranks(self) -> int:
        return self.job.ranks

    def set_lr(self, lr: float) -> None:
        """The learning rate from this step on."""
        terms = Terms(lr, *self._others)
        if self.training.ended is None and terms != self._terms:
            self.job.terms(0, terms)
            self._terms = terms

    def step(
        self,
        gradients: Mapping[str, Optional[np.ndarray]],
        *,
        lr: Optional[float] = None,
        loss: Optional[float] = None,
        samples: int = 0,
    ) -> None:
        """Pushes mean gradients, name -> array of the array's shape (None, or no
        entry: no gradient in this step), and writes the next weights into the
        arrays. `loss`, `samples`: for the job's lines. Raises JobEnded: the job
        has no further step, and this one was not taken."""
        self.training.check()
        values = self._values_of(gradients)
        if lr is not None:
            self.set_lr(lr)
        if loss is not None:
            self.training.report(loss, samples=samples)
        try:
            self._push(values)
        except JobEnded:
            pass  # others have gone on, or the job ends: the next begin says which
        self.training.advance()

    def _values_of(
        self, gradients: Mapping[str, Optional[np.ndarray]]
    ) -> list[Optional[np.ndarray]]:
        unknown = gradients.keys() - self.arrays.keys()
        if unknown:
            raise KeyError(f"gradweir: there is no array {sorted(unknown)[0]!r} to have a gradient")
        return [
            None if gradients.get(name) is None else self._value_of(name, held, gradients[name])
            for name, held in zip(self._names, self._held)
        ]

    @staticmethod
    def _value_of(name: str, held: np.ndarray, gradient: object) -> np.ndarray:
        value = np.ascontiguousarray(gradient, dtype=np.float32).reshape(np.shape(gradient))
        if value.shape != held.shape:
            raise ValueError(
                f"gradweir: the gradient of {name} has the shape {value.shape}, "
                f"its array {held.shape}"
            )
        return value

    def _push(self, values: Sequence[Optional[np.ndarray]]) -> None:
        for key, value in enumerate(values):
            if value is None:
                self.job.skip(key, 1)
            else:
                self.job.push(key, value.ctypes.data, value.nbytes)

    def __enter__(self) -> "Trainer":
        return self
