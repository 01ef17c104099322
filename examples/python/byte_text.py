"""A text as bytes: a vocabulary of 256, and no tokenizer."""

import subprocess
from pathlib import Path

import torch

BIBLE = ["bible", "-f", "Ge1:1-Re22:21"]  # Debian's bible-kjv-text and bible-kjv


def load(path=None):
    """The bytes of a file; None: of the King James Bible."""
    text = Path(path).read_bytes() if path else subprocess.check_output(BIBLE)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def batch(text, n, length, generator=None):
    """n pieces of a text, from places that are drawn."""
    starts = torch.randint(len(text) - length, (n, 1), generator=generator)
    return text[starts + torch.arange(length)]


def mean_loss(model, text, length, batches=20):
    """Of the same pieces in each call."""
    generator = torch.Generator().manual_seed(0)
    model.eval()
    with torch.no_grad():
        pieces = [batch(text, 16, length, generator) for _ in range(batches)]
        return sum(model(x, labels=x).loss.item() for x in pieces) / batches
