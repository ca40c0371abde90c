"""Tests of preflight; those that need the TPU's compiler are skipped where it is not installed."""
