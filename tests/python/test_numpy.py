"""gradweir.numpy: arrays, against the closed form and Adam in plain numpy."""

from __future__ import annotations

import numpy as np

import gradweir.numpy
from support import RANK, WORLD, JobTest, main, tell


def _gradients(w: np.ndarray, step: int, rank: int) -> np.ndarray:
    drawn = np.random.default_rng(step * 10 + rank)
    return (w - 3.0 + drawn.normal(size=w.shape)).astype(np.float32)


def adam() -> None:
    """Adam on servers beside Adam by hand, with a rate that falls."""
    w = {"a": np.full((3, 4), 1.0 + RANK, np.float32), "b": np.zeros(()), "idle": np.ones(2)}
    a = np.full((3, 4), 1.0)
    m = v = np.zeros_like(a)
    with gradweir.numpy.Trainer(w, optimizer="adam", lr=0.1) as trainer:
        for step in range(30):
            lr = 0.1 / (1 + step // 10)
            mine = _gradients(w["a"], step, RANK)
            mean = np.mean([_gradients(w["a"], step, r) for r in range(WORLD)], axis=0)
            trainer.step({"a": mine, "b": np.float32(0.0)}, lr=lr, loss=1.0, samples=4)
            m = 0.9 * m + 0.1 * mean
            v = 0.999 * v + 0.001 * mean**2
            a = a - lr * (m / (1 - 0.9 ** (step + 1))) / (
                np.sqrt(v / (1 - 0.999 ** (step + 1))) + 1e-8
            )
        tell(apart=float(np.abs(w["a"] - a).max()), idle=w["idle"].tolist(), clock=trainer.clock)


def mistakes() -> None:
    w = {"a": np.zeros(3, np.float32)}
    for arrays in ({"a": np.zeros(3, np.int32)}, {"a": [1.0]}):
        try:
            gradweir.numpy.Trainer(arrays)
        except TypeError as error:
            assert "a is" in str(error), error
        else:
            raise AssertionError(arrays)
    with gradweir.numpy.Trainer(w, optimizer="sgd", lr=1.0) as trainer:
        for gradients, kind in (({"b": w["a"]}, KeyError), ({"a": np.zeros(4)}, ValueError)):
            try:
                trainer.step(gradients)
            except kind as error:
                assert "gradweir" in str(error), error
            else:
                raise AssertionError(gradients)
        trainer.step({"a": np.ones(3)})  # a mistake has left the step as it was
        tell(a=w["a"].tolist())


class Arrays(JobTest):
    def test_adam(self) -> None:
        """Adam with a falling rate: the weights of Adam by hand; unused arrays stay"""
        outcome = self.job(adam)
        for told in outcome.told.values():
            self.assertLessEqual(told["apart"], 2e-5)
            self.assertEqual((told["idle"], told["clock"]), ([1.0, 1.0], 30))

    def test_mistakes(self) -> None:
        """mistakes are refused, and leave the step as it was"""
        self.assertEqual(self.job(mistakes).told[0]["a"], [-1.0, -1.0, -1.0])


if __name__ == "__main__":
    main()
