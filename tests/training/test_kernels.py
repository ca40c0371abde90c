"""What XLA computes in its own way is what TensorFlow's kernels compute."""

import numpy as np
import pytest
import tensorflow as tf

from clozeflow.training.kernels import fusable_losses, hashed_bits, library_losses


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_losses_guesses_and_gradients_are_those_of_the_library(dtype: tf.DType) -> None:
    generator = np.random.default_rng(0)
    # Whole numbers: many scores are equal, and the first of the best must be the guess.
    logits = tf.constant(generator.integers(-4, 5, (6, 3, 40)), dtype)
    labels = tf.constant(generator.integers(0, 40, (6, 3)), tf.int32)
    weights = tf.constant(generator.random((6, 3)), tf.float32)
    found, gradients = [], []
    for losses_of in (library_losses, fusable_losses):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses, guesses = losses_of(logits, labels)
            total = tf.reduce_sum(losses * weights)
        found.append((losses.numpy(), guesses.numpy()))
        gradients.append(tf.cast(tape.gradient(total, logits), tf.float32).numpy())
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_array_equal(found[0][1], found[1][1])
    np.testing.assert_allclose(*gradients, atol=1e-6 if dtype is tf.float32 else 0.01)


class TestHashedBits:
    SHAPE = (16, 12, 33, 7)

    def bits(self, *, seed: int = 1, step: int = 5, call: int = 2, first_row: int = 0, rows=16):
        shape = (rows, *self.SHAPE[1:])
        return hashed_bits(seed, tf.constant(step, tf.int64), call, shape, first_row).numpy()

    def test_every_argument_gives_other_bits(self) -> None:
        others = [self.bits(seed=2), self.bits(step=6), self.bits(call=3), self.bits(first_row=16)]
        for other in others:
            assert (self.bits() == other).mean() < 1e-4

    def test_rows_are_those_of_the_whole_batch(self) -> None:
        np.testing.assert_array_equal(self.bits(first_row=4, rows=3), self.bits()[4:7])

    def test_every_bit_is_even_and_independent_of_its_neighbours(self) -> None:
        bits = self.bits().reshape(16, -1)
        planes = (bits[..., None] >> np.arange(32, dtype=np.uint32)) & 1
        sigma = 0.5 / np.sqrt(planes[..., 0].size)
        assert np.abs(planes.mean((0, 1)) - 0.5).max() < 4 * sigma
        along = (planes[:, 1:] == planes[:, :-1]).mean((0, 1))
        across = (planes[1:] == planes[:-1]).mean((0, 1))
        assert np.abs(np.stack([along, across]) - 0.5).max() < 5 * sigma

    def test_xla_computes_the_same(self) -> None:
        def compute(step):
            return hashed_bits(1, step, 2, self.SHAPE, 0)

        compiled = tf.function(compute, jit_compile=True)(tf.constant(5, tf.int64))
        np.testing.assert_array_equal(compiled, self.bits())
