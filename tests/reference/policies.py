#!/usr/bin/env python3
"""Makes policies.inc and policies_mlp.inc: 50 steps of update policies on
quadratics, and on a small mlp.

    python3 tests/reference/policies.py > tests/reference/policies.inc
    python3 tests/reference/policies.py mlp > tests/reference/policies_mlp.inc

Rank k's loss is sum_i a_i (w_i - b_ki)^2 / 2, its gradient at step t gets a
noise. All of them, and the starting point, are fractions that C and Python make
alike, exact in fp32. Each policy is written from its paper in fp64; AdamW and
Nesterov's momentum are PyTorch's. Needs torch and numpy; any version gives the
same numbers. tests/unit/test_blend_reference.c does the same with our kernels,
tests/unit/mlp_bench.c with workers and a server on the mlp.
"""
import sys

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


# ---- the same on a small mlp: 12-10-4, four ranks, unlike batches ----

IN, HIDDEN, OUT, RANKS = 12, 10, 4, 4
KEY_ENDS = (IN * HIDDEN, (IN + 1) * HIDDEN, (IN + 1) * HIDDEN + HIDDEN * OUT)
SEED = 161
WEIGHT, LABEL, PATTERN, NOISE = 1, 2, 3, 4  # streams


def mixed(stream, n):
    x = (n * 0x9E3779B1 + stream * 0x85EBCA77 + SEED * 0xC2B2AE3D) & 0xFFFFFFFF
    x = (x ^ x >> 15) * 0x2C1B3C6D & 0xFFFFFFFF
    x = (x ^ x >> 12) * 0x297A2D39 & 0xFFFFFFFF
    return x ^ x >> 15


def drawn(stream, first, n):
    return numpy.array([(mixed(stream, i) % 127 - 63) / 64.0
                        for i in range(first, first + n)])


def samples_of(rank, clock):
    return 0 if rank == 1 and clock % 10 == 7 else (6, 8, 10, 8)[rank]


def mlp_batch(rank, clock):
    x, labels = [], []
    for s in range(samples_of(rank, clock)):
        sample = (clock * 4 + rank) * 10 + s
        labels.append(mixed(LABEL, sample) % OUT)
        x.append(drawn(PATTERN, labels[-1] * IN, IN)
                 + drawn(NOISE, sample * IN, IN) / 2)
    return torch.from_numpy(numpy.stack(x)), torch.tensor(labels)


def mlp_start():
    return torch.from_numpy(drawn(WEIGHT, 0, KEY_ENDS[2] + OUT) / 2)


def mlp_gradient(w, rank, clock):
    """Of the mean loss of a batch, by autograd; w is all keys in one."""
    x, labels = mlp_batch(rank, clock)
    w = w.detach().clone().requires_grad_()
    w1, b1, w2, b2 = torch.tensor_split(w, KEY_ENDS)
    hidden = torch.relu(torch.nn.functional.linear(x, w1.view(HIDDEN, IN), b1))
    y = torch.nn.functional.linear(hidden, w2.view(OUT, HIDDEN), b2)
    return torch.autograd.grad(torch.nn.functional.cross_entropy(y, labels),
                               w)[0]


MLP_LR = {"sgd": 1 / 4, "momentum": 1 / 16, "nesterov": 1 / 16,
          "adam": 1 / 64, "adamw": 1 / 64}


def mlp_optimizer(kind, w):
    if kind == "adam":
        return torch.optim.Adam([w], lr=1 / 64, betas=(0.875, 0.96875),
                                eps=1e-3, weight_decay=0.125)
    if kind == "adamw":
        return torch.optim.AdamW([w], lr=1 / 64, betas=(0.875, 0.96875),
                                 eps=1e-3, weight_decay=0.125)
    momentum = 0 if kind == "sgd" else 0.875
    return torch.optim.SGD([w], lr=MLP_LR[kind], momentum=momentum,
                           nesterov=kind == "nesterov", weight_decay=0.125)


def mlp_step(optimizer, w, kind, g, step, part=1, steps=STEPS):
    """`steps` from the full rate to a tenth; AdamW's rate stays as it is, see
    inner_adamw."""
    done = 0 if kind == "adamw" else min(1, step / steps)
    optimizer.param_groups[0]["lr"] = MLP_LR[kind] * (1 - 0.9 * done) * part
    w.grad = g
    optimizer.step()


def mlp_sync(kind):
    w = torch.nn.Parameter(mlp_start())
    optimizer = mlp_optimizer(kind, w)
    for t in range(STEPS):
        n = [samples_of(rank, t) for rank in range(RANKS)]
        g = sum(n[rank] * mlp_gradient(w, rank, t)
                for rank in range(RANKS) if n[rank]) / sum(n)
        mlp_step(optimizer, w, kind, g, t)
    return w


