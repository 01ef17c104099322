#!/usr/bin/env python3
"""A GPU with gradweir beside PyTorch on the same GPU, in turns.

    python3 tests/perf/gpu.py [--build build] [--rounds 3] [--limit 185]

Products, convolutions and passes over memory, one by one, as the program's own module
does them and as PyTorch does; passes also beside a copy within the device. Training of
`gradweir train` with a worker and a server beside PyTorch, eager and compiled. Copies
between host and device, alone and under the computation. All figures are medians of
rounds that alternate; a ratio above 1 is gradweir's. The exit code is 1 where a ratio
is below what is asked of it, or a part could not be measured for a reason that is not
the want of PyTorch. A part ends where the time of those after it begins. By hand: make
bench-gpu, on a machine with nothing else to do.

GW_LIBRARY_PATH: where gradweir's programs find libraries; PyTorch's are its own.
"""
import argparse
import contextlib
import json
import os
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.environ.get("GW_DATA_DIR") or "/usr/share/datasets/fashion-mnist"
ASKED = 0.95  # of PyTorch's products
CALLS_S = 0.04  # of one figure
TRAIN_S, LOGGED_STEPS, WARM_UP_STEPS = 1.5, 20, 100
OURS = dict(os.environ)
if "GW_LIBRARY_PATH" in OURS:
    OURS["LD_LIBRARY_PATH"] = OURS["GW_LIBRARY_PATH"]


class Missing(Exception):
    """Why there is no figure."""


