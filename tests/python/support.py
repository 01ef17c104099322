"""Tests of the Python front end: a test starts a job whose ranks run a function
of its module, and reads what they tell.

A module is both: `python test_x.py` prints TAP, `python test_x.py CASE` is the
program of a rank.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

GRADWEIR = os.path.abspath(os.path.join(os.environ.get("GW_BUILDDIR", "."), "gradweir"))
LIMIT_S = float(os.environ.get("GW_PYTHON_LIMIT", "120"))
TOLD = "told "

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))


def tell(**values: Any) -> None:
    """In a rank: values that the test gets, one line each call."""
    # at once: under torchrun ranks share the output, which python -u does not buffer
    sys.stdout.write(TOLD + json.dumps(values) + "\n")
    sys.stdout.flush()


@dataclass
class Outcome:
    """What a job came to: its exit code, and what it printed."""

    code: int
    out: str
    err: str
    told: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.out + self.err


def _read(out: str) -> dict[int, dict[str, Any]]:
    told: dict[int, dict[str, Any]] = {}
    for line in out.splitlines():
        rank, _, rest = line.partition("] ")
        if line.startswith(TOLD):  # one rank, whose lines are as they are
            rank, rest = "[0", line
        if rank[:1] == "[" and rank[1:].isdigit() and rest.startswith(TOLD):
            told.setdefault(int(rank[1:]), {}).update(json.loads(rest[len(TOLD) :]))
    return told


def free_ports(n: int) -> int:
    """The first of n ports of this host, one after another, that are free."""
    while True:
        with contextlib.ExitStack() as held:
            probes = [held.enter_context(socket.socket()) for _ in range(n)]
            probes[0].bind(("127.0.0.1", 0))
            first = probes[0].getsockname()[1]
            try:
                for i in range(1, n):
                    probes[i].bind(("127.0.0.1", first + i))
            except OSError:
                continue
            return first


class JobTest(unittest.TestCase):
    """A test that runs jobs, in a directory of its own."""

    def setUp(self) -> None:
        self.dir = tempfile.mkdtemp(prefix="gradweir-python-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def job(
        self,
        case: Callable[[], None],
        *arguments: str,
        ranks: int = 2,
        servers: int = 2,
        settings: tuple[str, ...] = (),
        options: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        code: int | tuple[int, ...] = 0,
    ) -> Outcome:
        """Runs the function on each rank of a job, whose exit code is one of
        those."""
        command = [GRADWEIR, "run", "--workers", str(ranks), "--servers", str(servers), *options]
        for setting in settings:
            command += ["--set", setting]
        module = Path(sys.modules[case.__module__].__file__ or "").resolve()
        command += ["--", sys.executable, str(module), case.__name__, *arguments]
        outcome = self.program(command, env)
        if outcome.code not in (code if isinstance(code, tuple) else (code,)):
            self.fail(f"exit code {outcome.code}, not {code}, of {case.__name__}:\n{outcome.text}")
        return outcome

    def alone(self, case: Callable[[], None], *arguments: str, ranks: int = 2) -> dict:
        """Runs the function on each rank of a process group of torch's own, and
        gives what each told."""
        port = free_ports(1)
        module = Path(sys.modules[case.__module__].__file__ or "").resolve()
        processes = []
        for rank in range(ranks):
            env = {
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
            }
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(module), case.__name__, *arguments],
                    env=env,
                    cwd=self.dir,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            self.addCleanup(processes[-1].kill)
        outs = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
        return {rank: _read(out).get(0) for rank, out in enumerate(outs)}

    def program(self, command: list[str], env: dict[str, str] | None = None) -> Outcome:
        done = subprocess.run(
            command,
            cwd=self.dir,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr, _read(done.stdout))

    def assert_stepped(self, outcome: Outcome) -> None:
        """The job has made steps: the servers had a part in it."""
        self.assertRegex(outcome.text, "finished at step [1-9]")

    def assert_says(self, outcome: Outcome, *words: str) -> None:
        for word in words:
            self.assertIn(word, outcome.text)


# ---- TAP ----


class _Tap(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self._n = 0
        self._parts: list[str] = []  # of subtests that failed

    def _line(self, test: unittest.TestCase, word: str, more: str = "") -> None:
        self._n += 1
        name = (test.shortDescription() or test.id()).replace("#", "number ")
        print(f"{word} {self._n} - {name}{more}", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._line(test, "ok")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._line(test, "ok", f" # SKIP {reason}")

    def _fails(self, test: unittest.TestCase, error: Any) -> None:
        self._line(test, "not ok")
        for line in self._exc_info_to_string(error, test).splitlines():
            print("# " + line, flush=True)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._parts.append(f"{subtest}: {self._exc_info_to_string(err, test)}")

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        if self._parts:
            self._line(test, "not ok")
        for part in self._parts:
            for line in part.splitlines():
                print("# " + line, flush=True)
        self._parts = []

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._fails(test, err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._fails(test, err)


def main() -> None:
    """The module's tests as TAP, or one of its functions in a rank."""
    module = sys.modules["__main__"]
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        getattr(module, sys.argv[1])(*sys.argv[2:])
        return
    only = os.environ.get("GW_PYTHON_TEST")
    if only:
        suite = unittest.defaultTestLoader.loadTestsFromName(only, module)
    else:
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    sys.exit(_run(suite))


def run_modules(names: list[str]) -> int:
    """The tests of modules; the exit code."""
    return _run(unittest.defaultTestLoader.loadTestsFromNames(names))


def _run(suite: unittest.TestSuite) -> int:
    began = time.time()
    print(f"1..{suite.countTestCases()}", flush=True)
    result = _Tap()
    suite.run(result)
    print(f"# {time.time() - began:.0f} s", flush=True)
    return 0 if result.wasSuccessful() else 1

