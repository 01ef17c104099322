"""Exceptions of gradweir: one class each for what a script does about it."""


class Error(RuntimeError):
    """A call of the library failed.

    `status` is a number of ``enum gradweir_status`` in gradweir.h, `text` the
    library's line: the fault, its place and the remedy. The job is over for
    this rank, unless the call was refused (see the call).
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class JobEnded(Error):
    """The job has no further step; the step that was asked for was not taken.

    Nothing is wrong: the job's steps are done, or rank 0 has finished. A loop
    over ``optimizer.steps(loader)`` ends quietly instead.
    """


class Interrupted(JobEnded):
    """The job was stopped by a person, and can go on later (``--resume``)."""
