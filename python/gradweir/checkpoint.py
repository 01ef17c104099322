"""Checkpoints of a job's servers, read without a job: docs/manual.md, section 9.

Plain Python: no server, no library and no framework is needed.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

_PIECE = re.compile(r"^(?:(?P<state>momentum_buffer|exp_avg_sq|exp_avg)\.)?"
                    r"(?P<name>.*)\[(?P<first>\d+):(?P<end>\d+)\]$", re.S)
_SKIPPED = re.compile(r"^skipped\.(?P<name>.*)\[\d+:\d+\]$", re.S)
FLOAT_BYTES = 4


@dataclass
class Tensor:
    """A key of a checkpoint: fp32, little-endian, in C order.

    `weights`: bytes. `states`: of the servers' optimizer, by torch's names
    ("exp_avg"), bytes each. `updates`: that the optimizer has made of it.
    """

    shape: tuple[int, ...]
    weights: bytearray
    states: dict[str, bytearray] = field(default_factory=dict)
    updates: int = 0


@dataclass
class Checkpoint:
    """What a checkpoint holds of a job at one step."""

    step: int
    optimizer: str
    tensors: dict[str, Tensor]


def find(directory: Union[str, Path]) -> Path:
    """The checkpoint itself, or the newest one of a checkpoint.dir.
    FileNotFoundError: there is none."""
    path = Path(directory)
    if (path / "manifest.json").exists():
        return path
    whole = sorted(found.parent for found in path.glob("step-*/manifest.json"))
    if not whole:
        raise FileNotFoundError(f"gradweir: {path} has no checkpoint (DIR/step-*/manifest.json)")
    return max(whole, key=lambda found: int(found.name.split("-")[1]))


def _manifest_of(path: Path) -> dict:
    with open(path / "manifest.json", encoding="utf-8") as file:
        return json.load(file)["body"]


def _read_file(path: Path, row: dict) -> bytes:
    """A file whose bytes are those that the manifest names."""
    data = path.read_bytes()
    if len(data) != row["bytes"] or hashlib.sha256(data).hexdigest() != row["sha256"]:
        raise ValueError(f"gradweir: {path} is damaged: its bytes are not those of manifest.json")
    return data


def _elems(shape: list[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _read_shard(data: bytes, tensors: dict[str, Tensor], updates: int) -> None:
    header_bytes = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + header_bytes])
    begin = 8 + header_bytes
    for name, value in header.pop("__metadata__", {}).items():
        skipped = _SKIPPED.match(name)
        if skipped and skipped["name"] in tensors:
            tensors[skipped["name"]].updates = updates - int(value)
    for name, row in header.items():
        piece = _PIECE.match(name)
        if piece is None or piece["name"] not in tensors:
            continue  # what a policy keeps for each worker
        tensor = tensors[piece["name"]]
        into = tensor.weights
        if piece["state"]:
            into = tensor.states.setdefault(piece["state"], bytearray(len(tensor.weights)))
        first, end = row["data_offsets"]
        at = int(piece["first"]) * FLOAT_BYTES
        into[at : at + end - first] = data[begin + first : begin + end]


def read(directory: Union[str, Path]) -> Checkpoint:
    """Reads a checkpoint, or the newest one of a checkpoint.dir.

    FileNotFoundError: there is none. ValueError: a file is damaged.
    """
    path = find(directory)
    body = _manifest_of(path)
    updates = body["state"]["applied"]
    tensors = {
        key["name"]: Tensor(
            tuple(key["shape"]), bytearray(_elems(key["shape"]) * FLOAT_BYTES), updates=updates
        )
        for key in body["keys"]
    }
    for row in body["files"]:
        if row["name"].startswith("shard-"):
            _read_shard(_read_file(path / row["name"], row), tensors, updates)
    return Checkpoint(body["state"]["clock"], body["optimizer"], tensors)
