"""A backend of torch.distributed: sums go through gradweir's servers.

    import gradweir.torch.backend
    torch.distributed.init_process_group("gradweir")

``all_reduce`` of gradients goes over the job of ``gradweir run`` (or of a
coordinator named by GRADWEIR_COORDINATOR, or at MASTER_PORT + 1); everything
else goes over Gloo. The sums are the same to the bit whatever the number of
servers. The job has no model: model.kind = "external", cluster.policy = "sync".
"""

from __future__ import annotations

import atexit
import queue
import sys
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future

from gradweir.errors import Error
from gradweir.job import Job, coordinator_beside
from gradweir.lanes import Lanes
from gradweir.training import line_of

# Smaller sums are quicker from process to process.
LEAST_ELEMS = 1024
_WIDENED = (torch.float32, torch.bfloat16, torch.float16)


def _is_any(op: Any, *names: str) -> bool:
    """A ReduceOp is one of these. It must be on the left: the constants are an
    enum's in newer versions, which is equal to nothing else."""
    return any(op == getattr(dist.ReduceOp, name, None) for name in names)


@dataclass(eq=False)
class _Item:
    """A sum for the thread: `tensors` get it, `staged` is where it is made."""

    tensors: list[torch.Tensor]
    staged: torch.Tensor
    factor: float
    future: torch.futures.Future
    ready: Optional["torch.cuda.Event"] = None


class _Reducer(threading.Thread):
    """The thread that has the job: it pushes what comes, and pulls in between."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(name="gradweir", daemon=True)
        self._lanes = lanes
        self._queue: "queue.SimpleQueue[Optional[_Item]]" = queue.SimpleQueue()
        self._going: list[_Item] = []
        self._error: Optional[BaseException] = None
        self.start()

    def add(self, item: _Item) -> None:
        self._queue.put(item)

    def finish(self) -> None:
        """No further sum; waits for the job's end."""
        self._queue.put(None)
        self.join()
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        try:
            while self._take_next():
                pass
            self._lanes.finish()
        except BaseException as error:
            self._fail(error)

    def _take_next(self) -> bool:
        """Pushes the next sum, or pulls the oldest if none has come. False: no
        further one will come."""
        try:
            item = self._queue.get(block=not self._going)
        except queue.Empty:
            self._pull()
            return True
        if item is None:
            while self._going:
                self._pull()
            return False
        if item.ready is not None:
            item.ready.synchronize()
        self._going.append(item)
        self._lanes.push(item.staged.data_ptr(), item.staged.numel())
        return True

    def _pull(self) -> None:
        item = self._going.pop(0)
        if self._lanes.going > len(self._going):
            self._lanes.pull()
        staged = item.staged if item.factor == 1 else item.staged.mul_(item.factor)
        at = 0
        for tensor in item.tensors:
            part = staged[at : at + tensor.numel()].view(tensor.shape)
            if part.data_ptr() != tensor.data_ptr():
                tensor.copy_(part)
            at += tensor.numel()
        item.future.set_result(item.tensors)

    def _fail(self, error: BaseException) -> None:
        self._error = error
        print(f"gradweir: {line_of(error)}", file=sys.stderr, flush=True)
        while True:
            for item in self._going:
                item.future.set_exception(error)
            self._going = []
            item = self._queue.get()
            if item is None:
                return
            self._going.append(item)


