#!/usr/bin/env python3
"""PyTorch's side of gpu.py: times single operations and training on the GPU.

Asked by lines on its standard input, as tests/perf/gpu_ops.c is, and answers in the
same way: the seconds that a call takes, or "no" and why not. Besides

    train eager|compile|graphs fp32|tf32|bf16 SECONDS BATCH LAYERS..

with the layers as in a job, separated by commas, is answered by samples per second.
Models are those of ddp.py. Of what PyTorch offers it takes what is fast: the data are
on the GPU already, momentum is fused, cuDNN tries its kernels, a cnn has the memory
format that is faster here; "graphs" is torch.compile(mode="reduce-overhead"). In 16
bits it computes as under torch.autocast, from fp32.

    gpu_torch.py [DEVICE]    cuda
"""
import os
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")  # of names that will go, in the middle of answers

import torch
from torch.nn import functional

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ddp

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"
WARM_UP, WARM_UP_STEPS, PROBE_S = 3, 30, 0.3
SAMPLES = 60000  # of made-up data: what is in them takes no time


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def normal(*shape):
    return torch.randn(*shape, device=DEVICE)


def set_precision(word):
    torch.set_float32_matmul_precision("high" if word == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = word == "tf32"
    torch.backends.cudnn.benchmark = True


def autocast(word):
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(word)
    return torch.autocast(DEVICE, kind or torch.bfloat16, enabled=kind is not None)


def narrow(*tensors):
    """For what autocast does not know."""
    if not torch.is_autocast_enabled(DEVICE):
        return tensors
    return [tensor.to(torch.get_autocast_dtype(DEVICE)) for tensor in tensors]


# ---- operations: what is called again and again ----

def dense_forward(n, inputs, outputs, relu):
    x, w, b = normal(n, inputs), normal(outputs, inputs), normal(outputs)
    if relu:
        return lambda: functional.linear(x, w, b).relu_()
    return lambda: functional.linear(x, w, b)


def dense_backward(n, inputs, outputs, _):
    x, w, dy = normal(n, inputs), normal(outputs, inputs), normal(n, outputs)
    return lambda: (dy.t() @ x, dy.sum(0), dy @ w)


def conv_forward(n, inputs, h, w, outputs, size, stride, pad, relu):
    x, b = normal(n, inputs, h, w), normal(outputs)
    k = normal(outputs, inputs, size, size)
    if relu:
        return lambda: functional.conv2d(x, k, b, stride, pad).relu_()
    return lambda: functional.conv2d(x, k, b, stride, pad)


def conv_backward(n, inputs, h, w, outputs, size, stride, pad, _):
    x, k = normal(n, inputs, h, w), normal(outputs, inputs, size, size)
    dy = torch.randn_like(functional.conv2d(x, k, None, stride, pad))
    return lambda: torch.ops.aten.convolution_backward(
        *narrow(dy, x, k), [outputs], [stride, stride], [pad, pad], [1, 1], False, [0, 0], 1,
        [True, True, True])


def pool_forward(n, c, h, w, size, stride):
    x = normal(n, c, h, w)
    return lambda: functional.max_pool2d(x, size, stride, return_indices=True)


def pool_backward(n, c, h, w, size, stride):
    x = normal(n, c, h, w)
    y, at = functional.max_pool2d(x, size, stride, return_indices=True)
    return lambda: torch.ops.aten.max_pool2d_with_indices_backward(
        y, x, [size, size], [stride, stride], [0, 0], [1, 1], False, at)


def add_parts(n, elems):
    parts, total = [normal(elems) for _ in range(n)], normal(elems)

    def add():
        torch.add(parts[0], parts[1], out=total)
        for part in parts[2:]:
            total.add_(part)
    return add


def widen(elems):
    x, out = normal(elems).to(torch.bfloat16), normal(elems)
    return lambda: out.copy_(x)


def dropout(n, elems):
    x = normal(n, elems)
    return lambda: functional.dropout(x, 0.25)


def softmax_loss(n, classes):
    x = normal(n, classes).requires_grad_()
    labels = torch.zeros(n, dtype=torch.long, device=DEVICE)
    return lambda: torch.autograd.grad(
        functional.cross_entropy(x, labels, reduction="sum"), x)


def copy(size):
    x, y = normal(size // 4), normal(size // 4)
    return lambda: y.copy_(x)


def of_host(size):
    return torch.empty(size // 4, pin_memory=DEVICE == "cuda")


def upload(size):
    host, x = of_host(size), normal(size // 4)
    return lambda: x.copy_(host, non_blocking=True)


def fetch(size):
    host, x = of_host(size), normal(size // 4)
    return lambda: host.copy_(x, non_blocking=True)


OPERATIONS = {one.__name__: one for one in (
    dense_forward, dense_backward, conv_forward, conv_backward, pool_forward,
    pool_backward, add_parts, widen, dropout, softmax_loss, copy, upload,
    fetch)}


def time_calls(call, seconds):
    """As gpu_ops.c does."""
    calls = 1
    for _ in range(WARM_UP):
        call()
    wait()
    while True:
        start = time.monotonic()
        for _ in range(calls):
            call()
        wait()
        spent = time.monotonic() - start
        if spent >= 0.7 * seconds:
            return spent / calls
        calls = int(calls * (seconds / spent if spent > 0.01 * seconds else 50)) + 1


# ---- training ----

class Trainer:
    def __init__(self, precision, layers, batch, channels_last, mode=None):
        torch.manual_seed(1)
        kind = torch.channels_last if channels_last else torch.contiguous_format
        self.precision, self.batch = precision, batch
        self.images = normal(SAMPLES, 1, 28, 28).contiguous(memory_format=kind)
        self.labels = torch.randint(10, (SAMPLES,), device=DEVICE)
        self.model = ddp.build(layers).to(DEVICE, memory_format=kind)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001,
                                         momentum=0.9, fused=DEVICE == "cuda")
        self.loss = torch.nn.CrossEntropyLoss()
        self.forward = self.of_batch
        if mode == "compile":
            self.forward = torch.compile(self.of_batch)
        elif mode == "graphs":
            self.forward = torch.compile(self.of_batch, mode="reduce-overhead")

    def of_batch(self, x, labels):
        with autocast(self.precision):
            return self.loss(self.model(x), labels)

    def step(self):
        picked = torch.randint(SAMPLES, (self.batch,), device=DEVICE)
        self.optimizer.zero_grad()
        self.forward(self.images[picked], self.labels[picked]).backward()
        self.optimizer.step()

    def rate(self, seconds):
        for _ in range(WARM_UP_STEPS):
            self.step()
        wait()
        start, steps = time.monotonic(), 0
        while time.monotonic() - start < seconds:
            for _ in range(20):
                self.step()
            wait()
            steps += 20
        return steps * self.batch / (time.monotonic() - start)


class Training:
    """Keeps the trainers of one model, since compiling takes a while."""

    def __init__(self):
        self.kept, self.subject, self.channels_last = {}, None, False

    def begin(self, subject):
        """Compilers forget the models before: they keep few of one function."""
        self.kept, self.subject = {}, subject
        torch._dynamo.reset()
        precision, batch, layers = subject
        rates = [0, 0] if layers[0].isdigit() else [
            Trainer(precision, layers, batch, last).rate(PROBE_S)
            for last in (False, True)]
        self.channels_last = rates[1] > rates[0]

    def rate(self, mode, precision, seconds, batch, layers):
        set_precision(precision)
        if self.subject != (precision, batch, layers):
            self.begin((precision, batch, layers))
        if mode not in self.kept:
            self.kept[mode] = Trainer(precision, layers, batch, self.channels_last,
                                      mode)
        return self.kept[mode].rate(seconds)


# ---- requests ----

def answer(training, line):
    words = line.split()
    if words[0] == "train":
        mode, precision, seconds, batch = words[1:5]
        return training.rate(mode, precision, float(seconds), int(batch),
                             " ".join(words[5:]))
    set_precision(words[1])
    with torch.enable_grad() if words[0] == "softmax_loss" else torch.no_grad():
        call = OPERATIONS[words[0]](*map(int, words[3:]))
        with autocast(words[1]):
            return time_calls(call, float(words[2]))


def main():
    answers = os.fdopen(os.dup(1), "w")  # what compilers print is none
    os.dup2(2, 1)
    if DEVICE == "cuda" and not torch.cuda.is_available():
        print("no torch", torch.__version__, "finds no GPU", file=answers, flush=True)
        return
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "the CPU"
    print("torch", torch.__version__, "on", name, file=answers, flush=True)
    training = Training()
    for line in sys.stdin:
        try:
            print("%.9g" % answer(training, line), file=answers, flush=True)
        except Exception as error:  # whatever it is, the next request may do
            text = str(error).strip().splitlines() or [type(error).__name__]
            print("no", text[0][:200], file=answers, flush=True)
            training.subject = None
            if "CUDA error" in text[0]:  # from then on all calls fail
                sys.exit(1)
        if DEVICE == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
