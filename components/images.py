"""The images that components run in, by role.

`compile.py --images FILE` puts a registry's names with digests in place of these.
"""

CPU = "clozeflow:cpu"
TPU = "clozeflow:tpu"
TPU_POD = "clozeflow:tpu-pod"
"""For slices of several hosts: its entry point, its base's own, starts the program on each."""

DEFAULTS = {"cpu": CPU, "tpu": TPU, "tpu_pod": TPU_POD}
