"""The images that components run in, by role, and what starts in them.

`compile.py --images FILE` puts a registry's names with digests in place of these.
"""

COMMAND = ["clozeflow-component"]
"""The entry point of every image: after it come the stage and KFP's executor input."""

CPU = "clozeflow:cpu"
TPU = "clozeflow:tpu"
TPU_POD = "clozeflow:tpu-pod"
"""For slices of several hosts: its entry point, its base's own, starts the program on each."""

PREFLIGHT = "clozeflow:preflight"
"""`cpu` with the TPU's compiler beside it."""

DEFAULTS = {"cpu": CPU, "tpu": TPU, "tpu_pod": TPU_POD, "preflight": PREFLIGHT}
