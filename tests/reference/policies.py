#!/usr/bin/env python3
"""Makes policies.inc: 50 steps of update policies on quadratics.

    python3 tests/reference/policies.py > tests/reference/policies.inc

Rank k's loss is sum_i a_i (w_i - b_ki)^2 / 2, its gradient at step t gets a
noise. All of them, and the starting point, are fractions that C and Python make
alike, exact in fp32. Each policy is written from its paper in fp64; AdamW and
Nesterov's momentum are PyTorch's. Needs torch and numpy; any version gives the
same numbers. tests/unit/test_blend_reference.c does the same with our kernels.
"""
import numpy
import torch

N, STEPS, PUSH = 11, 50, 4
I = numpy.arange(N)


def fraction(numerator):
    """-63/64 to 63/64."""
    return (numerator % 127 - 63) / 64.0


def curvature():
    return (8 + 13 * I % 17) / 16.0


def optimum(rank):
    return fraction(37 * I + 53 * rank + 11)


def start():
    return fraction(59 * I + 5)


def noise(rank, t):
    return fraction(41 * I + 67 * rank + 29 * t + 3) / 4


def gradient(rank, t, w):
    return curvature() * (w - optimum(rank)) + noise(rank, t)


def delay_compensated(lambda_of, lr=0.125, scale=0.125, ranks=4):
    """Zheng et al. 2017, equation 10, with pushes that are PUSH gradients."""
    w = start()
    given = [w.copy() for _ in range(ranks)]
    for t in range(STEPS):
        rank = t * (t + 3) // 2 % ranks  # who arrives: unlike delays
        g = scale * PUSH * gradient(rank, t, given[rank])
        w = w - lr * (g + lambda_of(rank, g) * g * g * (w - given[rank]))
        given[rank] = w.copy()
    return [w]


def constant():
    return delay_compensated(lambda rank, g: 0.5)


def adaptive(lambda0=2, decay=0.95, eps=0.01):
    mean_square = numpy.zeros((4, N))

    def lambda_of(rank, g):
        mean_square[rank] = decay * mean_square[rank] + (1 - decay) * g * g
        return lambda0 / numpy.sqrt(mean_square[rank] + eps)

    return delay_compensated(lambda_of)


def torch_sgd(x, momentum):
    return torch.optim.SGD([x], lr=0.05, momentum=momentum,
                           nesterov=momentum > 0)


def local_step(optimizer, x, rank, t):
    x.grad = torch.from_numpy(gradient(rank, t, x.detach().numpy()))
    optimizer.step()


def elastic(momentum, alpha=0.225, period=5, ranks=4):
    """Zhang et al. 2015, algorithm 1: each rank meets the centre in its turn."""
    centre = start()
    x = [torch.nn.Parameter(torch.from_numpy(start())) for _ in range(ranks)]
    optimizers = [torch_sgd(p, momentum) for p in x]
    for t in range(STEPS):
        for rank in range(ranks):
            local_step(optimizers[rank], x[rank], rank, t)
            if (t + 1 + rank) % period == 0:
                mine = x[rank].detach().numpy().copy()
                with torch.no_grad():
                    x[rank] -= alpha * torch.from_numpy(mine - centre)
                centre = centre + alpha * (mine - centre)
    return [centre] + [p.detach().numpy() for p in x]


def local(lr=0.125, h=5, ranks=3):
    """Stich 2019: h steps each, then the mean of the weights."""
    anchor = start()
    for first in range(0, STEPS, h):
        x = [anchor.copy() for _ in range(ranks)]
        for t in range(first, first + h):
            for rank in range(ranks):
                x[rank] -= lr * gradient(rank, t, x[rank])
        anchor = sum(x) / ranks
    return [anchor]


def inner_adamw(x):
    """1 - lr * weight_decay is exact in fp32. Rounded, as ours and PyTorch's
    fp32 AdamW do it, it takes the weights 50 times half an ulp off."""
    return torch.optim.AdamW([x], lr=1 / 64, betas=(0.9, 0.95), eps=1e-8,
                             weight_decay=0.125)


def outer_nesterov(theta):
    return torch.optim.SGD([theta], lr=0.7, momentum=0.9, nesterov=True)


def diloco(h=5, ranks=3):
    """Douillard et al. 2023, arXiv 2311.08105, algorithm 1."""
    theta = torch.nn.Parameter(torch.from_numpy(start()))
    outer = outer_nesterov(theta)
    x = [torch.nn.Parameter(theta.detach().clone()) for _ in range(ranks)]
    inner = [inner_adamw(p) for p in x]
    for first in range(0, STEPS, h):
        for rank in range(ranks):
            with torch.no_grad():
                x[rank].copy_(theta)
            for t in range(first, first + h):
                local_step(inner[rank], x[rank], rank, t)
        theta.grad = theta.detach() - sum(p.detach() for p in x) / ranks
        outer.step()
    return [theta.detach().numpy()]


def streaming(h=10, late=2, alpha=0.375, ranks=3):
    """Douillard et al. 2025, arXiv 2501.18512: two fragments in turn, each
    merged `late` steps after it was sent."""
    fragments = [slice(0, 6), slice(6, N)]
    theta = [torch.nn.Parameter(torch.from_numpy(start()[f].copy()))
             for f in fragments]
    outer = [outer_nesterov(p) for p in theta]
    x = [torch.nn.Parameter(torch.from_numpy(start())) for _ in range(ranks)]
    inner = [inner_adamw(p) for p in x]
    for t in range(STEPS):
        for rank in range(ranks):
            local_step(inner[rank], x[rank], rank, t)
        for p, f in enumerate(fragments):
            phase = (t + 1 + p * h // 2) % h
            if phase == 0:
                mean = sum(q.detach()[f] for q in x) / ranks
                theta[p].grad = theta[p].detach() - mean
                outer[p].step()
            if phase == late and t + 1 > late:  # at first none was sent
                for q in x:
                    with torch.no_grad():
                        q[f] = alpha * q[f] + (1 - alpha) * theta[p]
    return ([torch.cat([p.detach() for p in theta]).numpy()]
            + [q.detach().numpy() for q in x])


print("/* Made by policies.py with NumPy and PyTorch. */")
for name, arrays in (("dc-async", constant()),
                     ("dc-async adaptive", adaptive()),
                     ("easgd", elastic(0)),
                     ("easgd nesterov", elastic(0.9)),
                     ("local", local()),
                     ("diloco", diloco()),
                     ("diloco streaming", streaming())):
    print('{"%s", %d, {' % (name, len(arrays)))
    for array in arrays:
        print("    {" + ",\n     ".join("%.17g" % v for v in array) + "},")
    print("}},")
