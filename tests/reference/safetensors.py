"""Makes library.safetensors with the safetensors library, for test_safetensors.

Run it in this folder: python3 safetensors.py (safetensors 0.8.0 and numpy
2.4.6 made the committed file). float32 values count up from 0.
"""

import sys

sys.path.pop(0)  # this file must not stand in for the library

import numpy
from safetensors.numpy import save_file

save_file(
    {
        "fc1.weight": numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
        "fc1.bias": numpy.arange(6, 9, dtype=numpy.float32),
        "scale": numpy.array(9, dtype=numpy.float32),
        "half": numpy.ones((3,), dtype=numpy.float16),
        "steps": numpy.array([7], dtype=numpy.int64),
        "mask": numpy.array([True, False, True]),
        "nothing": numpy.zeros((0, 4), dtype=numpy.float32),
    },
    "library.safetensors",
    {"format": "pt", "a key": "a \"value\" of \u00e4\u4e16"},
)
