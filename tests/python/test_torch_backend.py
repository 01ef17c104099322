"""torch.distributed over gradweir: sums, and DDP beside Gloo."""

from __future__ import annotations

import torch
import torch.distributed as dist

import gradweir.torch.backend
from models import batch, digest, loss_of, net
from support import RANK, WORLD, JobTest, main, tell


def _number(n: int, rank: int) -> torch.Tensor:
    return torch.arange(n, dtype=torch.float32) % 997 * (rank + 1)


def sums() -> None:
    """Sizes from one number to more than all lanes, many at once, other types."""
    dist.init_process_group("gradweir")
    whole = sum(range(1, WORLD + 1))
    for n in (1, 1023, 1024, 4097, 300_001, 10_000_003):
        mine = _number(n, RANK)
        dist.all_reduce(mine)
        assert torch.equal(mine, _number(n, 0) * whole), n
    many = [_number(70_000 + i, RANK) for i in range(40)]
    works = [dist.all_reduce(each, async_op=True) for each in many]
    for i, work in enumerate(works):
        work.wait()
        assert torch.equal(many[i], _number(70_000 + i, 0) * whole), i
    half = torch.full((5000,), 1.5, dtype=torch.bfloat16)
    dist.all_reduce(half)
    assert torch.equal(half, torch.full((5000,), 1.5 * WORLD, dtype=torch.bfloat16))
    turned = torch.ones(100, 60).t()
    dist.all_reduce(turned)
    assert torch.equal(turned, torch.full((60, 100), float(WORLD)))
    counts = torch.full((5000,), RANK, dtype=torch.int64)
    dist.all_reduce(counts)
    most = torch.full((5000,), float(RANK))
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    assert most[0] == WORLD - 1 and counts[0] == sum(range(WORLD))
    dist.barrier()
    tell(done=True)
    dist.destroy_process_group()


def with_ddp(backend: str) -> None:
    """Losses of DDP, by either backend."""
    dist.init_process_group(backend)
    model = net(seed=7 + RANK)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for step in range(20):
        x, y = batch(step)
        optimizer.zero_grad()
        loss = loss_of(wrapped, x[RANK::WORLD], y[RANK::WORLD])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    tell(losses=losses, digest=digest(model))
    dist.destroy_process_group()


def of_another_size() -> None:
    dist.init_process_group("gradweir", rank=0, world_size=3)


class Backend(JobTest):
    def test_sums(self) -> None:
        """all_reduce of any size, many at once, of other types; others go over Gloo"""
        outcome = self.job(sums)
        self.assertTrue(outcome.told[1]["done"])
        self.assert_stepped(outcome)

    def test_ddp(self) -> None:
        """DDP's losses are Gloo's to every digit, with 1 to 3 servers"""
        gloo = self.alone(with_ddp, "gloo")
        for servers in (1, 3):
            outcome = self.job(with_ddp, "gradweir", servers=servers)
            self.assert_stepped(outcome)
            self.assertEqual(outcome.told[0], gloo[0])
            self.assertEqual(outcome.told[1], gloo[1])

    def test_policy(self) -> None:
        """another policy than sync is refused"""
        outcome = self.job(with_ddp, "gradweir", settings=("cluster.policy=async",), code=1)
        self.assert_says(outcome, "a process group needs sync")


if __name__ == "__main__":
    main()