def mlp_delay_compensated(kind, lambda_of):
    w = torch.nn.Parameter(mlp_start())
    optimizer = mlp_optimizer(kind, w)
    given, clocks = [mlp_start() for _ in range(RANKS)], [0] * RANKS
    for t in range(STEPS if kind == "adamw" else STEPS * RANKS):
        rank = t * (t + 3) // 2 % RANKS
        n = samples_of(rank, clocks[rank])
        if n:
            g = mlp_gradient(given[rank], rank, clocks[rank])
            g += lambda_of(rank, g) * g * g * (w.detach() - given[rank])
            mlp_step(optimizer, w, kind, g, t // RANKS, n / 32, STEPS + 1)
        clocks[rank] += 1
        given[rank] = w.detach().clone()
    return w


def mlp_adaptive(kind):
    mean_square = [0] * RANKS

    def lambda_of(rank, g):
        mean_square[rank] = 0.95 * mean_square[rank] + 0.05 * g * g
        return 2 / torch.sqrt(mean_square[rank] + 0.01)

    return mlp_delay_compensated(kind, lambda_of)


def mlp_local_step(optimizer, x, kind, rank, clock, clip=None):
    if samples_of(rank, clock):
        x.grad = mlp_gradient(x, rank, clock)
        if clip:
            torch.nn.utils.clip_grad_norm_([x], clip)
        mlp_step(optimizer, x, kind, x.grad, clock)


def mlp_elastic(kind, period=5, alpha=0.225, clip=None):
    centre = mlp_start()
    x = [torch.nn.Parameter(mlp_start()) for _ in range(RANKS)]
    optimizers, clocks = [mlp_optimizer(kind, p) for p in x], [0] * RANKS
    for t in range(STEPS * RANKS):
        rank = t * (t + 3) // 2 % RANKS
        mlp_local_step(optimizers[rank], x[rank], kind, rank, clocks[rank],
                       clip)
        clocks[rank] += 1
        if clocks[rank] % period == 0:
            d = alpha * (x[rank].detach() - centre)
            centre = centre + d
            with torch.no_grad():
                x[rank] -= d
    return centre


def mlp_rounds(kind, outer_of, h=4, clip=None):
    """The last round of 50 steps is short."""
    theta = torch.nn.Parameter(mlp_start())
    outer = outer_of(theta)
    x = [torch.nn.Parameter(mlp_start()) for _ in range(RANKS)]
    inner = [mlp_optimizer(kind, p) for p in x]
    for first in range(0, STEPS, h):
        steps = range(first, min(first + h, STEPS))
        way, total = 0, 0
        for rank in range(RANKS):
            with torch.no_grad():
                x[rank].copy_(theta)
            for t in steps:
                mlp_local_step(inner[rank], x[rank], kind, rank, t, clip)
            n = sum(samples_of(rank, t) for t in steps)
            way, total = way + n * (theta - x[rank]).detach(), total + n
        theta.grad = way / total
        outer.step()
    return theta


def mlp_streaming(kind, parts, late, own, h=6, meetings=(21, 25)):
    """Each layer's exchange comes every h steps, counted from the last meeting,
    the second one's h / parts earlier; it is merged `late` steps after, but at
    a meeting, which is an exchange of all, it is taken."""
    layers = slice(0, KEY_ENDS[1]), slice(KEY_ENDS[1], None)
    theta = [torch.nn.Parameter(mlp_start()[layer]) for layer in layers]
    outer = [outer_nesterov(p) for p in theta]
    x = [torch.nn.Parameter(mlp_start()) for _ in range(RANKS)]
    inner = [mlp_optimizer(kind, p) for p in x]
    begin, due, last = [0, 0], [None, None], 0

    def merge(p, weight):
        for q in x:
            with torch.no_grad():
                q[layers[p]] *= weight
                q[layers[p]] += (1 - weight) * theta[p]
        due[p] = None

    def exchange(p, t):
        n = [sum(samples_of(rank, s) for s in range(begin[p], t))
             for rank in range(RANKS)]
        theta[p].grad = sum(n[rank] * (theta[p] - x[rank][layers[p]]).detach()
                            for rank in range(RANKS)) / sum(n)
        outer[p].step()
        begin[p], due[p] = t, t + late

    for t in range(1, STEPS + 1):
        for rank in range(RANKS):
            mlp_local_step(inner[rank], x[rank], kind, rank, t - 1)
        meets = t == STEPS or any(t % every == 0 for every in meetings)
        for p in range(2):
            if due[p] is not None and (meets or due[p] == t):
                merge(p, own)
            if meets or (t - last + p * h // parts) % h == 0:
                exchange(p, t)
            if meets or due[p] == t:
                merge(p, 0 if meets else own)
        last = t if meets else last
    return torch.cat([p.detach() for p in theta])


def outer_sgd(theta):
    return torch.optim.SGD([theta], lr=1)


def print_quadratics():
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


def print_mlp():
    for policy, kind, w in (
            ("sync", "momentum", mlp_sync("momentum")),
            ("sync", "adam", mlp_sync("adam")),
            ("dc-async", "sgd",
             mlp_delay_compensated("sgd", lambda rank, g: 0.5)),
            ("dc-async adaptive", "momentum", mlp_adaptive("momentum")),
            ("easgd:5", "sgd", mlp_elastic("sgd")),
            ("easgd:5", "nesterov", mlp_elastic("nesterov")),
            ("local:4", "sgd", mlp_rounds("sgd", outer_sgd)),
            ("diloco:4", "adamw", mlp_rounds("adamw", outer_nesterov)),
            ("local:4 clipped", "momentum",
             mlp_rounds("momentum", outer_sgd, clip=0.75)),
            ("diloco:4 clipped", "adamw",
             mlp_rounds("adamw", outer_nesterov, clip=0.75)),
            ("easgd:5 clipped", "sgd", mlp_elastic("sgd", clip=0.75)),
            ("diloco:6, 2 parts, late", "adamw",
             mlp_streaming("adamw", 2, 2, 0.375)),
            ("diloco:6, 3 parts", "nesterov",
             mlp_streaming("nesterov", 3, 0, 0.375))):
        print('{"%s",\n "%s",\n {' % (policy, kind))
        print(",\n".join("     %.17g" % v for v in w.detach().numpy()) + "}},")


print("/* Made by policies.py with NumPy and PyTorch. */")
if sys.argv[1:] == ["mlp"]:
    print_mlp()
else:
    print_quadratics()
