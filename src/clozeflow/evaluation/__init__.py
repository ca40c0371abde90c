"""A model to figures, answers and a verdict."""
