"""A perceptron in JAX on Fashion-MNIST: a pytree of weights, one of gradients.

    gradweir run --workers 2 -- python3 jax_mlp.py [STEPS]

JAX's arrays cannot be written to, so the servers' weights come into arrays of
numpy, and a step makes a new pytree of them.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import fashion_mnist
import gradweir.numpy

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500


def dense(key, n, m):
    return {"kernel": jax.random.normal(key, (n, m)) * (2 / n) ** 0.5, "bias": jnp.zeros(m)}


def logits(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["kernel"] + layer["bias"])
    return x @ params[-1]["kernel"] + params[-1]["bias"]


@jax.jit
@jax.value_and_grad
def loss_of(params, x, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(params, x)), y[:, None], 1).mean()


def named(tree):
    """A pytree as name -> array: "[0]['kernel']"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.array(leaf) for path, leaf in leaves}


def part(name):
    images, labels = fashion_mnist.load(name)
    return images.reshape(len(images), -1), labels


keys = jax.random.split(jax.random.PRNGKey(1), 3)
params = [dense(keys[0], 784, 256), dense(keys[1], 256, 256), dense(keys[2], 256, 10)]
images, labels = part("train")
weights = named(params)
with gradweir.numpy.Trainer(weights, optimizer="adam", lr=1e-3) as trainer:
    random = np.random.default_rng(trainer.rank)
    for step in trainer.steps(range(STEPS)):
        params = jax.tree.unflatten(jax.tree.structure(params), weights.values())
        batch = random.integers(len(images), size=64)
        loss, gradients = loss_of(params, images[batch], labels[batch])
        trainer.step(named(gradients), loss=float(loss), samples=64)

params = jax.tree.unflatten(jax.tree.structure(params), weights.values())
images, labels = part("t10k")
print(f"accuracy {(logits(params, images).argmax(1) == labels).mean():.4f}")
