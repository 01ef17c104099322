"""The way of a tensor's bytes between its device and the library.

On the host the library reads and writes tensors itself. A GPU's tensors go
through pinned host memory, on a stream of their own, beside the computation.
"""

from __future__ import annotations

from collections import deque
from typing import Deque, Optional

import torch

from gradweir.job import Job
from gradweir.torch.tensors import Entry


def _push(job: Job, key: int, entry: Entry, value: torch.Tensor) -> None:
    """Of the host, and contiguous."""
    if value.dtype == entry.like[0]:
        job.push(key, value.data_ptr(), entry.nbytes)
    else:
        job.push_f32(key, value.data_ptr(), value.numel())


class HostStaging:
    """Tensors in host memory."""

    def __init__(self, job: Job, entries: list[Entry]) -> None:
        self._job = job
        self._entries = entries

    def push(self, key: int, value: torch.Tensor) -> None:
        """Pushes a value of the key's shape, and of its type or in fp32."""
        if not value.is_contiguous():
            value = value.contiguous()
        _push(self._job, key, self._entries[key], value)

    def poll(self) -> None:
        """Pushes what has arrived on the host by now."""

    def flush(self) -> None:
        """Pushes what is still on its way to the host."""

    def drop(self) -> None:
        """Forgets what is still on its way: its step is given up."""

    def take(self, key: int, tensor: torch.Tensor) -> None:
        """Copies a key's weights into a tensor of its shape and type."""
        nbytes = self._entries[key].nbytes
        if tensor.is_contiguous():
            self._job.take(key, tensor.data_ptr(), nbytes)
            return
        value = torch.empty(tensor.shape, dtype=tensor.dtype)
        self._job.take(key, value.data_ptr(), nbytes)
        tensor.copy_(value)

    def taken(self) -> None:
        """What was taken is there for the computation."""


class CudaStaging:
    """Tensors of one GPU, and some of the host. The computation waits for no
    copy of a gradient."""

    def __init__(self, job: Job, entries: list[Entry], device: torch.device) -> None:
        self._job = job
        self._entries = entries
        self._host = HostStaging(job, entries)
        self._stream = torch.cuda.Stream(device)
        self._out: list[Optional[torch.Tensor]] = [None] * len(entries)
        self._in: list[Optional[torch.Tensor]] = [None] * len(entries)
        self._on_way: Deque[tuple[int, torch.cuda.Event]] = deque()

    @staticmethod
    def _pinned(room: list[Optional[torch.Tensor]], key: int, like: torch.Tensor) -> torch.Tensor:
        held = room[key]
        if held is None or held.dtype != like.dtype:
            held = room[key] = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
        return held

    def push(self, key: int, value: torch.Tensor) -> None:
        if value.device.type == "cpu":
            self._host.push(key, value)
            return
        out = self._pinned(self._out, key, value)
        self._stream.wait_stream(torch.cuda.current_stream(value.device))
        with torch.cuda.stream(self._stream):
            out.copy_(value, non_blocking=True)
            arrived = self._stream.record_event()
        value.record_stream(self._stream)
        self._on_way.append((key, arrived))
        self.poll()

    def _push_next(self) -> None:
        key, arrived = self._on_way.popleft()
        arrived.synchronize()
        out = self._out[key]
        assert out is not None
        _push(self._job, key, self._entries[key], out)

    def poll(self) -> None:
        while self._on_way and self._on_way[0][1].query():
            self._push_next()

    def flush(self) -> None:
        while self._on_way:
            self._push_next()

    def drop(self) -> None:
        self._on_way.clear()

    def take(self, key: int, tensor: torch.Tensor) -> None:
        if tensor.device.type == "cpu":
            self._host.take(key, tensor)
            return
        # The copy that read this memory a step ago is over: `taken` waited for
        # the stream, and the computation has used the weights since.
        into = self._pinned(self._in, key, tensor)
        self._job.take(key, into.data_ptr(), self._entries[key].nbytes)
        # kernels that were queued before the step may still read the tensor
        self._stream.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(self._stream):
            tensor.copy_(into, non_blocking=True)

    def taken(self) -> None:
        self._stream.synchronize()


def staging_of(job: Job, entries: list[Entry]) -> "HostStaging | CudaStaging":
    """The way for these tensors, of the host and of one GPU at most."""
    devices = {entry.tensor.device for entry in entries} - {torch.device("cpu")}
    if not devices:
        return HostStaging(job, entries)
    if len(devices) > 1:
        raise ValueError(
            f"gradweir: the parameters are on {len(devices)} devices "
            f"({', '.join(sorted(map(str, devices)))}): start a rank for each"
        )
    device = devices.pop()
    if device.type != "cuda":
        raise ValueError(f"gradweir: there are parameters on {device}: cpu and cuda are possible")
    return CudaStaging(job, entries, device)
