"""Scripts of other frameworks: the losses of 50 steps of two ranks are those over Gloo.

Each script is written in both ways of docs/python.md: with the word of the backend,
and with gradweir.torch.Optimizer, where the framework sees a single process.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import gradweir.torch
import gradweir.torch.backend
from models import batch, gpt2, loss_of, net, text
from support import GRADWEIR, RANK, WORLD, JobTest, free_ports, main, tell

STEPS = 50
BATCH = 4  # samples of a rank
JOB = """model = { kind = "external"; };
cluster = { workers = 2; servers = 1; };
"""


def leave_launcher() -> None:
    """Hides the launcher's variables from the framework."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)


def shard(data: Any) -> Subset:
    """This rank's batches, as Accelerate divides them under DDP."""
    mine = [i for i in range(len(data)) if i // BATCH % WORLD == RANK]
    return Subset(data, mine)


def pictures() -> TensorDataset:
    x, y = zip(*(batch(step, BATCH * WORLD) for step in range(STEPS)))
    return TensorDataset(torch.cat(x), torch.cat(y))


def _momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


# ---- Hugging Face's Trainer ----


def _train_gpt2(
    model: nn.Module, data: Any, optimizer: Any = None, **options: Any
) -> list[float]:
    from transformers import Trainer, TrainingArguments

    args = TrainingArguments(
        output_dir="trainer",
        per_device_train_batch_size=BATCH,
        max_steps=STEPS,
        learning_rate=1e-3,
        train_sampling_strategy="sequential",
        logging_steps=1,
        save_steps=STEPS // 2,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        **options,
    )
    trainer = Trainer(model, args, train_dataset=data, optimizers=(optimizer, None))
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def _sentences() -> list[dict[str, torch.Tensor]]:
    rows = torch.cat([text(step, BATCH * WORLD) for step in range(STEPS)])
    return [{"input_ids": row, "labels": row} for row in rows]


def trainer_over(backend: str) -> None:
    dist.init_process_group(backend)
    tell(losses=_train_gpt2(gpt2(), _sentences(), max_grad_norm=1.0, save_strategy="no"))
    dist.destroy_process_group()


def trainer_with_optimizer() -> None:
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    optimizer = gradweir.torch.Optimizer(optimizer, model, max_norm=1.0)
    data = shard(_sentences())
    leave_launcher()
    saves = "steps" if optimizer.rank == 0 else "no"
    tell(losses=_train_gpt2(model, data, optimizer, max_grad_norm=0.0, save_strategy=saves))


# ---- Accelerate ----


def _accelerate(model: nn.Module, optimizer: torch.optim.Optimizer, data: Any) -> list[float]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader = DataLoader(data, batch_size=BATCH)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def accelerate_over(backend: str) -> None:
    dist.init_process_group(backend)
    model = net()
    tell(losses=_accelerate(model, _momentum(model), pictures()))
    dist.destroy_process_group()


def accelerate_with_optimizer() -> None:
    model = net()
    optimizer = gradweir.torch.Optimizer(_momentum(model), model, where="worker")
    data = shard(pictures())
    leave_launcher()
    tell(losses=_accelerate(model, optimizer, data))


# ---- Lightning ----


def _lightning(data: Any, wrap: Callable[..., Any], **options: Any) -> list[float]:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()
            self.losses: list[float] = []

        def training_step(self, pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
            loss = loss_of(self.net, *pair)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return wrap(_momentum(self), self)

    module = Module()
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    trainer.fit(module, DataLoader(data, batch_size=BATCH))
    return module.losses


def lightning_over(backend: str) -> None:
    from lightning.pytorch.strategies import DDPStrategy

    strategy = DDPStrategy(process_group_backend=backend)
    losses = _lightning(
        shard(pictures()),
        lambda optimizer, model: optimizer,
        devices=WORLD,
        strategy=strategy,
        enable_checkpointing=False,
        use_distributed_sampler=False,
    )
    tell(losses=losses)


def lightning_with_optimizer() -> None:
    data = shard(pictures())
    tell(
        losses=_lightning(
            data, gradweir.torch.Optimizer, devices=1, enable_checkpointing=RANK == 0
        )
    )


# ---- torchrun ----


def plain_script(how: str) -> None:
    model = net()
    optimizer = _momentum(model)
    if how == "optimizer":
        optimizer = gradweir.torch.Optimizer(optimizer, model)
    else:
        dist.init_process_group(how)
        model = nn.parallel.DistributedDataParallel(model)
    losses = []
    for x, y in DataLoader(shard(pictures()), batch_size=BATCH):
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    tell(**{f"losses of {RANK}": losses})
    if how != "optimizer":
        dist.destroy_process_group()  # Gloo may abort at exit without


class Clients(JobTest):
    def losses(self, told: dict[int, dict[str, Any]]) -> list[list[float]]:
        self.assertEqual([len(told[rank]["losses"]) for rank in (0, 1)], [STEPS, STEPS])
        return [told[rank]["losses"] for rank in (0, 1)]

    def over_both(self, package: str, case: Callable[[str], None]) -> list[list[float]]:
        """The losses over Gloo, to which those over gradweir are equal."""
        if importlib.util.find_spec(package) is None:
            self.skipTest(f"no {package}")
        gloo = self.losses(self.alone(case, "gloo"))
        outcome = self.job(case, "gradweir")
        self.assert_stepped(outcome)
        self.assertEqual(self.losses(outcome.told), gloo)
        return gloo

    def assert_near(self, losses: list[float], expected: list[float]) -> None:
        far = max(abs(one - other) / abs(other) for one, other in zip(losses, expected))
        self.assertLessEqual(far, 1e-5)

    def test_trainer(self) -> None:
        """Hugging Face's Trainer: Gloo's losses, by the backend and by the optimizer"""
        gloo = self.over_both("transformers", trainer_over)
        settings = ("checkpoint.dir=servers",)
        one, other = self.losses(self.job(trainer_with_optimizer, settings=settings).told)
        # over Gloo Trainer logs the mean, here each rank its own
        self.assert_near([(a + b) / 2 for a, b in zip(one, other)], gloo[0])
        saved = torch.load(Path(self.dir, f"trainer/checkpoint-{STEPS // 2}/optimizer.pt"))
        self.assertEqual(saved["state"][0]["step"].item(), STEPS // 2)

    def test_accelerate(self) -> None:
        """Accelerate: Gloo's losses, by the backend and by the optimizer"""
        gloo = self.over_both("accelerate", accelerate_over)
        self.assertEqual(self.losses(self.job(accelerate_with_optimizer).told), gloo)

    def test_lightning(self) -> None:
        """Lightning's Trainer: Gloo's losses, by the backend and by the optimizer"""
        gloo = self.over_both("lightning", lightning_over)
        told = self.job(lightning_with_optimizer, settings=("checkpoint.dir=servers",)).told
        for losses, expected in zip(self.losses(told), gloo):
            self.assert_near(losses, expected)
        (saved,) = Path(self.dir, "checkpoints").glob("*.ckpt")
        states = torch.load(saved, weights_only=False)["optimizer_states"][0]["state"]
        self.assertEqual(len(states), len(list(net().parameters())))

    def torchrun(self, how: str, port: int) -> list[list[float]]:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
        # no rank is redirected; 1.13 cannot read its own default under Python 3.11
        launcher += ["--redirects", "9:3", "--tee", "9:3", "--master_port", str(port)]
        module = str(Path(__file__).resolve())
        outcome = self.program([*launcher, module, plain_script.__name__, how])
        self.assertEqual(outcome.code, 0, outcome.text)
        return [outcome.told[0][f"losses of {rank}"] for rank in (0, 1)]

    def start(self, *words: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [GRADWEIR, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.addCleanup(process.kill)
        return process

    def by_hand(self, how: str) -> list[list[float]]:
        """torchrun beside a coordinator and a server that are started by hand."""
        port = free_ports(2)
        job = Path(self.dir, "job.cfg")
        job.write_text(JOB)
        coordinator = self.start("coordinator", str(job), "--set", f"cluster.port={port + 1}")
        server = self.start("server", "--join", f"127.0.0.1:{port + 1}")
        losses = self.torchrun(how, port)
        out, _ = coordinator.communicate(timeout=30)
        self.assertRegex(out, "finished at step [1-9]")
        self.assertEqual((coordinator.returncode, server.wait(timeout=30)), (0, 0))
        return losses

    def test_torchrun(self) -> None:
        """torchrun and a cluster started by hand: Gloo's losses, by either way"""
        gloo = self.torchrun("gloo", free_ports(1))
        self.assertEqual(self.by_hand("gradweir"), gloo)
        for losses, expected in zip(self.by_hand("optimizer"), gloo):
            self.assert_near(losses, expected)


if __name__ == "__main__":
    main()
