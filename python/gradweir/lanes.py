"""Sums over all ranks through keys that serve as lanes.

A job of lanes has no model: its keys are buffers of a few sizes. A sum takes the
next free lanes of the sizes that it needs, pushes its parts there, and pulls
their means. The lanes of a step are used once each; when those of a size are
used up the next step begins. All ranks make the same sums in the same order, so
that the same lanes stand for the same parts everywhere.
"""

from __future__ import annotations

import ctypes
from collections import deque
from dataclasses import dataclass, field
from typing import Deque

from gradweir import library
from gradweir.job import Job, Key
from gradweir.library import FLOAT_BYTES

# (elements of a lane, lanes): from 16 KiB, below which a sum is padded, to 1 MiB
SIZES = ((1 << 18, 32), (1 << 16, 12), (1 << 14, 12), (1 << 12, 12))


@dataclass
class _Part:
    key: int
    first: int  # element
    n: int


@dataclass(eq=False)
class Sum:
    """A sum that goes on: `address` is of fp32, contiguous, and gets the mean."""

    address: int
    parts: list[_Part] = field(default_factory=list)


def split(n: int) -> list[tuple[int, int, int]]:
    """A number of elements as (size's index, first element, elements)."""
    parts, at = [], 0
    for index, (elems, _) in enumerate(SIZES):
        while n - at >= elems:
            parts.append((index, at, elems))
            at += elems
    if at < n:
        parts.append((len(SIZES) - 1, at, n - at))
    return parts


class Lanes:
    """The lanes of a job, used by one thread."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._first: list[int] = []
        keys: list[Key] = []
        for elems, count in SIZES:
            self._first.append(len(keys))
            keys.extend(Key(f"lane.{elems}.{i}", (elems,)) for i in range(count))
        self._n = len(keys)
        self._declare(keys)
        self._used = [0] * len(SIZES)
        self._going: Deque[Sum] = deque()
        self._has_begun = False

    def _declare(self, keys: list[Key]) -> None:
        job = self._job
        job.declare(keys, (library.RULE_MEAN,), "none", device="a reduction")
        if job.makes_weights:
            zeros = ctypes.create_string_buffer(SIZES[0][0] * FLOAT_BYTES)
            for key in range(len(keys)):
                job.put(key, ctypes.addressof(zeros))
        job.start()

    # ---- steps ----

    def _begin(self) -> None:
        self._job.begin()
        self._job.wait(0, self._n)
        self._used = [0] * len(SIZES)
        self._has_begun = True

    def _end(self) -> None:
        """The lanes that are left have nothing in this step."""
        while self._going:
            self.pull()
        for index, (_, count) in enumerate(SIZES):
            if self._used[index] < count:
                first = self._first[index] + self._used[index]
                self._job.skip(first, count - self._used[index])
        self._job.end()
        self._has_begun = False

    def _next_lane(self, index: int) -> int:
        if not self._has_begun:
            self._begin()
        elif self._used[index] == SIZES[index][1]:
            self._end()
            self._begin()
        self._used[index] += 1
        return self._first[index] + self._used[index] - 1

    # ---- sums ----

    def push(self, address: int, n: int) -> None:
        """Begins a sum over `n` fp32 numbers. They stay where they are until the
        sum is pulled. Sums that are longer than all lanes are pulled in parts
        meanwhile."""
        whole = Sum(address)
        self._going.append(whole)
        for index, first, elems in split(n):
            key = self._next_lane(index)
            self._push_part(address, key, _Part(key, first, elems), SIZES[index][0])
            if whole not in self._going:
                self._going.append(whole)
            whole.parts.append(_Part(key, first, elems))

    def _push_part(self, address: int, key: int, part: _Part, lane: int) -> None:
        at = address + part.first * FLOAT_BYTES
        if part.n == lane:
            self._job.push(key, at, part.n * FLOAT_BYTES)
            return
        padded = (ctypes.c_char * (lane * FLOAT_BYTES))()
        ctypes.memmove(padded, at, part.n * FLOAT_BYTES)
        self._job.push(key, ctypes.addressof(padded), len(padded))

    def pull(self) -> None:
        """Waits for the oldest sum: its mean is where its numbers were."""
        oldest = self._going.popleft()
        for part in oldest.parts:
            self._pull_part(oldest.address, part)
        oldest.parts = []

    def _pull_part(self, address: int, part: _Part) -> None:
        at = address + part.first * FLOAT_BYTES
        self._job.pull(part.key, 1)
        ctypes.memmove(at, self._job.weights(part.key), part.n * FLOAT_BYTES)

    @property
    def going(self) -> int:
        """Sums that have not been pulled."""
        return len(self._going)

    def finish(self) -> None:
        """No further sum; see :meth:`gradweir.job.Job.finish`."""
        if self._has_begun and any(self._used):
            self._end()
        self._job.finish()
