"""The steps of a program under any policy, and its good-bye.

A program computes in step t on the weights of step t, pushes, and calls
``Training.advance``: that ends the step, begins the next one and takes its
weights. What lies between, such as scores that the job asks for, is done there.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from types import TracebackType
from typing import Callable, Iterable, Iterator, NoReturn, Optional, Tuple, TypeVar

from gradweir import library
from gradweir.errors import Error, Interrupted, JobEnded
from gradweir.job import Job, Result

# The exit code of a script that was stopped, as of the job's other processes.
INTERRUPTED = 3
Item = TypeVar("Item")
Score = Callable[[], Tuple[float, int, int]]


class Training:
    """A job whose steps have begun.

    `take` copies the weights of all keys to the program; they were waited for.
    `score` computes (mean loss, correct, samples) over this rank's part of a
    test set; it is called when train.eval_every of the job says so.
    """

    def __init__(
        self, job: Job, keys: int, take: Callable[[], None], score: Optional[Score] = None
    ) -> None:
        self.job = job
        self.ended: Optional[JobEnded] = None
        self.is_over = False  # others have ended the job, in order
        self.takes_early = True  # the weights of a step, when it begins
        self.given_up = False  # the step: others have gone on, or have ended the job
        self._keys = keys
        self._take = take
        self._score = score
        self._finished = False
        self._next_result: Optional[Result] = None
        self.use()
        _on_exit(self)

    @property
    def clock(self) -> int:
        """The number of the step that has begun, from 0; of all, at the end."""
        return self.job.step.number

    def use(self) -> None:
        """The script's thread that trains is this one: an exception that ends it
        ends the job."""
        self.thread = threading.current_thread()

    def check(self) -> None:
        """Raises JobEnded if no step has begun."""
        self.use()
        if self.ended is not None:
            raise self.ended

    def report(self, loss: float, correct: int = 0, samples: int = 0) -> None:
        """The outcome of the step that has begun, for the job's lines."""
        self._next_result = Result(loss, correct, samples)

    def begin(self) -> None:
        """Begins the next step, and takes its weights; sets ``ended`` if the job
        has no further step."""
        self.given_up = False
        while True:
            try:
                task = self.job.begin()
            except JobEnded as ended:
                self._end_of(ended)
                return
            if task == library.TRAIN and not self.takes_early:
                return
            if not self._has_weights():
                continue
            if task == library.TRAIN:
                return
            assert self._score is not None
            self.job.end(Result(*self._score()))

    def _has_weights(self) -> bool:
        """Takes the step's weights; False: the step is given up."""
        try:
            self.job.wait(0, self._keys)
        except JobEnded:
            self.job.end(None)
            return False
        self._take()
        return True

    def advance(self) -> None:
        """Ends the step, and begins the next one."""
        result, self._next_result = self._next_result, None
        self.job.end(result)
        self.begin()

    def _end_of(self, ended: JobEnded) -> None:
        """The job has no further step: takes its last weights."""
        self.ended = ended
        try:
            self.job.finish()
            self._take()
        except Interrupted as interrupted:
            self.ended = interrupted
        self._let_go()
        self.is_over = True

    # ---- good-bye ----

    def finish(self) -> None:
        """This rank has no further step. Rank 0 ends the job; another rank
        waits for its end. The weights are the job's last ones then."""
        if self.given_up and not self._finished:
            self.advance()
        if self._finished:
            if isinstance(self.ended, Interrupted):
                raise self.ended
            return
        self.job.finish()
        self._let_go()
        self.ended = JobEnded(library.EEND, "the job has no further step: this rank has finished")
        self._take()

    def fail(self, line: str) -> None:
        """Ends the job for all ranks, with a line about this rank's failure."""
        if not self._finished:
            self._let_go()
            self.ended = JobEnded(library.EEND, line)
            self.job.fail(line)

    def close(self) -> None:
        """Leaves the job, which fails by that unless it was finished."""
        self._let_go()
        self.job.close()
        if not _going:
            _unhook_threads()

    def _let_go(self) -> None:
        """Nothing is left to say to the job."""
        self._finished = True
        _going.discard(self)

    def leave(self, error: Optional[BaseException]) -> None:
        """At the end of a ``with`` block, and of the interpreter."""
        if error is None or isinstance(error, JobEnded) or _is_exit(error):
            self.finish()
        else:
            self.fail(line_of(error))


