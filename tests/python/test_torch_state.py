"""Checkpoints, resumption and state dicts of states that are on servers; scores
and reports."""

from __future__ import annotations

import os
import re
import time

import torch
from torch import nn

import gradweir.torch
from models import apart, batch, digest, groups_of, loss_of, net
from support import RANK, WORLD, JobTest, main, tell


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups_of(model), lr=1e-3)


def trains(until: str) -> None:
    """Steps up to a clock, from where the job stands."""
    model = net(seed=7 + RANK)
    with gradweir.torch.Optimizer(_adamw(model), model, log=False) as optimizer:
        began = optimizer.clock
        while optimizer.clock < int(until):
            x, y = batch(optimizer.clock)
            optimizer.param_groups[0]["lr"] = 1e-3 * (1 + optimizer.clock % 3)
            optimizer.zero_grad()
            loss_of(model, x[RANK::WORLD], y[RANK::WORLD]).backward()
            optimizer.step()
        tell(began=began, digest=digest(model))


def tells_state() -> None:
    """state_dict() on rank 0 in the middle, beside torch's own."""
    model, alone = net(), net()
    reference = _adamw(alone)
    with gradweir.torch.Optimizer(_adamw(model), model, log=False) as optimizer:
        for step in range(8):
            x, y = batch(step)
            for m, o, part in (
                (model, optimizer, slice(RANK, None, WORLD)),
                (alone, reference, slice(None)),
            ):
                o.zero_grad()
                loss_of(m, x[part], y[part]).backward()
                o.step()
            if step == 4 and RANK == 0:
                mine, theirs = optimizer.state_dict(), reference.state_dict()
                tell(
                    params=[g["params"] for g in mine["param_groups"]]
                    == [g["params"] for g in theirs["param_groups"]],
                    steps={float(s["step"]) for s in mine["state"].values()}
                    == {float(s["step"]) for s in theirs["state"].values()},
                    apart=max(
                        (mine["state"][i][name] - theirs["state"][i][name]).abs().max().item()
                        for i in theirs["state"]
                        for name in ("exp_avg", "exp_avg_sq")
                    ),
                )
                torch.optim.AdamW(groups_of(net()), lr=1).load_state_dict(mine)
        tell(weights=apart(model, alone))


def scores() -> None:
    model = net()
    asked = []

    def score() -> tuple[float, int, int]:
        asked.append(RANK)
        return 0.5, 3 + RANK, 10

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with gradweir.torch.Optimizer(optimizer, model, score=score, log=False) as optimizer:
        for step in range(7):
            x, y = batch(step)
            optimizer.zero_grad()
            loss = loss_of(model, x, y)
            loss.backward()
            optimizer.report(loss, samples=len(y))
            optimizer.step()
    tell(asked=len(asked))


def reports(who: str) -> None:
    """A loss below 0 of the ranks that report."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        for step in range(3):
            optimizer.zero_grad()
            loss_of(model, *batch(step)).backward()
            if str(RANK) in who:
                optimizer.report(-1.5 - RANK, samples=8)
            optimizer.step()


def says_nothing() -> None:
    """40 steps of 20 ms."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        for _ in range(40):
            time.sleep(0.02)
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()


class Begun(nn.Module):
    """A model with buffers, a tensor of several chunks, and a layer that is used
    in every other step."""

    def __init__(self) -> None:
        super().__init__()
        self.body = net()
        self.norm = nn.BatchNorm2d(1)
        self.wide = nn.Linear(10, 5000)
        self.seldom = nn.Linear(10, 10)

    def forward(self, x: torch.Tensor, step: int) -> torch.Tensor:
        h = self.body(self.norm(x))
        return self.wide(self.seldom(h) if step % 2 else h)


OPTIMIZERS = {
    "adamw": lambda m: torch.optim.AdamW(groups_of(m), lr=1e-3),
    "momentum": lambda m: torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9),
}


def _steps(model: nn.Module, optimizer: torch.optim.Optimizer, begin: int, end: int) -> None:
    for step in range(begin, end):
        x, y = batch(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x, step), y).backward()
        optimizer.step()


