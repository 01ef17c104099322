#!/usr/bin/env python3
"""Makes models.inc: 20 steps of an mlp and a cnn as PyTorch trains them.

    python3 tests/reference/models.py > tests/reference/models.inc

Weights, images, labels and dropout masks are draws of the generator that
proto/random.h describes, written here a second time; everything else is
PyTorch's, in fp64, so that what differs is our own rounding. Needs torch and
numpy; any version gives the same numbers. tests/unit/test_model_reference.c
does the same with worker/model and kernels/update.
"""
import sys

import numpy
import torch

STEPS, BATCH, PICKS, CLASSES, SIDE = 20, 24, 12, 10, 28
DROPOUT, TEST = 4, 5  # streams
SEED_WEIGHTS, SEED_PATTERN, SEED_LABEL, SEED_JOB = 31, 32, 34, 35
SEED_NOISE = {"mlp": 43, "cnn": 63}  # see clearance()
LOW = numpy.uint64(0xFFFFFFFF)
HALF = numpy.uint64(32)


def philox(seed, stream, a, b):
    """Philox4x32-10 (Salmon et al., SC'11) over an array b; [4][len(b)]."""
    b = numpy.asarray(b, numpy.uint64)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    c0, c1 = b & LOW, b >> HALF
    c2 = numpy.full_like(b, a)
    c3 = numpy.full_like(b, stream)
    for _ in range(10):
        p0 = numpy.uint64(0xD2511F53) * c0
        p1 = numpy.uint64(0xCD9E8D57) * c2
        c0 = (p1 >> HALF) ^ c1 ^ numpy.uint64(k0)
        c2 = (p0 >> HALF) ^ c3 ^ numpy.uint64(k1)
        c1, c3 = p1 & LOW, p0 & LOW
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack([c0, c1, c2, c3])


def uniform(bits):
    return (bits >> numpy.uint64(8)).astype(numpy.float64) * 2.0 ** -24


