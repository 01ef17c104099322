"""Makes model.safetensors with the safetensors library, for test_exchange.

Run it in this folder: python3 model.py (safetensors 0.8.0 and numpy 2.4.6 made
the committed file). What a small model's weights would look like: float32
values that count up by a quarter through the keys in their order.
"""

import sys

sys.path.pop(0)  # safetensors.py here must not stand in for the library

import numpy
from safetensors.numpy import save_file

shapes = {"fc1.weight": (3, 5), "fc1.bias": (3,), "fc2.weight": (2, 3), "fc2.bias": (2,)}
tensors, at = {}, 0
for name, shape in shapes.items():
    n = int(numpy.prod(shape))
    values = numpy.arange(at, at + n, dtype=numpy.float32) / 4
    tensors[name] = values.reshape(shape)
    at += n
save_file(tensors, "model.safetensors", {"format": "pt"})
