"""libgradweir.so over ctypes: structs and prototypes, as gradweir.h has them.

Each function is there twice. ``quick`` keeps the interpreter's lock: for calls
that never wait and take microseconds. ``slow`` gives the lock up: for waits and
for long copies.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path

OK = 0
EAGAIN = -1
EINVAL = -2
EUSAGE = -12
EEND = -13
ETIMEOUT = -37
EINTERRUPTED = -65

F32, BF16, F16 = 0, 1, 2
RULE_OPTIMIZER, RULE_MEAN = 0, 1
TRAIN, SCORE = 0, 1
ANY_RANK = 0xFFFFFFFF
DIMS_MAX = 8
NAME_MAX = 255
FLOAT_BYTES = 4

SONAME = "libgradweir.so.0"

LogCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Struct(ctypes.Structure):
    """A struct that begins with its own size."""

    def __init__(self, **fields: object) -> None:
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class Options(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("coordinator", c_char_p),
        ("rank", c_uint32),
        ("set", POINTER(c_char_p)),
        ("sets", c_size_t),
        ("wait_ms", c_uint32),
        ("log", LogCallback),
        ("log_owner", c_void_p),
        ("log_level", c_int),
    ]


class Key(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("type", c_int),
        ("dims", c_uint32),
        ("shape", c_uint64 * DIMS_MAX),
        ("group", c_uint32),
    ]


class Group(Struct):
    _fields_ = [("struct_size", c_size_t), ("rule", c_int)]


class Declaration(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("keys", POINTER(Key)),
        ("n_keys", c_size_t),
        ("step_weight", c_uint64),
        ("scores", c_int),
        ("device", c_char_p),
        ("groups", POINTER(Group)),
        ("n_groups", c_size_t),
        ("optimizer", c_char_p),
        ("own_steps", c_int),
        ("max_norm", c_double),
    ]


class Terms(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("lr", c_double),
        ("weight_decay", c_double),
        ("momentum", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("eps", c_double),
    ]


class Step(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("task", c_int),
        ("number", c_uint64),
        ("weight", c_uint32),
        ("loss_scale", c_double),
        ("own", c_int),
    ]


class Result(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("loss", c_double),
        ("correct", c_uint64),
        ("samples", c_uint64),
    ]


_PROTOTYPES = {
    "version": (c_char_p,),
    "status_text": (c_char_p, c_int),
    "open": (c_int, POINTER(Options), POINTER(c_void_p), c_char_p, c_size_t),
    "close": (None, c_void_p),
    "error": (c_char_p, c_void_p),
    "join": (c_int, c_void_p, c_int),
    "rank": (c_uint32, c_void_p),
    "ranks": (c_uint32, c_void_p),
    "setting": (c_int, c_void_p, c_char_p, c_char_p, c_size_t),
    "declare": (c_int, c_void_p, POINTER(Declaration), c_int),
    "makes_weights": (c_int, c_void_p),
    "put": (c_int, c_void_p, c_size_t, c_void_p),
    "start": (c_int, c_void_p, c_int),
    "begin": (c_int, c_void_p, POINTER(Step), c_int),
    "terms": (c_int, c_void_p, c_uint32, POINTER(Terms)),
    "has": (c_int, c_void_p, c_size_t, c_size_t),
    "wait": (c_int, c_void_p, c_size_t, c_size_t, c_int),
    "take": (c_int, c_void_p, c_size_t, c_void_p),
    "weights": (c_void_p, c_void_p, c_size_t),
    "gradients": (c_void_p, c_void_p, c_size_t),
    "weigh": (c_int, c_void_p, c_uint32),
    "push": (c_int, c_void_p, c_size_t, c_void_p),
    "skip": (c_int, c_void_p, c_size_t, c_size_t, c_int, c_int),
    "pull": (c_int, c_void_p, c_size_t, c_size_t, c_int),
    "end": (c_int, c_void_p, POINTER(Result), c_int),
    "save": (c_int, c_void_p, c_int),
    "finish": (c_int, c_void_p, c_int),
    "fail": (c_int, c_void_p, c_char_p),
    "stop": (c_int, c_void_p),
}


class Functions:
    """The library's functions, without their prefix."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, *arguments) in _PROTOTYPES.items():
            function = getattr(library, "gradweir_" + name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)


def _find() -> str:
    """The library's file: GRADWEIR_LIBRARY, beside this package, the system's."""
    given = os.environ.get("GRADWEIR_LIBRARY")
    if given:
        return given
    packed = Path(__file__).with_name(SONAME)
    return str(packed) if packed.exists() else SONAME


def _load() -> tuple[Functions, Functions]:
    file = _find()
    try:
        return Functions(ctypes.PyDLL(file)), Functions(ctypes.CDLL(file))
    except (OSError, AttributeError) as error:
        raise ImportError(
            f"gradweir: {file} cannot be loaded: {error}; build it (./quickstart build) and set "
            f"GRADWEIR_LIBRARY to its path, or install it (make install, then ldconfig)"
        ) from None


quick, slow = _load()
