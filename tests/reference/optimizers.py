#!/usr/bin/env python3
"""Makes optimizers.inc: what PyTorch's optimizers do to eight weights in 20 steps.

    python3 tests/reference/optimizers.py > tests/reference/optimizers.inc

Weights and gradients are fractions that C and Python make alike, in fp32.
Needs torch; any version gives the same numbers to fp32 rounding.
"""
import torch

N, STEPS = 8, 20


def fraction(numerator, denominator):
    return torch.tensor(numerator, dtype=torch.float32) / denominator - 0.5


def weights():
    return fraction([(37 * i + 11) % 101 for i in range(N)], 101)


def gradient(step):
    return fraction([(53 * i + 29 * step + 7) % 97 for i in range(N)], 97)


CASES = [
    # name, our optimizer, lr, momentum, beta2, weight decay, torch's
    ("sgd", 0.1, 0, 0, 0, lambda p: torch.optim.SGD(p, lr=0.1)),
    ("sgd", 0.1, 0, 0, 0.01,
     lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01)),
    ("momentum", 0.05, 0.9, 0, 0.01,
     lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01)),
    ("nesterov", 0.05, 0.9, 0, 0.01,
     lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01,
                               nesterov=True)),
    ("adam", 0.01, 0, 0.999, 0,
     lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.999))),
    ("adam", 0.01, 0, 0.95, 0.1,
     lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.95),
                                weight_decay=0.1)),
    ("adamw", 0.01, 0, 0.999, 0.1,
     lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.999),
                                 weight_decay=0.1)),
]


def numbers(values):
    return ", ".join("%.9g" % v for v in values)


print("/* Made by optimizers.py with PyTorch. */")
for name, lr, momentum, beta2, decay, make in CASES:
    w = torch.nn.Parameter(weights())
    optimizer = make([w])
    for step in range(STEPS):
        w.grad = gradient(step)
        optimizer.step()
    print('{"%s", %g, %g, 0.9, %g, %g,\n {%s}},'
          % (name, lr, momentum, beta2, decay, numbers(w.tolist())))