def uniforms(seed, stream, a, high, n):
    """n of them: element i is word i % 4 of the draw (high, i / 4)."""
    b = (numpy.uint64(high) << HALF) | numpy.arange((n + 3) // 4).astype(numpy.uint64)
    return uniform(philox(seed, stream, a, b).T.reshape(-1)[:n])


def initial(key, shape):
    """Uniform within the power of two next below sqrt(6 / fan in)."""
    n = int(numpy.prod(shape))
    fan_in = n // shape[0]
    limit = 2.0 ** numpy.floor(numpy.log2(numpy.sqrt(6.0 / fan_in)))
    return (2 * uniforms(SEED_WEIGHTS, TEST, key, 0, n) - 1).reshape(shape) * limit


def batch(name, step):
    """Each class has a pattern of 7 x 7 squares, with noise over its pixels."""
    images, labels = [], []
    for sample in range(step * BATCH, (step + 1) * BATCH):
        label = int(philox(SEED_LABEL, TEST, 0, [sample])[0][0]) % CLASSES
        pattern = uniforms(SEED_PATTERN, TEST, label, 0, 49).reshape(7, 7)
        pattern = pattern.repeat(4, 0).repeat(4, 1).reshape(-1)
        noise = uniforms(SEED_NOISE[name], TEST, sample, 0, SIDE * SIDE)
        images.append((2 * pattern + noise - 1.5).astype(numpy.float32))
        labels.append(label)
    x = numpy.stack(images).astype(numpy.float64).reshape(BATCH, 1, SIDE, SIDE)
    return torch.from_numpy(x), torch.tensor(labels)


class Dropout(torch.nn.Module):
    """The job's draws instead of PyTorch's: layer is its place in the list."""

    def __init__(self, layer, p):
        super().__init__()
        self.layer, self.p, self.step = layer, float(numpy.float32(p)), 0

    def forward(self, x):
        n = x[0].numel()
        a = (self.step << 8) | self.layer
        masks = [uniforms(SEED_JOB, DROPOUT, a, s, n) >= self.p
                 for s in range(len(x))]
        mask = torch.from_numpy(numpy.stack(masks)).reshape(x.shape)
        return x * mask / (1 - self.p)


def mlp():
    n = torch.nn
    return n.Sequential(
        n.Flatten(), n.Linear(784, 48), n.ReLU(), Dropout(1, 0.2),
        n.Linear(48, 24), n.ReLU(), Dropout(3, 0.2), n.Linear(24, 10))


def cnn():
    n = torch.nn
    return n.Sequential(
        n.Conv2d(1, 6, 7, stride=3), n.ReLU(), n.MaxPool2d(2), Dropout(2, 0.1),
        n.Conv2d(6, 12, 3, padding=1), n.ReLU(), n.MaxPool2d(2, stride=1),
        n.Flatten(), n.Linear(108, 32), n.ReLU(), Dropout(6, 0.1),
        n.Linear(32, 10))


CASES = [
    # our optimizer, lr, momentum, beta2, weight decay, torch's
    ("sgd", 0.1, 0, 0, 0, lambda p: torch.optim.SGD(p, lr=0.1)),
    ("momentum", 0.03, 0.9, 0, 0.01,
     lambda p: torch.optim.SGD(p, lr=0.03, momentum=0.9, weight_decay=0.01)),
    ("nesterov", 0.03, 0.9, 0, 0,
     lambda p: torch.optim.SGD(p, lr=0.03, momentum=0.9, nesterov=True)),
    ("adam", 0.003, 0, 0.999, 0,
     lambda p: torch.optim.Adam(p, lr=0.003, betas=(0.9, 0.999))),
    ("adamw", 0.003, 0, 0.95, 0.1,
     lambda p: torch.optim.AdamW(p, lr=0.003, betas=(0.9, 0.95),
                                 weight_decay=0.1)),
]


def numbers(values):
    lines, line = [], " "
    for text in ("%.9g," % float(v) for v in values):
        if len(line) + len(text) > 79:
            lines.append(line)
            line = " "
        line += " " + text
    return "\n".join(lines + [line])


def clearance(model, x):
    """How far the nearest decision of a ReLU or a pool is from a tie.

    Rounding may tip what is closer than about 1e-6, and then two right
    programs part. Choose other seeds until this is well above.
    """
    least = 1.0
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, torch.nn.ReLU):
                before = x
            elif isinstance(layer, torch.nn.MaxPool2d):
                planes = before.reshape(-1, 1, *before.shape[2:])
                size, stride = layer.kernel_size, layer.stride
                top = torch.nn.functional.unfold(planes, size, stride=stride)
                top = top.topk(2, dim=1).values
                least = min(least, top[:, 0].abs().min().item())
                gap = (top[:, 0] - top[:, 1])[top[:, 0] > 0]
                least = min(least, gap.min().item())
            elif isinstance(layer, torch.nn.Linear):
                if layer.out_features != CLASSES:
                    least = min(least, layer(x).abs().min().item())
            x = layer(x)
    return least


def train(name, make_model, optimizer_name, lr, momentum, beta2, decay, make):
    model = make_model().double()
    with torch.no_grad():
        for key, w in enumerate(model.parameters()):
            if w.dim() == 1:
                w.zero_()
            else:
                w.copy_(torch.from_numpy(initial(key, list(w.shape))))
    optimizer = make(list(model.parameters()))
    losses, least = [], 1.0
    for step in range(STEPS):
        for layer in model:
            layer.step = step
        x, labels = batch(name, step)
        least = min(least, clearance(model, x))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print("%s %s: loss %.3f to %.3f, ties cleared by %.1e" %
          (name, optimizer_name, losses[0], losses[-1], least), file=sys.stderr)
    print('{"%s", "%s", %g, %g, %g, %g,' %
          (name, optimizer_name, lr, momentum, beta2, decay))
    print(" {\n%s\n }, {" % numbers(losses))
    for w in model.parameters():
        flat = w.detach().reshape(-1)
        places = [i * len(flat) // PICKS for i in range(PICKS)]
        print("  {%.9g, %.9g, {\n%s\n  }}," % (
            flat.abs().max(), flat.norm(), numbers(flat[places])))
    print(" }},")


print("/* Made by models.py with PyTorch. */")
for name, make_model in (("mlp", mlp), ("cnn", cnn)):
    for case in CASES:
        train(name, make_model, *case)