class Member:
    """What scripts see of a job, whichever front end they use: a base class of
    those, which set ``job`` and ``training``."""

    job: Job
    training: Training

    @property
    def rank(self) -> int:
        return self.job.rank

    @property
    def clock(self) -> int:
        """The number of the job's step that has begun, from 0."""
        return self.training.clock

    def steps(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, until the job has no further step."""
        for item in items:
            self.training.use()
            if self.training.ended is not None:
                return
            yield item

    def finish(self) -> None:
        """This rank has no further step. Rank 0 ends the job by it, as complete;
        another rank waits for the job's end. The weights are the job's last ones
        then. Interrupted: the job was stopped, and can go on later."""
        self.training.finish()

    def fail(self, line: str) -> None:
        """Ends the job for all ranks, with a line about this rank's failure."""
        self.training.fail(line)
        self.training.close()

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> bool:
        """Finishes, or tells the others of the exception. A job that has ended
        in order ends the block quietly."""
        self.training.leave(error)
        self.training.close()
        return isinstance(error, JobEnded) and not isinstance(error, Interrupted)


def _is_exit(error: BaseException) -> bool:
    """sys.exit() and sys.exit(0), which are no failure."""
    return isinstance(error, SystemExit) and error.code in (None, 0)


def line_of(error: BaseException) -> str:
    """An exception in one line: its class and its first line of text. Of an
    Error, whose class says nothing more, the text."""
    text = str(error).strip().split("\n", 1)[0]
    name = type(error).__name__
    if isinstance(error, Error):
        return text
    return f"{name}: {text}" if text else name


def give_up(job: Job, error: BaseException) -> None:
    """Leaves a job that is not used, with the reason for the other ranks."""
    job.fail(line_of(error))
    job.close()
    for training in list(_open):
        if training.job is job:
            training.close()


# ---- the end of the interpreter ----

_open: "weakref.WeakSet[Training]" = weakref.WeakSet()
_going: "set[Training]" = set()  # are to say good-bye, also if no script keeps them
_hook_before = None
_thread_hook_before = None


def _on_exit(training: Training) -> None:
    """Other ranks are told why an exception ended this one, and a script that
    ends without a word has finished."""
    global _hook_before
    if _hook_before is None:
        _hook_before = sys.excepthook
        sys.excepthook = _on_exception
        atexit.register(_at_exit, os.getpid())
    _hook_threads()
    _open.add(training)
    _going.add(training)


def _on_exception(
    kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]
) -> None:
    for training in list(_open):
        training.fail(line_of(error))
    if any(training.is_over and training.ended is error for training in _open):
        _end_with(error)
    if _hook_before is not None:
        _hook_before(kind, error, trace)


def _hook_threads() -> None:
    global _thread_hook_before
    if _thread_hook_before is None:
        _thread_hook_before = threading.excepthook
        threading.excepthook = _on_thread_exception


def _unhook_threads() -> None:
    """Unless a hook of somebody else's leads here."""
    global _thread_hook_before
    if threading.excepthook is _on_thread_exception:
        threading.excepthook, _thread_hook_before = _thread_hook_before, None


def _on_thread_exception(raised: threading.ExceptHookArgs) -> None:
    """As _on_exception, of a thread that trains; a thread that leaves by
    sys.exit() says nothing, as under threading's own hook."""
    error, before = raised.exc_value, _thread_hook_before
    mine = [training for training in list(_open) if training.thread is threading.current_thread()]
    if error is not None and not isinstance(error, SystemExit):
        for training in mine:
            training.fail(line_of(error))
            training.close()
    if any(training.is_over and training.ended is error for training in mine):
        if not isinstance(error, Interrupted):  # of which _at_exit has the line
            print(f"gradweir: {error}; this thread ends here", file=sys.stderr)
    elif before is not None:
        before(raised)


def _end_with(ended: BaseException) -> NoReturn:
    """Nobody has caught the job's end, as in a plain loop on a rank that is behind
    the one that has finished: that is no failure, and needs no traceback."""
    if isinstance(ended, Interrupted):
        raise SystemExit(INTERRUPTED)  # _at_exit has the line
    print(f"gradweir: {ended}; this script ends here", file=sys.stderr)
    raise SystemExit(0)


def _at_exit(pid: int) -> None:
    if os.getpid() != pid:
        return  # a fork has no part in the job
    for training in list(_open):
        try:
            training.leave(None)
        except Error as error:
            print(f"gradweir: {error}", file=sys.stderr)
        training.close()