class Side:
    """A program that answers requests, a line each. Where it has ended, as it
    does with a GPU that has failed, the next request has a new one."""

    def __init__(self, command, environment=None):
        self.command, self.environment = command, environment
        self.start()

    def start(self):
        self.rest = b""
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=self.environment)
        self.about = self.line(90)
        if self.about.startswith("no "):
            self.end()
            raise Missing(self.about[3:])

    def line(self, seconds):
        end = time.monotonic() + seconds
        output = self.process.stdout.fileno()
        while b"\n" not in self.rest:
            ready, _, _ = select.select([output], [], [], max(0, end - time.monotonic()))
            more = os.read(output, 1 << 16) if ready else b""
            if not more:
                self.end()
                raise Missing("it ended" if ready else f"no answer for {seconds:.0f} s")
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode()

    def ask(self, *words, seconds=30):
        if self.process.poll() is not None:
            self.start()
        with contextlib.suppress(OSError):
            self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
            self.process.stdin.flush()
        answer = self.line(seconds)
        if answer.startswith("no "):
            raise Missing(answer[3:])
        return float(answer)

    def end(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Bench:
    def __init__(self, options):
        self.options, self.bad = options, []
        self.end = self.until = time.monotonic() + options.limit
        self.ours = Side([f"{options.build}/tests/perf/gpu_ops", options.backend], OURS)
        self.torch, self.without = None, ""
        try:
            self.torch = Side([sys.executable, HERE + "/gpu_torch.py", options.torch])
        except Missing as why:
            self.without = f"no PyTorch: {why}"
        gib = re.search(r"([0-9.]+) GiB", self.ours.about)
        self.gib = float(gib.group(1)) if gib else 1

    def left(self):
        """Of the part that is measured now."""
        return self.until - time.monotonic()

    def run(self, command):
        """One of our programs."""
        seconds = max(1, min(60, self.left()))
        try:
            return subprocess.run(command, timeout=seconds, env=OURS, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            raise Missing(f"{os.path.basename(command[0])} takes more than "
                          f"{seconds:.0f} s") from None

    def mine(self, *words):
        return self.ours.ask(*words, seconds=max(1, min(30, self.left())))

    def theirs(self, *words, seconds=30):
        if not self.torch:
            raise Missing(self.without)
        return self.torch.ask(*words, seconds=min(seconds, max(1, self.left())))

    def medians(self, askers):
        """Of each, in turns; where one cannot, what it says instead."""
        figures = [[] for _ in askers]
        for _ in range(self.options.rounds):
            for figure, asker in zip(figures, askers):
                if self.left() <= 0:
                    raise Missing("no time left")
                if isinstance(figure, list) and not (figure and figure[-1] is None):
                    try:
                        figure.append(asker())
                    except Missing as why:
                        figure[:] = [str(why), None]
        return [(None, figure[0]) if figure[-1] is None
                else (statistics.median(figure), "") for figure in figures]

    def row(self, what, shape, precision, figures, unit, asked=None, more=""):
        """Figures: gradweir's and what it is beside, each with why not."""
        (ours, why), (beside, why_not) = figures
        words = ["-" if one is None else f"{one:.{digits(one)}f}"
                 for one in (ours, beside)]
        ratio = ours / beside if ours and beside else None
        notes = [one for one in (
            f"asked {asked}" if asked else "", more,
            "MISSED" if asked and ratio is not None and ratio < asked else "",
            f"FAILED: {why}" if ours is None else "",
            why_not if beside is None and why_not != self.without else "") if one]
        if ours is None or "MISSED" in notes:
            self.bad.append(f"{what} {shape} {precision}".strip())
        print(f"{what:<18} {shape:<25} {precision:<5} {words[0]:>10} {words[1]:>10} "
              f"{unit:<9} {'-' if ratio is None else f'{ratio:.2f}':>6}  "
              f"{', '.join(notes)}".rstrip(), flush=True)


def digits(figure):
    return 0 if figure >= 1000 else 1 if figure >= 10 else 3


def head(title, beside):
    print(f"\n# {title}\n{'':<18} {'':<25} {'':<5} {'gradweir':>10} {beside:>10} "
          f"{'':<9} {'ratio':>6}", flush=True)


def per_second(amount, figure):
    seconds, why = figure
    return (None, why) if seconds is None else (amount / seconds, "")


# ---- products, forward and backward of a dense layer ----

def shapes_of_products(bench):
    if bench.options.small:
        return [(32, 64, 48, 1), (64, 64, 64, 0)]
    tokens = 65536 if bench.gib > 70 else 16384 if bench.gib > 20 else 2048
    return [(256, 784, 512, 1), (256, 512, 512, 1), (256, 512, 10, 0),
            (4096, 4096, 4096, 0), (tokens, 768, 2304, 0), (tokens, 768, 768, 0),
            (tokens, 768, 3072, 0), (tokens, 3072, 768, 0),
            (tokens // 4, 768, 50304, 0)]


def products(bench):
    head("products: dense layers with their bias, of n x in x out", "torch")
    for precision in ("fp32", "tf32", "bf16"):
        for shape in shapes_of_products(bench):
            n, inputs, outputs, _ = shape
            for what, times in (("dense_forward", 2), ("dense_backward", 4)):
                words = (what, precision, CALLS_S, *shape)
                figures = bench.medians([lambda: bench.mine(*words),
                                         lambda: bench.theirs(*words)])
                flop = times * n * inputs * outputs
                bench.row(what, f"{n} x {inputs} x {outputs}", precision,
                          [per_second(flop * 1e-12, one) for one in figures],
                          "TFLOP/s", ASKED)


def convolutions(bench):
    head("convolutions, of n x in x h x w to out, size", "torch")
    shapes = [(4, 1, 12, 12, 8, 3, 1, 0, 1)] if bench.options.small else [
        (128, 1, 28, 28, 16, 5, 1, 0, 1), (128, 16, 12, 12, 32, 5, 1, 0, 1),
        (1024, 16, 12, 12, 32, 5, 1, 0, 1), (256, 32, 28, 28, 64, 3, 1, 1, 1)]
    for precision in ("fp32", "tf32", "bf16"):
        for shape in shapes:
            n, inputs, h, w, outputs, size, _, pad, _ = shape
            places = (h + 2 * pad - size + 1) * (w + 2 * pad - size + 1)
            for what, times in (("conv_forward", 2), ("conv_backward", 4)):
                words = (what, precision, CALLS_S, *shape)
                figures = bench.medians([lambda: bench.mine(*words),
                                         lambda: bench.theirs(*words)])
                flop = times * n * inputs * outputs * size * size * places
                bench.row(what, f"{n}x{inputs}x{h}x{w} to {outputs}, {size}", precision,
                          [per_second(flop * 1e-12, one) for one in figures], "TFLOP/s")


# ---- passes over memory ----

def passes_of(bench):
    """Operation, numbers, bytes that it must move."""
    elems = 1 << 16 if bench.options.small else 1 << 26
    n = elems >> 11
    pool = (elems >> 12, 16, 16, 16, 2, 2)
    return [("add_parts", (2, elems), 12 * elems),
            ("add_parts", (4, elems // 2), 10 * elems),
            ("widen", (elems,), 6 * elems),
            ("dropout", (n, 2048), 8 * elems),
            ("softmax_loss", (elems >> 15, 32768), 8 * elems),
            ("softmax_loss", (elems >> 4, 16), 8 * elems),
            ("pool_forward", pool, 4 * elems + elems // 4 * 5),
            ("pool_backward", pool, 4 * elems + elems // 4 * 5)]


def passes(bench):
    head("passes over memory, beside a copy within the device of as many bytes", "copy")
    for what, numbers, size in passes_of(bench):
        words = (what, "fp32", CALLS_S, *numbers)
        copy = ("copy", "fp32", CALLS_S, size // 2 // 16 * 16)
        ours, beside, torch = bench.medians([
            lambda: bench.mine(*words), lambda: bench.mine(*copy),
            lambda: bench.theirs(*words)])
        rate, why = per_second(size * 1e-9, torch)
        bench.row(what, " x ".join(map(str, numbers)), "",
                  [per_second(size * 1e-9, ours), per_second(size * 1e-9, beside)],
                  "GB/s", more=f"torch {rate:.0f}" if rate else "")


def copies(bench):
    head("copies between device and pinned host memory", "torch")
    size = 1 << 16 if bench.options.small else 1 << 28
    for what in ("upload", "fetch"):
        words = (what, "fp32", CALLS_S, size)
        figures = bench.medians([lambda: bench.mine(*words),
                                 lambda: bench.theirs(*words)])
        bench.row(what, f"{size >> 10} KiB", "",
                  [per_second(size * 1e-9, one) for one in figures], "GB/s")
    figures = bench.medians([lambda: bench.mine("both", "fp32", CALLS_S, size)])
    bench.row("both at once", f"{size >> 10} KiB", "",
              [per_second(2 * size * 1e-9, figures[0]), (None, "")], "GB/s")


def overlap(bench):
    print("\n# copies under the computation", flush=True)
    sizes = [[64, 16, 3]] if bench.options.small else [[4096, 4096, 15], [1024, 512, 15]]
    for size in sizes:
        ran = bench.run([f"{bench.options.build}/tests/perf/gpu_overlap",
                         bench.options.backend, *map(str, size)])
        print(ran.stdout, end="", flush=True)
        if ran.returncode:
            raise Missing(f"gpu_overlap ends with {ran.returncode}")


# ---- training ----

# The first ones matter most, since compiling takes the time.
SMALL = "conv 16 5,pool 2,conv 32 5,pool 2,dense 128,dense 10"
LARGE = "conv 32 5,pool 2,conv 64 5,pool 2,dense 128,dense 10"
MODELS = [("cnn", 128, SMALL, "tf32"), ("cnn", 1024, LARGE, "tf32"),
          ("cnn", 1024, LARGE, "bf16"), ("cnn", 128, SMALL, "fp32"),
          ("mlp", 256, "784,512,512,10", "tf32")]


def rate_of_rows(path, batch):
    with open(path, encoding="ascii") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if row.get("step", 0) >= WARM_UP_STEPS]
    done = rows[-1]["step"] - rows[0]["step"]
    return done * batch / (rows[-1]["wall_s"] - rows[0]["wall_s"])


class Job:
    """`gradweir train` with a worker and a server, for as long as is asked."""

    def __init__(self, bench, kind, batch, layers, precision):
        self.bench, self.kind, self.batch = bench, kind, batch
        self.layers, self.precision = layers, precision
        self.steps = WARM_UP_STEPS + 20 * LOGGED_STEPS

    def rate(self):
        with tempfile.TemporaryDirectory() as directory:
            command = [f"{self.bench.options.build}/gradweir", "train",
                       f"{HERE}/../../examples/fashion-{self.kind}.job",
                       "--workers", "1", "--servers", "1", "--json", directory + "/rows"]
            for setting in (
                    f"data.train={DATA}/train-images-idx3-ubyte.gz,"
                    f"{DATA}/train-labels-idx1-ubyte.gz", "data.test=",
                    f"worker.device={self.bench.options.backend}",
                    f"train.precision={self.precision}", f"model.layers={self.layers}",
                    f"train.global_batch={self.batch}", "train.epochs=0",
                    f"train.steps={self.steps}", "train.eval_every=never",
                    f"log.every={LOGGED_STEPS}"):
                command += ["--set", setting]
            ran = self.bench.run(command)
            if ran.returncode:
                raise Missing((ran.stdout.splitlines() or ["?"])[-1])
            rate = rate_of_rows(directory + "/rows", self.batch)
        self.steps = max(self.steps,
                         WARM_UP_STEPS + int(TRAIN_S * rate / self.batch))
        return rate


def training(bench):
    head("training, samples/s: 1 worker and 1 server, a batch of n", "torch")
    if not os.access(f"{DATA}/train-images-idx3-ubyte.gz", os.R_OK):
        raise Missing(f"no Fashion-MNIST in {DATA} (GW_DATA_DIR)")
    for kind, batch, layers, precision in MODELS[-1:] if bench.options.small else MODELS:
        if bench.left() < 15:
            raise Missing(f"no time left from {kind} {batch} {precision} on")
        job = Job(bench, kind, batch, layers, precision)

        def torch(mode):
            return lambda: bench.theirs(
                "train", mode, precision, TRAIN_S / 2, batch, layers,
                seconds=90)
        modes = ["eager", "compile", "graphs"]
        ours, *theirs = bench.medians([job.rate] + [torch(mode) for mode in modes])
        for mode, beside in zip(modes, theirs):
            bench.row(f"{kind}, {mode}", f"{batch}", precision, [ours, beside],
                      "samples/s")


# ---- all of it ----

# With the part of the time that each should have at least.
PARTS = [("products", products, 90), ("passes", passes, 20), ("copies", copies, 8),
         ("overlap", overlap, 15), ("convolutions", convolutions, 20),
         ("training", training, 30)]


def time_is_up(*_):
    raise Missing("a signal, perhaps for want of time")


def main():
    signal.signal(signal.SIGTERM, time_is_up)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("GW_BUILDDIR", "build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=185, help="seconds")
    parser.add_argument("--parts", default="", help="some of: " +
                        ",".join(name for name, _, _ in PARTS))
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--torch", default="cuda", help="PyTorch's device")
    parser.add_argument("--small", action="store_true", help="sizes to try it with")
    options = parser.parse_args()
    try:
        bench = Bench(options)
    except (Missing, OSError) as why:
        print(f"SKIP: {why}")
        return 0
    print(f"# gradweir on {bench.ours.about}\n# beside "
          f"{bench.torch.about if bench.torch else bench.without}\n"
          f"# medians of {options.rounds} rounds in turns; a ratio above 1 is gradweir's")
    chosen = [part for part in PARTS
              if not options.parts or part[0] in options.parts.split(",")]
    shares = sum(share for _, _, share in chosen)
    for i, (name, part, _) in enumerate(chosen):
        later = sum(share for _, _, share in chosen[i + 1:])
        bench.until = bench.end - options.limit * later / shares
        try:
            part(bench)
        except (Missing, OSError, subprocess.SubprocessError, LookupError,
                ValueError, ZeroDivisionError) as why:
            print(f"{name}: not all of it: {why}", flush=True)
            bench.bad.append(name)
    for side in (bench.ours, bench.torch):
        if side:
            side.end()
    print(f"\n# {options.limit - (bench.end - time.monotonic()):.0f} s" +
          (f"; MISSED or failed: {'; '.join(bench.bad)}" if bench.bad else ""))
    return 1 if bench.bad else 0


if __name__ == "__main__":
    sys.exit(main())
