"""Preflight: the training step compiled for a TPU slice before the slice is paid for."""
