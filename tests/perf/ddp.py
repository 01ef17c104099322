#!/usr/bin/env python3
"""`gradweir train` beside PyTorch DDP over Gloo, on the CPU of this machine.

    python3 tests/perf/ddp.py --gradweir build/gradweir [--rounds 5]

Both train Fashion-MNIST on the same model with momentum, a batch of 64 per
worker and one thread per worker, in turns; the medians of samples per second
over all workers, after a warm-up, and their ratio are printed. PyTorch's images
lie in memory as floats, already normalised; a step picks a random batch of
them. Of PyTorch's two memory formats a cnn takes the one that is faster here.
With one worker PyTorch communicates nothing; gradweir has as many servers as
workers, so the weights travel all the same.

Needs torch (pip install torch); a machine with nothing else to do.
"""
import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn

DATA = "/usr/share/datasets/fashion-mnist"
WARM_UP_STEPS, BLOCK_STEPS, PROBE_S = 30, 20, 1.0


def read_idx(path, skip):
    with gzip.open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()[skip:]), dtype=torch.uint8)


def read_data(directory):
    pixels = read_idx(directory + "/train-images-idx3-ubyte.gz", 16)
    labels = read_idx(directory + "/train-labels-idx1-ubyte.gz", 8)
    images = pixels.reshape(-1, 1, 28, 28).float() / 255
    return (images - 0.286) / 0.353, labels.long()


def mlp(widths):
    layers = [nn.Flatten()]
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def options(words, **values):
    for name, value in zip(words[::2], words[1::2]):
        values[name] = int(value)
    return values


def cnn(entries):
    layers, shape, flat = [], (1, 28, 28), False
    for words in (entry.split() for entry in entries):
        if words[0] == "conv":
            o = options(words[3:], stride=1, pad=0)
            layers += [nn.Conv2d(shape[0], int(words[1]), int(words[2]),
                                 stride=o["stride"], padding=o["pad"]),
                       nn.ReLU()]
        elif words[0] == "pool":
            o = options(words[2:], stride=int(words[1]))
            layers += [nn.MaxPool2d(int(words[1]), stride=o["stride"])]
        elif words[0] == "dropout":
            layers += [nn.Dropout(float(words[1]))]
        else:
            layers += [] if flat else [nn.Flatten()]
            width = shape[0] if flat else shape[0] * shape[1] * shape[2]
            layers += [nn.Linear(width, int(words[1])), nn.ReLU()]
            shape, flat = (int(words[1]), 1, 1), True
        if not flat:
            shape = nn.Sequential(*layers)(torch.zeros(1, 1, 28, 28)).shape[1:]
    layers += [] if flat else [nn.Flatten()]
    if not flat or shape[0] != 10:
        width = shape[0] * shape[1] * shape[2]
        return nn.Sequential(*layers, nn.Linear(width, 10))
    return nn.Sequential(*layers[:-1])


def build(layers):
    entries = [entry.strip() for entry in layers.split(",")]
    if entries[0].isdigit():
        return mlp([int(entry) for entry in entries])
    return cnn(entries)


class Trainer:
    def __init__(self, arguments, rank, data, channels_last):
        torch.manual_seed(1)
        model = build(arguments.layers)
        self.batch = arguments.batch
        self.images, self.labels = data
        if channels_last:
            model = model.to(memory_format=torch.channels_last)
            self.images = self.images.contiguous(
                memory_format=torch.channels_last)
        self.model = model
        if torch.distributed.is_initialized():
            self.model = nn.parallel.DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.02,
                                         momentum=0.9)
        self.loss = nn.CrossEntropyLoss()
        self.order = torch.Generator().manual_seed(1 + rank)

    def step(self):
        picked = torch.randint(len(self.labels), (self.batch,),
                               generator=self.order)
        self.optimizer.zero_grad()
        self.loss(self.model(self.images[picked]), self.labels[picked]).backward()
        self.optimizer.step()

    def rate(self, seconds):
        start, steps = time.monotonic(), 0
        while time.monotonic() - start < seconds:
            self.step()
            steps += 1
        return steps / (time.monotonic() - start)


def faster_format(arguments, data):
    if arguments.layers.strip()[0].isdigit():
        return False
    rates = []
    for channels_last in (False, True):
        trainer = Trainer(arguments, 0, data, channels_last)
        trainer.rate(PROBE_S / 2)
        rates.append(trainer.rate(PROBE_S))
    return rates[1] > rates[0]


def goes_on(start, seconds):
    """Rank 0's clock decides for all: DDP's ranks meet in every step."""
    left = torch.tensor([seconds - (time.monotonic() - start)])
    torch.distributed.broadcast(left, 0)
    return left.item() > 0