def _begun(kind: str, steps: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A training by torch alone."""
    torch.manual_seed(4)
    model = Begun()
    optimizer = OPTIMIZERS[kind](model)
    _steps(model, optimizer, 0, steps)
    return model, optimizer


def goes_on(kind: str) -> None:
    """Up to step 12, from what a training of 7 steps elsewhere has left."""
    model, optimizer = _begun(kind, 7 if RANK == 0 else 0)
    alone, _ = _begun(kind, 12)
    with gradweir.torch.Optimizer(optimizer, model, log=False) as optimizer:
        began = optimizer.clock
        _steps(model, optimizer, began, 12)
        buffers = zip(model.buffers(), alone.buffers())
        tell(
            began=began,
            apart=apart(model, alone),
            buffers=max((a - b).abs().max().item() for a, b in buffers if a.is_floating_point()),
        )


def begins(where: str, kind: str) -> None:
    """Three steps, for what servers save."""
    model = nn.Linear(3, 2)
    optimizer = OTHERS[kind](model.parameters())
    with gradweir.torch.Optimizer(optimizer, model, where=where, log=False) as optimizer:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()


def loads_other() -> None:
    """A state dict of another optimizer, in a job that goes on."""
    model = nn.Linear(3, 2)
    optimizer = gradweir.torch.Optimizer(OTHERS["adamw"](model.parameters()), model, log=False)
    own = optimizer.inner.state_dict()
    optimizer.load_state_dict(own)
    optimizer.load_state_dict(OTHERS["momentum"](nn.Linear(3, 2).parameters()).state_dict())


OTHERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
}


def _load(where: str, kind: str) -> None:
    model = nn.Linear(3, 2)
    gradweir.torch.load_checkpoint(where, model, OTHERS[kind](model.parameters()))


def _small(model: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


class State(JobTest):
    def test_begun_elsewhere(self) -> None:
        """a model and an optimizer with states begin a job: torch's weights, as without"""
        for kind in OPTIMIZERS:
            with self.subTest(kind):
                model, optimizer = _begun(kind, 7)
                where = os.path.join(self.dir, kind)
                path = gradweir.torch.save_checkpoint(where, model, optimizer, step=7)
                self.assertEqual(path.name, "step-00000007")
                again, other = _begun(kind, 0)
                self.assertEqual(gradweir.torch.load_checkpoint(where, again, other), 7)
                self.assertEqual(digest(again), digest(model))
                with self.assertRaisesRegex(FileExistsError, "step-00000007 is there"):
                    gradweir.torch.save_checkpoint(where, model, optimizer, step=7)
                save = (f"checkpoint.dir={where}",)
                outcome = self.job(goes_on, kind, settings=save, options=("--resume",), servers=3)
                for told in outcome.told.values():
                    self.assertEqual(told["began"], 7)
                    self.assertLessEqual(told["apart"], 1e-5)
                    self.assertLessEqual(told["buffers"], 1e-5)

    def test_states_are_not_lost(self) -> None:
        """an optimizer with states begins no new job in silence"""
        outcome = self.job(goes_on, "adamw", code=1)
        self.assert_says(outcome, "gradweir.torch.save_checkpoint(DIR, model", "--set checkpoint.dir=DIR --resume")
        adagrad = torch.optim.Adagrad(net().parameters())
        with self.assertRaisesRegex(ValueError, "servers do not know Adagrad"):
            gradweir.torch.save_checkpoint(self.dir, net(), adagrad)

    def test_resume(self) -> None:
        """10 steps, then 10 more on another number of servers: the bits of 20 at once"""
        save = ("checkpoint.dir=ck",)
        whole = self.job(trains, "20")
        self.job(trains, "10", settings=save)
        rest = self.job(trains, "20", settings=save, servers=1, options=("--resume",))
        self.assertEqual(rest.told[0]["began"], 10)
        self.assertEqual(rest.told[0]["digest"], whole.told[0]["digest"])
        self.assertEqual(rest.told[1]["digest"], whole.told[0]["digest"])
        model = net(seed=1)
        optimizer = _adamw(model)
        step = gradweir.torch.load_checkpoint(os.path.join(self.dir, "ck"), model, optimizer)
        self.assertEqual(step, 20)
        self.assertEqual(digest(model), whole.told[0]["digest"])
        self.assertEqual(float(optimizer.state_dict()["state"][0]["step"]), 20)

    def test_state_dict(self) -> None:
        """state_dict() is torch's, though the states are on the servers"""
        outcome = self.job(tells_state, settings=("checkpoint.dir=ck",))
        told = outcome.told[0]
        self.assertTrue(told["params"] and told["steps"])
        self.assertLessEqual(told["apart"], 1e-6)
        self.assertLessEqual(told["weights"], 1e-5)

    def test_no_directory(self) -> None:
        """state_dict() without checkpoint.dir says what to do"""
        outcome = self.job(tells_state, code=1)
        self.assert_says(outcome, "checkpoint.dir", "--set checkpoint.dir=DIR")

    def test_damage(self) -> None:
        """a damaged checkpoint and an empty directory are named"""
        with self.assertRaisesRegex(FileNotFoundError, "has no checkpoint"):
            gradweir.torch.load_checkpoint(self.dir, net())
        self.job(trains, "2", settings=("checkpoint.dir=ck",))
        shard = os.path.join(self.dir, "ck", "step-00000002", "shard-0-of-2.safetensors")
        with open(shard, "r+b") as file:
            file.seek(-5, os.SEEK_END)
            file.write(b"\x01")
        with self.assertRaisesRegex(ValueError, "shard-0-of-2.safetensors is damaged"):
            gradweir.torch.load_checkpoint(os.path.join(self.dir, "ck"), net())

    def test_another_shape(self) -> None:
        """a checkpoint of another shape is refused, not broadcast"""
        gradweir.torch.save_checkpoint(self.dir, *_small(nn.Linear(3, 1)))
        with self.assertRaisesRegex(ValueError, r"weight is \(1, 3\) in the checkpoint, and \(4, 3\)"):
            gradweir.torch.load_checkpoint(self.dir, nn.Linear(3, 4))

    def test_another_optimizer(self) -> None:
        """states of another optimizer are refused, and both are named"""
        for saved, fitting in (
            ("sgd", ("sgd", "momentum", "nesterov")),
            ("nesterov", ("sgd", "momentum", "nesterov")),
            ("adam", ("adam",)),
            ("adamw", ("adamw",)),
        ):
            where = os.path.join(self.dir, saved)
            model = nn.Linear(3, 2)
            gradweir.torch.save_checkpoint(where, model, OTHERS[saved](model.parameters()))
            for kind in OTHERS:
                with self.subTest(saved, kind=kind):
                    if kind in fitting:
                        _load(where, kind)
                        continue
                    name = type(OTHERS[kind](model.parameters())).__name__
                    words = f"states of {saved}, and the optimizer is {name}"
                    with self.assertRaisesRegex(ValueError, words):
                        _load(where, kind)

    def test_outer_states(self) -> None:
        """states of servers that drive exchanges are no script's"""
        settings = ("checkpoint.dir=ck", "cluster.policy=diloco:2")
        self.job(begins, "servers", "nesterov", settings=settings)
        where = os.path.join(self.dir, "ck")
        with self.assertRaisesRegex(ValueError, "diloco:2.*nesterov.*leave it out"):
            _load(where, "nesterov")
        _load(where, "sgd")
        gradweir.torch.load_checkpoint(where, nn.Linear(3, 2))

    def test_means(self) -> None:
        """servers that only average have no weights to load"""
        self.job(begins, "worker", "sgd", settings=("checkpoint.dir=ck",))
        with self.assertRaisesRegex(ValueError, "weight is a mean.*no weights.*script's own"):
            _load(os.path.join(self.dir, "ck"), "adamw")

    def test_another_state_dict(self) -> None:
        """load_state_dict() of another optimizer's is refused"""
        outcome = self.job(loads_other, ranks=1, code=1)
        self.assert_says(outcome, "state dict is of", "momentum", "this one is AdamW", "betas")

    def test_worker_resume(self) -> None:
        """where="worker" keeps no weights on servers, and says so at --resume"""
        self.job(trains, "2", settings=("checkpoint.dir=ck",))
        outcome = self.job(
            _resumes_worker, settings=("checkpoint.dir=ck",), options=("--resume",), code=1
        )
        self.assertNotEqual(outcome.code, 0)

    def test_reports(self) -> None:
        """the job's lines have the loss of the ranks that report one, of either sign"""
        for policy, who, words in (
            ("sync", "01", "loss -2.0000"),
            ("sync", "0", "loss -1.5000"),
            ("sync", "", " steps/s"),
            ("async", "01", "loss -"),
        ):
            with self.subTest(policy, who=who):
                outcome = self.job(reports, who, settings=(f"cluster.policy={policy}",))
                self.assert_says(outcome, words)
                self.assertEqual("loss" in outcome.out, bool(who), outcome.text)

    def test_speed(self) -> None:
        """without samples the job's speed is in steps, of which all count"""
        line = re.search(r"speed +([0-9.]+) steps/s, .*\(([0-9.]+) s\)", self.job(says_nothing).out)
        self.assertIsNotNone(line)
        self.assertAlmostEqual(float(line[1]) * float(line[2]), 40, delta=8)

    def test_score(self) -> None:
        """the job asks for scores of the test set, and prints that of all ranks"""
        outcome = self.job(scores, settings=("train.eval_every=3 steps",))
        self.assertGreaterEqual(outcome.told[0]["asked"], 2)
        self.assert_says(outcome, "test accuracy 0.3500")


def _resumes_worker() -> None:
    model = net()
    gradweir.torch.Optimizer(_adamw(model), model, where="worker", log=False)


if __name__ == "__main__":
    main()
