"""Fashion-MNIST as arrays, from the files of Debian's dataset-fashion-mnist.

GW_DATA_DIR of the environment names another directory with them.
"""

import gzip
import os
from pathlib import Path

import numpy as np

DIRECTORY = Path(os.environ.get("GW_DATA_DIR", "/usr/share/datasets/fashion-mnist"))


def _read(name, header):
    with gzip.open(DIRECTORY / f"{name}-ubyte.gz") as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def load(part):
    """Images [n, 1, 28, 28] of mean 0 and deviation 1, and labels [n], of "train"
    or "t10k"."""
    images = _read(f"{part}-images-idx3", 16).reshape(-1, 1, 28, 28).astype(np.float32)
    labels = _read(f"{part}-labels-idx1", 8).astype(np.int64)
    return (images / 255 - 0.286) / 0.353, labels
