"""When a gradient is final, learnt from the first round of backward passes.

A round is what lies between two exchanges: the passes of a step, or one pass.
In the first round the firings of each parameter's hook are counted: N for a
gradient that N micro-batches add up to. From then on the N-th firing is final,
and the gradient can leave while backward still computes others.
"""

from __future__ import annotations

from typing import Optional

import torch


def _sum_of(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.detach().sum(dtype=torch.float32)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a == b) | (a.isnan() & b.isnan())).item())


class Watch:
    """The firings of `n` parameters' hooks in a round."""

    def __init__(self, n: int) -> None:
        self.fired = [0] * n
        self.strays = False  # a gradient was dropped after a pass, without a step
        self._final: Optional[list[int]] = None
        self._version = [0] * n
        self._place = [0] * n
        self._sum: list[Optional[torch.Tensor]] = [None] * n
        self._sums = True  # are taken: in the first round, and if that needed them
        self._rewritten = False

    def fire(self, i: int, gradient: torch.Tensor) -> bool:
        """A backward pass has added to a gradient. True: it is final.

        An addition in place is one version more; anything else is a gradient
        that began anew: a pass before it was for another optimizer's step, as
        in a GAN.
        """
        if self.fired[i] > 0 and gradient._version != self._version[i] + 1:
            self.strays = True
            self.fired[i] = 0
        self.fired[i] += 1
        self._version[i] = gradient._version
        self._place[i] = gradient.data_ptr()
        if self._sums:
            self._sum[i] = _sum_of(gradient)
        return self._final is not None and self.fired[i] == self._final[i]

    def was_changed(self, i: int, gradient: torch.Tensor) -> bool:
        """Somebody has changed the gradient since it fired in this round."""
        return self.fired[i] > 0 and self.is_other(i, gradient)

    def is_other(self, i: int, gradient: torch.Tensor) -> bool:
        """Somebody has changed the gradient since its last firing. Writing what
        was there is no change: to measure the norm, transformers' Trainer clips
        at infinity. Writing to its .data counts no version; the sums of the first
        round tell."""
        if gradient.data_ptr() != self._place[i]:
            return True
        is_written = gradient._version != self._version[i]
        seen = self._sum[i]
        if seen is None:
            return is_written
        if not _same(seen, _sum_of(gradient)):
            return True
        self._rewritten = self._rewritten or is_written
        return False

    def end_round(self) -> None:
        """The next firings are of another round. What fired less often, as in a
        short last accumulation, teaches nothing; what fired for the first time
        does."""
        if self._final is None:
            self._final = list(self.fired)
            self._sums = self._rewritten
            self._sum = [None] * len(self._sum)
        else:
            self._final = [
                known or seen for known, seen in zip(self._final, self.fired)
            ]
        self.fired = [0] * len(self.fired)