def work(rank, arguments, meeting, channels_last, result):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method="file://" + meeting, rank=rank,
        world_size=arguments.workers)
    trainer = Trainer(arguments, rank, read_data(arguments.data), channels_last)
    for _ in range(WARM_UP_STEPS):
        trainer.step()
    steps = 0
    torch.distributed.barrier()
    start = time.monotonic()
    while goes_on(start, arguments.seconds):
        for _ in range(BLOCK_STEPS):
            trainer.step()
        steps += BLOCK_STEPS
    torch.distributed.barrier()
    if rank == 0:
        spent = time.monotonic() - start
        result.put(steps * arguments.batch * arguments.workers / spent)
    torch.distributed.destroy_process_group()


def torch_rate(arguments):
    """In a process of its own, so that no pass warms the next one's memory."""
    torch.set_num_threads(1)
    channels_last = faster_format(arguments, read_data(arguments.data))
    spawn = torch.multiprocessing.get_context("spawn")
    result = spawn.SimpleQueue()
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.spawn(
            work, nprocs=arguments.workers,
            args=(arguments, directory + "/meeting", channels_last, result))
    print("%.0f" % result.get())


JOB = """
data = {
    format = "idx";
    train = ("%(data)s/train-images-idx3-ubyte.gz",
             "%(data)s/train-labels-idx1-ubyte.gz");
    normalize = (0.286, 0.353);
};
model = { kind = "%(kind)s"; layers = (%(layers)s); };
train = { global_batch = %(batch)d; steps = %(steps)d; eval_every = "never"; };
optimizer = { kind = "momentum"; lr = 0.02; };
cluster = { workers = %(workers)d; servers = %(workers)d; };
log = { every = %(every)d; };
"""
LOGGED_STEPS = 20


def gradweir_rate(arguments, layers, workers, steps):
    entries = layers.split(",")
    mlp_job = entries[0].isdigit()
    with tempfile.TemporaryDirectory() as directory:
        with open(directory + "/job", "w", encoding="ascii") as job:
            job.write(JOB % {
                "data": arguments.data, "kind": "mlp" if mlp_job else "cnn",
                "layers": ", ".join(entries if mlp_job else
                                    ['"%s"' % entry for entry in entries]),
                "batch": arguments.batch * workers, "steps": steps,
                "workers": workers, "every": LOGGED_STEPS})
        ran = subprocess.run(
            [arguments.gradweir, "train", directory + "/job", "--json",
             directory + "/rows"], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        if ran.returncode != 0:
            sys.exit(ran.stdout.decode())
        with open(directory + "/rows", encoding="ascii") as file:
            rows = [json.loads(line) for line in file]
    rows = [row for row in rows if row.get("step", 0) >= WARM_UP_STEPS]
    spent = rows[-1]["wall_s"] - rows[0]["wall_s"]
    done = rows[-1]["step"] - rows[0]["step"]
    return done * arguments.batch * workers / spent


def compare(arguments, name, layers, workers):
    ours, theirs = [], []
    steps = 20 * LOGGED_STEPS
    for _ in range(arguments.rounds):
        output = subprocess.run(
            [sys.executable, __file__, "--layers", layers, "--workers",
             str(workers), "--batch", str(arguments.batch), "--seconds",
             str(arguments.seconds), "--data", arguments.data],
            check=True, stdout=subprocess.PIPE).stdout
        theirs.append(float(output))
        if not ours:  # long enough, but no longer: a guess by their speed
            steps = max(steps, int(1.5 * arguments.seconds * theirs[0] /
                                   arguments.batch / workers))
        ours.append(gradweir_rate(arguments, layers, workers, steps))
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    print("%-5s %7d %12.0f %12.0f %8.2f" %
          (name, workers, ours, theirs, ours / theirs), flush=True)


MODELS = [("mlp", "784,512,512,10"),
          ("cnn", "conv 32 5,pool 2,conv 64 5,pool 2,dense 128,dense 10")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gradweir", help="the program to compare")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="mlp,cnn")
    parser.add_argument("--counts", default="1,2", help="of workers")
    parser.add_argument("--layers", help="only PyTorch, with these layers")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64, help="per worker")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--data", default=DATA)
    arguments = parser.parse_args()
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    if arguments.layers:
        torch_rate(arguments)
        return
    if not arguments.gradweir:
        parser.error("--gradweir PROGRAM is missing")
    print("# samples/s, batch %d per worker; torch %s" %
          (arguments.batch, torch.__version__))
    print("model workers     gradweir        torch    ratio")
    for name, layers in MODELS:
        for workers in arguments.counts.split(","):
            if name in arguments.models.split(","):
                compare(arguments, name, layers, int(workers))


if __name__ == "__main__":
    main()