class ProcessGroup(dist.ProcessGroup):
    """Sums over servers, all else over Gloo. Made by init_process_group."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, job: Job) -> None:
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._size = size
        self._reducer: Optional[_Reducer] = _Reducer(Lanes(job))
        self._job = job
        atexit.register(self._at_exit)

    def getBackendName(self) -> str:
        return "gradweir"

    # ---- sums ----

    def _takes(self, tensors: list[torch.Tensor], op: Any) -> bool:
        return (
            _is_any(op, "SUM", "AVG")
            and all(t.dtype in _WIDENED and t.layout == torch.strided for t in tensors)
            and sum(t.numel() for t in tensors) >= LEAST_ELEMS
        )

    def allreduce(self, tensors: list[torch.Tensor], options: Any) -> Any:
        op = getattr(options, "reduceOp", options)
        if not self._takes(tensors, op):
            return self._gloo.allreduce(tensors, options)
        assert self._reducer is not None
        factor = float(self._size) if _is_any(op, "SUM") else 1.0
        future: torch.futures.Future = torch.futures.Future()
        self._reducer.add(self._item(tensors, factor, future))
        return _create_work_from_future(future)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], options: Any) -> Any:
        return self.allreduce(tensors, options)

    @staticmethod
    def _item(
        tensors: list[torch.Tensor], factor: float, future: torch.futures.Future
    ) -> _Item:
        first = tensors[0]
        is_plain = (
            len(tensors) == 1
            and first.dtype == torch.float32
            and first.device.type == "cpu"
            and first.is_contiguous()
        )
        if is_plain:
            return _Item(tensors, first.detach().view(-1), factor, future)
        n = sum(tensor.numel() for tensor in tensors)
        on_gpu = first.device.type == "cuda"
        staged = torch.empty(n, dtype=torch.float32, pin_memory=on_gpu)
        at = 0
        for tensor in tensors:
            staged[at : at + tensor.numel()].view(tensor.shape).copy_(tensor, non_blocking=on_gpu)
            at += tensor.numel()
        ready = torch.cuda.current_stream(first.device).record_event() if on_gpu else None
        return _Item(tensors, staged, factor, future, ready)

    # ---- the end ----

    def finish(self) -> None:
        """Says good-bye to the job, and waits for its end."""
        reducer, self._reducer = self._reducer, None
        if reducer is not None:
            reducer.finish()
            self._job.close()

    def shutdown(self) -> None:
        self.finish()

    def _at_exit(self) -> None:
        try:
            self.finish()
        except Error as error:
            print(f"gradweir: {error}", file=sys.stderr)


def _delegate(name: str) -> None:
    """A collective that goes over Gloo as it is."""

    def call(self: ProcessGroup, *arguments: Any, **options: Any) -> Any:
        return getattr(self._gloo, name)(*arguments, **options)

    setattr(ProcessGroup, name, call)


for _name in (
    "broadcast",
    "reduce",
    "allgather",
    "allgather_coalesced",
    "_allgather_base",
    "allgather_into_tensor_coalesced",
    "gather",
    "scatter",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
    "alltoall",
    "alltoall_base",
    "send",
    "recv",
    "recv_anysource",
    "barrier",
    "monitored_barrier",
):
    _delegate(_name)


_jobs: list[Job] = []


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """The first group is of all ranks, and has the job; others are Gloo's."""
    if _jobs:
        return dist.ProcessGroupGloo(store, rank, size, timeout)
    job = Job(coordinator_beside(store=True), rank)  # init_process_group has a store there
    if job.ranks != size:
        ranks = job.ranks
        job.close()
        raise RuntimeError(
            f"gradweir: the process group has {size} ranks, the job {ranks}: start it with "
            f"--set cluster.workers={size}"
        )
    policy = job.setting("cluster.policy")
    if policy != "sync":
        job.close()
        raise RuntimeError(
            f'gradweir: cluster.policy = "{policy}": a process group needs sync; policies are for '
            f"gradweir.torch.Optimizer"
        )
    _jobs.append(job)
    return ProcessGroup(store, rank, size, timeout, job)


def _register() -> None:
    if hasattr(dist.Backend, "GRADWEIR"):
        return
    try:
        dist.Backend.register_backend("gradweir", _create, devices=["cpu", "cuda"])
    except TypeError:  # torch 1.13 has no devices
        dist.Backend.register_backend("gradweir", _create)


_register()
