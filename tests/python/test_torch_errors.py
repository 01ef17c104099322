"""What is refused, and what the others hear: one line each, with the remedy."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time

import torch
from torch import nn

import gradweir
import gradweir.torch
from models import batch, digest, loss_of, net
from support import GRADWEIR, RANK, JobTest, main, tell

Sgd = torch.optim.SGD


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return Sgd(model.parameters(), lr=0.1)


def _expect(call, *words: str) -> None:
    """A call raises one line with these words."""
    try:
        call()
    except Exception as error:  # whichever class: the words are what matters
        text = f"{type(error).__name__}: {error}"
        missing = [word for word in words if word not in text]
        if missing or "\n" in text:
            raise AssertionError(f"{missing} not in: {text}") from error
        return
    raise AssertionError(f"nothing was raised: {words}")


def wrong_arguments() -> None:
    """Before a job is joined."""
    wrap = gradweir.torch.Optimizer
    model = net()
    _expect(lambda: wrap(_sgd(model), model, where="here"), "ValueError", "where='here'", "servers")
    _expect(lambda: wrap(_sgd(model), model, overlap=True), "ValueError", "overlap", "both")
    _expect(lambda: wrap(_sgd(model), model, accumulate=0), "ValueError", "accumulate")
    _expect(lambda: wrap(_sgd(model), model, weight=lambda: 3), "ValueError", "step_weight")
    _expect(lambda: wrap(_sgd(model), model, weight=2.5), "ValueError", "weight=2.5", "whole")
    _expect(lambda: wrap(_sgd(model)), "ValueError", "names")
    _expect(lambda: wrap(_sgd(net()), model), "ValueError", "not in the model")
    _expect(lambda: wrap(_sgd(net().double()), None, named_parameters=()), "ValueError")
    twice = net().double()
    _expect(lambda: wrap(_sgd(twice), twice), "TypeError", "float64", "body.0.weight")
    tell(done=True)


def refuses(case: str) -> None:
    """Within a job; the rank's exception is the job's end."""
    model = net()
    optimizer, options = _sgd(model), {}
    if case == "unknown":
        optimizer = torch.optim.Adagrad(model.parameters())
        options = {"where": "servers"}
    elif case == "amsgrad":
        optimizer = torch.optim.AdamW(model.parameters(), amsgrad=True)
        options = {"where": "servers"}
    elif case == "differentiable":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.param_groups[0]["differentiable"] = True  # no argument of torch 1.13's SGD
        options = {"where": "servers"}
    elif case in ("max_norm", "max_norm async"):
        options = {"max_norm": 1.0}
    elif case == "norms":
        options = {"max_norm": 1.0 + RANK}
    elif case == "weight":
        options = {"where": "worker", "weight": 4}
    elif case == "closure":
        optimizer = torch.optim.LBFGS(model.parameters())
    elif case in ("policy", "backup"):
        optimizer = torch.optim.Adagrad(model.parameters())
    elif case == "sparse":
        model = nn.Sequential(nn.Embedding(10, 4, sparse=True))
        optimizer = _sgd(model)
    elif case == "shape":
        model = nn.Linear(3, 4 + RANK)
        optimizer = _sgd(model)
    elif case == "name":
        model = nn.Sequential(nn.Linear(3, 3)) if RANK == 0 else nn.Linear(3, 3)
        optimizer = _sgd(model)
    elif case == "dtype":
        model = nn.Linear(3, 3) if RANK == 0 else nn.Linear(3, 3).bfloat16()
        optimizer = _sgd(model)
    elif case == "unfrozen":
        model.body[0].requires_grad_(False)
    elif case == "optimizer":
        optimizer = _sgd(model) if RANK == 0 else torch.optim.AdamW(model.parameters())
    optimizer = gradweir.torch.Optimizer(optimizer, model, log=False, **options)
    x, y = batch(0)
    for step in range(3):
        optimizer.zero_grad()
        if case == "sparse":
            model(torch.tensor([1, 2])).sum().backward()
        else:
            factor = float("nan") if case == "nan" and RANK == 1 else 1.0
            (loss_of(model, x, y) * factor).backward()
        if case == "clip":
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        if case == "twice" and step == 1:
            loss_of(model, x, y).backward()
        if case == "lr" and step == 1:
            optimizer.param_groups[0]["lr"] = 0.5
        if case == "moved":
            model.double()
        if case == "unfrozen" and step == 1:
            model.body[0].requires_grad_(True)
        if case == "added":
            optimizer.inner.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
        if case == "add":
            optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
        if case == "closure":
            optimizer.step(lambda: 0.0)
        if case == "scaler":
            optimizer.grad_scale = torch.tensor(2.0)
        if case == "raise" and RANK == 1:
            raise KeyError("the camera is gone")
        optimizer.step()
    optimizer.finish()


REFUSED = {
    "unknown": ((), ("servers do not know Adagrad", 'where="worker"')),
    "amsgrad": ((), ("AdamW with amsgrad", 'where="worker"')),
    "differentiable": ((), ("SGD with differentiable", 'where="worker"')),
    "max_norm": (("train.clip=2",), ("train.clip = 2, the program asks for 1; leave that line",)),
    "max_norm async": (("cluster.policy=async",), ("cluster.policy = async", "leave max_norm out")),
    "weight": (("cluster.policy=local:2",), ("weight= is of gradients", "local:2", "leave it out")),
    "norms": ((), ("largest norm of a gradient", "for 1", "for 2", "worker")),
    "policy": (("cluster.policy=async",), ("Adagrad runs in the script", "async")),
    "backup": (("cluster.policy=backup:0",), ("Adagrad runs in the script", "backup:0")),
    "sparse": ((), ("0.weight", "sparse=False")),
    "shape": ((), ('worker 1', '"weight", f32[5, 3] here', 'f32[4, 3] on worker 0')),
    "name": ((), ('worker 1', '"weight", f32[3, 3] here', '"0.weight", f32[3, 3] on worker 0')),
    "dtype": ((), ('worker 1', '"weight", bf16[3, 3] here', 'f32[3, 3] on worker 0')),
    "optimizer": ((), ("sgd", "adamw", "worker")),
    "clip": ((), ("was changed between backward() and", "max_norm=", 'where="worker"')),
    "twice": ((), ("got a gradient after it had left", 'overlap="none"')),
    "lr": ((), ("learning rate", "between", 'overlap="none"')),
    "moved": ((), ("body.0.weight was torch.float32", "float64")),
    "unfrozen": ((), ("body.0.weight was frozen", "requires_grad_(True) before")),
    "added": ((), ("other parameters than at first",)),
    "add": ((), ("keys are fixed when a job begins",)),
    "closure": ((), ("LBFGS", "several times in a step")),
    "scaler": ((), ("GradScaler", "bfloat16", 'where="worker"')),
    "nan": ((), ("key ", "worker 1", "not finite")),
    "raise": ((), ("KeyError", "the camera is gone")),
}


OF_TWO = ("norms", "shape", "name", "dtype", "optimizer", "nan", "raise")


def interrupted(where: str) -> None:
    """A signal comes while rank 0 waits for rank 1."""
    began = [0.0]

    def ring() -> None:
        began[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    model = net()
    if where == "join":
        if RANK == 1:
            time.sleep(5)
        threading.Timer(1.0, ring).start()
    try:
        optimizer = gradweir.torch.Optimizer(_sgd(model), model, where="worker", log=False)
        x, y = batch(0)
        if where == "finish" and RANK == 1:
            time.sleep(5)
        if where == "finish":
            threading.Timer(1.0, ring).start()
            optimizer.finish()
        for step in range(3):
            if step == 1 and RANK == 1:
                time.sleep(5)
            if step == 1:
                threading.Timer(1.0, ring).start()
            optimizer.zero_grad()
            loss_of(model, x, y).backward()
            optimizer.step()
    except KeyboardInterrupt:
        tell(after=time.monotonic() - began[0])
        raise


def ends_early() -> None:
    """Rank 1 has fewer batches, and rank 0 more than the job has steps."""
    model = net()
    with gradweir.torch.Optimizer(_sgd(model), model, log=False) as optimizer:
        taken = 0
        for step in range(5 if RANK == 1 else 12):
            x, y = batch(step)
            optimizer.zero_grad()
            loss_of(model, x, y).backward()
            optimizer.step()
            taken += 1
    tell(taken=taken)


def exits(code: str) -> None:
    """Both ranks leave a with block by sys.exit()."""
    model = net()
    with gradweir.torch.Optimizer(_sgd(model), model, log=False) as optimizer:
        loss_of(model, *batch(0)).backward()
        optimizer.step()
        sys.exit(int(code) if RANK == 0 else 0)


LEAVES = {
    "servers": ("servers", "backward", "sync"),
    "in forward": ("servers", "both", "sync"),
    "worker": ("worker", "backward", "sync"),
    "local": ("worker", "none", "local:1"),
}


def leaves(case: str, place: str) -> None:
    """Rank 0 ends the job after 4 steps, while rank 1 sleeps somewhere."""
    where, overlap, _ = LEAVES[case]
    model = net()
    with gradweir.torch.Optimizer(
        _sgd(model), model, where=where, overlap=overlap, log=False
    ) as optimizer:
        for step in optimizer.steps(range(4 if RANK == 0 or place == "end" else 9)):
            x, y = batch(step)
            is_late = RANK == 1 and step == 4
            optimizer.zero_grad()
            time.sleep(0.4 if is_late and place == "forward" else 0)
            loss = loss_of(model, x, y)
            time.sleep(0.4 if is_late and place == "backward" else 0)
            loss.backward()
            time.sleep(0.4 if is_late and place == "step" else 0)
            optimizer.step()
        time.sleep(0.4 if RANK == 1 and place == "end" else 0)
        optimizer.wait()
        if RANK == 0:
            tell(digest=digest(model))
    tell(digest=digest(model))


def in_thread(case: str) -> None:
    """A thread trains. "raises": rank 1's in a step, and its script stays.
    "behind": rank 0 ends the job, and nobody catches the exception of rank 1."""
    model = net()
    optimizer = gradweir.torch.Optimizer(_sgd(model), model, log=False)

    def train() -> None:
        for step in range(400 if case == "behind" and RANK == 1 else 20):
            optimizer.zero_grad()
            if case == "raises" and RANK == 1 and step == 2:
                raise KeyError("the camera is gone")
            loss_of(model, *batch(step)).backward()
            optimizer.step()

    began = time.monotonic()
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    tell(after=time.monotonic() - began)
    time.sleep(8 if case == "raises" and RANK == 1 else 0)


def fails_and_stays() -> None:
    """Rank 1 says that it has failed, and its script goes on with something else."""
    model = net()
    optimizer = gradweir.torch.Optimizer(_sgd(model), model, log=False)
    began = time.monotonic()
    if RANK == 1:
        optimizer.fail("no bread")
        tell(rank=optimizer.rank, clock=optimizer.clock)
        time.sleep(8)
        return
    try:
        for step in range(20):
            optimizer.zero_grad()
            loss_of(model, *batch(step)).backward()
            optimizer.step()
    finally:
        tell(after=time.monotonic() - began)


def beside_threads() -> None:
    """An exception of a thread that has no part in the job; the script's own
    hook hears it, and is there again afterwards."""
    seen = []

    def hook(arguments) -> None:
        seen.append(arguments.exc_type.__name__)

    threading.excepthook = hook
    model = net()
    with gradweir.torch.Optimizer(_sgd(model), model, log=False) as optimizer:
        for step in range(3):
            thread = threading.Thread(target=lambda: 1 // 0)
            thread.start()
            thread.join()
            optimizer.zero_grad()
            loss_of(model, *batch(step)).backward()
            optimizer.step()
    tell(seen=seen, restored=threading.excepthook is hook)


def second_job(case: str) -> None:
    """Two optimizers under one job: both at once, one after the other, and
    beside a process group."""
    if case == "group":
        importlib.import_module("gradweir.torch.backend")
        torch.distributed.init_process_group("gradweir")
    for _ in range(2):
        model = net()
        optimizer = gradweir.torch.Optimizer(_sgd(model), model, log=False)
        if case == "later":
            optimizer.finish()


def two_optimizers(other: str) -> None:
    """A GAN: two jobs, each with its own steps."""
    torch.manual_seed(1)
    makes, judges = nn.Linear(2, 4), nn.Linear(4, 1)
    of_makes = gradweir.torch.Optimizer(_sgd(makes), makes, log=False)
    of_judges = gradweir.torch.Optimizer(_sgd(judges), judges, log=False, coordinator=other)
    for step in range(6):
        of_makes.zero_grad()
        judges(makes(torch.ones(1, 2) * (RANK + 1))).sum().backward()
        of_makes.step()
        if step % 2 == 0:
            of_judges.zero_grad()
            judges(makes(torch.ones(1, 2)).detach()).square().sum().backward()
            of_judges.step()
    tell(clocks=[of_makes.clock, of_judges.clock], weight=judges.weight.detach().sum().item())
    of_makes.finish()
    of_judges.finish()


class Errors(JobTest):
    def test_arguments(self) -> None:
        """arguments that cannot be are refused before a job is joined"""
        done = self.program([sys.executable, os.path.abspath(__file__), "wrong_arguments"])
        self.assertEqual((done.code, done.err), (0, ""))

    def test_refused(self) -> None:
        """what cannot be exchanged is one exception with the remedy, for all ranks"""
        for case, (settings, words) in REFUSED.items():
            with self.subTest(case):
                ranks = 2 if case in OF_TWO else 1
                # the rank's exit code, or that of a coordinator which refuses a setting
                outcome = self.job(
                    refuses, case, ranks=ranks, servers=1, settings=settings, code=(1, 2)
                )
                self.assert_says(outcome, *words)

    def test_no_torch(self) -> None:
        """torch that is missing is an ImportError with a remedy"""
        hide = "import sys; sys.modules['torch'] = None; import gradweir.torch"
        done = self.program([sys.executable, "-c", hide])
        self.assertEqual(done.code, 1)
        self.assertIn("gradweir.torch needs PyTorch", done.err)

    def test_no_coordinator(self) -> None:
        """no coordinator, and one that is not there: the line says which"""
        make = (
            "import torch, gradweir.torch; m = torch.nn.Linear(1, 1); "
            "gradweir.torch.Optimizer(torch.optim.SGD(m.parameters(), lr=1), m{})"
        )
        done = self.program([sys.executable, "-c", make.format("")])
        self.assert_says(done, "gradweir.errors.Error", "GRADWEIR_COORDINATOR")
        there = ", coordinator='127.0.0.1:1'"
        command = [sys.executable, "-c", make.format(there).replace("Optimizer(", "Optimizer(", 1)]
        began = time.monotonic()
        done = self.program(["timeout", "60", *command])
        self.assert_says(done, "gradweir.errors.Error", "127.0.0.1:1")
        self.assertLess(time.monotonic() - began, 50)

    def test_own_model(self) -> None:
        """a job file with a model of its own is refused"""
        job = os.path.join(self.dir, "own.job")
        with open(job, "w", encoding="utf-8") as file:
            file.write('model = { kind = "mlp"; layers = (784, 10); };\n')
        outcome = self.program([GRADWEIR, "run", job, "--", sys.executable, "-c", ""])
        self.assertNotEqual(outcome.code, 0)
        self.assert_says(outcome, "model")

    def test_interrupt(self) -> None:
        """Ctrl-C ends a wait within a second: in joining, in a step, in finish()"""
        for where in ("join", "step", "finish"):
            with self.subTest(where):
                # the launcher's is that of the rank that ends first: of the one
                # that was interrupted, or of another, to which that is an error
                outcome = self.job(interrupted, where, code=(1, 130))
                self.assertLess(outcome.told[0]["after"], 1.0)
                self.assert_says(outcome, "gradweir: worker 0", "KeyboardInterrupt")

    def test_uneven(self) -> None:
        """a rank that runs out of data, and a job that ends before a script"""
        outcome = self.job(ends_early, settings=("train.steps=9",))
        self.assertEqual(outcome.told[1]["taken"], 5)
        self.assertEqual(outcome.told[0]["taken"], 9)

    def test_exits(self) -> None:
        """sys.exit() in a with block ends the job: in order, or as a failure by its code"""
        self.assert_says(self.job(exits, "0"), "done        finished at step 1")
        self.assert_says(self.job(exits, "3", code=(1, 3)), "worker 0", "SystemExit: 3")

    def test_leaves(self) -> None:
        """rank 0 ends the job while another rank is anywhere in a step: it has the last weights"""
        for case, (_, _, policy) in LEAVES.items():
            for place in ("forward", "backward", "step", "end"):
                with self.subTest(case, place=place):
                    outcome = self.job(
                        leaves, case, place, settings=(f"cluster.policy={policy}",)
                    )
                    digests = {told["digest"] for told in outcome.told.values()}
                    self.assertEqual(len(digests), 1, outcome.text)

    def test_threads(self) -> None:
        """an exception of the thread that trains ends the job; of another one it does not"""
        outcome = self.job(in_thread, "raises", code=1)
        self.assertLess(outcome.told[0]["after"], 5)
        self.assert_says(outcome, "gradweir: worker 1", "KeyError: 'the camera is gone'")
        outcome = self.job(in_thread, "behind", settings=("cluster.policy=async",))
        self.assert_says(outcome, "the job has no further step; this thread ends here")
        self.assertNotIn("Traceback", outcome.text)
        for told in self.job(beside_threads).told.values():
            self.assertEqual(told["seen"], ["ZeroDivisionError"] * 3)
            self.assertTrue(told["restored"])

    def test_fail(self) -> None:
        """fail() ends the job at once, whatever the script does afterwards"""
        outcome = self.job(fails_and_stays, code=1)
        self.assertLess(outcome.told[0]["after"], 5)
        self.assertEqual(outcome.told[1], {"rank": 1, "clock": 0})
        self.assert_says(outcome, "gradweir: worker 1", "no bread")

    def test_second_job(self) -> None:
        """a second optimizer in a job of one hears that each needs a job, and how"""
        for case, line in (
            ("both", "the job has all its members"),
            ("later", "the coordinator ended the job"),
            ("group", "the job has all its members"),
        ):
            with self.subTest(case):
                outcome = self.job(second_job, case, ranks=1, code=1)
                self.assert_says(outcome, line, "has joined this job already", "coordinator=")

    def test_two_optimizers(self) -> None:
        """two optimizers in a script are two jobs"""
        job = os.path.join(self.dir, "second.job")
        with open(job, "w", encoding="utf-8") as file:
            file.write('model = { kind = "external"; };\ncluster = { workers = 2; servers = 1; };\n')
        coordinator = subprocess.Popen(
            [GRADWEIR, "coordinator", job],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.dir,
        )
        self.addCleanup(coordinator.stdout.close)
        self.addCleanup(coordinator.wait, 20)
        self.addCleanup(coordinator.kill)
        address = ""
        for line in coordinator.stdout:
            words = [word for word in line.split() if word.count(":") == 1 and word[-1:].isdigit()]
            if words:
                address = words[-1]
                break
        server = subprocess.Popen(
            [GRADWEIR, "server", "--join", address], stderr=subprocess.DEVNULL, cwd=self.dir
        )
        self.addCleanup(server.wait, 20)
        self.addCleanup(server.kill)
        outcome = self.job(two_optimizers, address)
        for told in outcome.told.values():
            self.assertEqual(told["clocks"], [6, 3])
        self.assertEqual(outcome.told[0]["weight"], outcome.told[1]["weight"])


if __name__ == "__main__":
    main()
