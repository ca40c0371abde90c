"""The images that components run in, by role.

`compile.py --images FILE` puts a registry's names with digests in place of these.
"""

CPU = "clozeflow:cpu"
TPU = "clozeflow:tpu"

DEFAULTS = {"cpu": CPU, "tpu": TPU}
