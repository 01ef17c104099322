"""Small models and data for the tests, the same on all ranks."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from typing import Any

import torch
from torch import nn

torch.set_num_threads(1)


class Net(nn.Module):
    """Two convolutions and two dense layers for pictures of 14 x 14."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 8, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(8 * 25, 32),
            nn.ReLU(),
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def net(seed: int = 7) -> Net:
    torch.manual_seed(seed)
    return Net()


def batch(step: int, size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch of all ranks in a step."""
    drawn = torch.Generator().manual_seed(1000 + step)
    x = torch.randn(size, 1, 14, 14, generator=drawn)
    return x, (x.mean((1, 2, 3)) * 60 + 5).clamp(0, 9).long()


HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
VOCAB = 256
# GPT-2: layers, width, tokens of a sequence
LAYERS, WIDTH, TOKENS = (int(n) for n in os.environ.get("GW_GPT2", "2 64 32").split())


def gpt2(seed: int = 7) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel  # takes seconds

    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCAB,
            n_layer=LAYERS,
            n_embd=WIDTH,
            n_head=WIDTH // 32,
            n_positions=TOKENS,
            bos_token_id=None,
            eos_token_id=None,
        )
    )


def text(step: int, size: int = 8) -> torch.Tensor:
    """Sequences of all ranks in a step: a token follows from the one before it,
    and one in ten is noise."""
    drawn = torch.Generator().manual_seed(2000 + step)
    noise = torch.randint(VOCAB, (TOKENS, size), generator=drawn)
    rows = [noise[0]]
    for row in noise[1:]:
        rows.append(torch.where(row < VOCAB // 10, row, (rows[-1] * 5 + 3) % VOCAB))
    return torch.stack(rows, 1)


def next_token_loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    logits = model(x).logits[:, :-1]
    return nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x), y)


def digest(model: nn.Module) -> str:
    data = hashlib.sha256()
    for parameter in model.parameters():
        data.update(parameter.detach().float().contiguous().numpy().tobytes())
    return data.hexdigest()


def apart(one: nn.Module, other: nn.Module) -> float:
    """The largest difference between the parameters of two models."""
    pairs = zip(one.parameters(), other.parameters())
    return max((a.detach() - b.detach()).abs().max().item() for a, b in pairs if a.numel() > 0)


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    """Weights decay, biases do not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
