"""A model's answers to, or vectors of, all texts of a data set."""

import clozeflow.training  # noqa: F401  sets what TensorFlow must find before it is imported
