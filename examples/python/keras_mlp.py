"""A perceptron in Keras 3 on Fashion-MNIST, with any backend of Keras.

    KERAS_BACKEND=jax gradweir run --workers 2 -- python3 keras_mlp.py [EPOCHS]

Servers are an optimizer of Keras here: it takes gradients, and assigns the
weights that come back. That is no operation of a compiled graph, so the model
runs eagerly.
"""

import sys

import fashion_mnist
import keras
from keras import layers, ops

import gradweir.numpy

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 1


class Servers(keras.optimizers.Optimizer):
    """Trains on gradweir's servers; `options` are gradweir.numpy.Trainer's."""

    def __init__(self, variables, kind, learning_rate, **options):
        super().__init__(learning_rate=learning_rate)
        weights = {v.path: ops.convert_to_numpy(v).copy() for v in variables}
        self.trainer = gradweir.numpy.Trainer(weights, kind, **options)
        self._take(variables)

    def _take(self, variables):
        for variable in variables:
            variable.assign(self.trainer.arrays[variable.path])

    def apply(self, grads, trainable_variables=None):
        variables = trainable_variables or self._trainable_variables
        named = {v.path: ops.convert_to_numpy(g) for v, g in zip(variables, grads)}
        self.trainer.step(named, lr=float(ops.convert_to_numpy(self.learning_rate)))
        self._take(variables)
        self.iterations.assign(self.iterations + 1)


keras.utils.set_random_seed(1)
model = keras.Sequential(
    [layers.Input((1, 28, 28)), layers.Flatten()]
    + [layers.Dense(256, activation="relu") for _ in range(2)]
    + [layers.Dense(10)]
)
servers = Servers(model.trainable_variables, "adam", 1e-3)
rank, ranks = servers.trainer.rank, servers.trainer.ranks
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(servers, loss, metrics=["accuracy"], run_eagerly=True)
images, labels = fashion_mnist.load("train")
model.fit(images[rank::ranks], labels[rank::ranks], 64, EPOCHS, verbose=2)
servers.trainer.finish()
print("accuracy", round(model.evaluate(*fashion_mnist.load("t10k"), 500, verbose=0)[1], 4))
