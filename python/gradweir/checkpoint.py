"""Checkpoints of a job's servers, read and written without a job:
docs/manual.md, section 9, and docs/PROTOCOL.md, section 11.

Plain Python: no server, no library and no framework is needed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import tempfile
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
    `group`, `rule`: as in gradweir.h.
    """

    shape: tuple[int, ...]
    weights: bytearray
    states: dict[str, bytearray] = field(default_factory=dict)
    updates: int = 0
    group: int = 0
    rule: int = 0


@dataclass
class Checkpoint:
    """What a checkpoint holds of a job at one step."""

    step: int
    optimizer: str
    tensors: dict[str, Tensor]
    policy: str = "sync"


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
            tuple(key["shape"]),
            bytearray(_elems(key["shape"]) * FLOAT_BYTES),
            updates=updates,
            group=key.get("group", 0),
            rule=key.get("rule", 0),
        )
        for key in body["keys"]
    }
    for row in body["files"]:
        if row["name"].startswith("shard-"):
            _read_shard(_read_file(path / row["name"], row), tensors, updates)
    policy = body.get("policy") or "sync"
    return Checkpoint(body["state"]["clock"], body["optimizer"], tensors, policy)


# ---- writing ----

_CHUNKS_PER_MODEL, _CHUNK_STEP = 64, 4 << 10
_CHUNK_LEAST, _CHUNK_MOST = 64 << 10, 1 << 20
_HASH_BEGIN, _HASH_PRIME, _HASH_MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_F32 = 1
_JOB = 'model = {\n    kind = "external";\n};\n'


def _hash_of(tensors: dict[str, Tensor]) -> str:
    """FNV-1a of the keys, as servers know a model by it."""

    def numbers(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}Q", *values)

    data = numbers(len(tensors))
    for name, tensor in tensors.items():
        data += name.encode() + b"\0" + numbers(_F32, len(tensor.shape), *tensor.shape)
    if any(tensor.group or tensor.rule for tensor in tensors.values()):
        data += b"".join(numbers(tensor.group, tensor.rule) for tensor in tensors.values())
    value = _HASH_BEGIN
    for byte in data:
        value = (value ^ byte) * _HASH_PRIME & _HASH_MASK
    return f"{value:016x}"


def _chunk_elems(tensors: dict[str, Tensor]) -> int:
    """A tensor is kept in pieces of so many elements."""
    model = sum(len(tensor.weights) for tensor in tensors.values())
    nbytes = min(max(model // _CHUNKS_PER_MODEL, _CHUNK_LEAST), _CHUNK_MOST)
    return nbytes // _CHUNK_STEP * _CHUNK_STEP // FLOAT_BYTES


def _shard_of(held: Checkpoint) -> bytes:
    """All tensors as one safetensors file, as one server would write it."""
    step = _chunk_elems(held.tensors)
    most = max((tensor.updates for tensor in held.tensors.values()), default=0)
    metadata = {"clock": str(held.step)}
    header: dict[str, object] = {"__metadata__": metadata}
    parts: list[bytes] = []
    at = 0
    for name, tensor in held.tensors.items():
        for kind, data in {"": tensor.weights, **tensor.states}.items():
            elems = len(data) // FLOAT_BYTES
            for first in range(0, elems, step):
                end = min(first + step, elems)
                piece = f"{name}[{first}:{end}]"
                header[f"{kind}.{piece}" if kind else piece] = {
                    "dtype": "F32",
                    "shape": [end - first],
                    "data_offsets": [at, at + (end - first) * FLOAT_BYTES],
                }
                if not kind and tensor.updates < most:
                    metadata[f"skipped.{piece}"] = str(most - tensor.updates)
                at += (end - first) * FLOAT_BYTES
            parts.append(bytes(data))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def _body_of(held: Checkpoint, file: str, data: bytes) -> dict:
    """What the manifest says of a checkpoint of one file."""
    updates = max((tensor.updates for tensor in held.tensors.values()), default=0)
    keys = []
    for name, tensor in held.tensors.items():
        key: dict[str, object] = {"name": name, "dtype": _F32, "shape": list(tensor.shape)}
        key.update({k: v for k, v in (("group", tensor.group), ("rule", tensor.rule)) if v})
        keys.append(key)
    counts = ("good_steps", "skipped_in_a_row", "best_clock", "evaluations")
    return {
        "format": 1,
        "program": "python",
        "state": {
            "clock": held.step,
            "applied": updates,
            "loss_scale": 1.0,
            "best_loss": 0.0,
            "evaluations_without_progress": 0,
            "pushes": 0,
            **{name: 0 for name in counts},
        },
        "best": False,
        "keys_hash": _hash_of(held.tensors),
        "keys": keys,
        "optimizer": held.optimizer,
        "policy": held.policy,
        "job": _JOB,
        "files": [
            {"name": file, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        ],
        "ranks": [],
    }


def write(directory: Union[str, Path], held: Checkpoint) -> Path:
    """Writes a checkpoint for ``--set checkpoint.dir=DIRECTORY --resume``, returns its
    path, DIRECTORY/step-N: whole, or not at all. `held`: its tensors are the
    job's keys, in their order. FileExistsError: there is one of this step."""
    path = Path(directory) / f"step-{held.step:08d}"
    if path.exists():
        raise FileExistsError(f"gradweir: {path} is there already")
    data, file = _shard_of(held), "shard-0-of-1.safetensors"
    body = _body_of(held, file, data)
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    Path(directory).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".step-") as scratch:
        whole = Path(scratch) / path.name
        whole.mkdir()
        (whole / file).write_bytes(data)
        (whole / "manifest.json").write_text(
            json.dumps({"body": body, "sha256": digest}, indent=1, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
        os.rename(whole, path)
    return path
