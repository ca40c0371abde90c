"""A model to figures, answers and a verdict."""

import clozeflow.training  # noqa: F401  sets what TensorFlow must find before it is imported
