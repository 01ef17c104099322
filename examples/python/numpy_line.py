"""A line through noisy points, in numpy alone: the place to try a policy.

    gradweir run --workers 2 -- python3 numpy_line.py
    gradweir run --workers 2 --set cluster.policy=ssp:2 -- python3 numpy_line.py
"""

import numpy as np

import gradweir.numpy

line = {"slope": np.zeros(()), "offset": np.zeros(())}
with gradweir.numpy.Trainer(line, optimizer="momentum", lr=0.05) as trainer:
    random = np.random.default_rng(trainer.rank)
    for step in trainer.steps(range(200)):
        x = random.uniform(-1, 1, 32)
        error = line["slope"] * x + line["offset"] - (3 * x - 1 + random.normal(0, 0.1, 32))
        gradients = {"slope": (error * x).mean(), "offset": error.mean()}
        trainer.step(gradients, loss=(error**2).mean(), samples=32)
print(f"y = {line['slope']:.3f} x {line['offset']:+.3f}, and the truth is y = 3 x - 1")
