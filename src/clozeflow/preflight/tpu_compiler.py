"""Compiles an HLO module with the real TPU compiler. Needs jax and libtpu alone, and no TPU.

    PREFLIGHT_ENV/bin/python tpu_compiler.py --topology v5e:2x2 --num-replicas 4 \
        --module step.hlo --text compiled.txt

This file runs by itself in the preflight environment, where neither clozeflow nor TensorFlow is.
Its last line of output is JSON: `status` is "compiled" (with the compiler's figures, in bytes),
"out_of_memory" or "failed" (with the compiler's `message`). The compiled program's text goes
to `--text`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"
_PR_SET_PDEATHSIG = 1
_SIZES = ("argument", "output", "alias", "temp", "generated_code")


def main() -> None:
    """Compiles, and says what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topology", required=True, help="as libtpu names it: v5e:2x2")
    parser.add_argument("--chips-per-host", default="", help="as 1,1,1, where not the default")
    parser.add_argument("--num-replicas", type=int, default=1)
    parser.add_argument("--module", type=Path, required=True)
    parser.add_argument("--text", type=Path, help="file for the compiled program's text")
    options = parser.parse_args()
    end_with_parent()
    sys.stdout.write("\n" + json.dumps(answer(options)) + "\n")


def answer(options: argparse.Namespace) -> dict[str, Any]:
    """What is printed."""
    prepare_environment()
    from jax.errors import JaxRuntimeError

    try:
        executable = compile_module(options)
    except JaxRuntimeError as error:
        message = str(error)
        status = "out_of_memory" if message.startswith(OUT_OF_MEMORY) else "failed"
        return {"status": status, "message": message}
    if options.text:
        options.text.write_text(executable.hlo_modules()[0].to_string(), encoding="utf-8")
    return {"status": "compiled", **figures(executable)}


def end_with_parent() -> None:
    """Has the system kill this process when whoever asks is gone: it would go on for minutes."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def prepare_environment() -> None:
    """What libtpu must be told where there is no TPU. It reads them when it is loaded."""
    os.environ.update(
        JAX_PLATFORMS="cpu",
        TPU_SKIP_MDS_QUERY="1",
        TPU_ACCELERATOR_TYPE="v5litepod-4",
        TPU_WORKER_HOSTNAMES="localhost",
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",
    )


def compile_module(options: argparse.Namespace) -> Any:
    """The executable for the first cores of a topology.

    Raises:
        JaxRuntimeError: The compiler refuses the module, or it does not fit.
    """
    import numpy as np
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax, xla_client
    from jax._src.lib.mlir import ir

    devices = find_devices(options)
    # The module as MLIR's own dialect: what converts it to StableHLO does not know `mhlo.copy`.
    text = _jax.mlir.xla_computation_to_mlir_module(
        xla_client.XlaComputation(options.module.read_bytes())
    )
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        strip_copies(module, ir)
        compile_options = compiler.get_compile_options(
            num_replicas=options.num_replicas,
            num_partitions=1,
            device_assignment=np.array([[device.id] for device in devices]),
            backend=devices[0].client,
        )
        return devices[0].client.compile(
            module,
            executable_devices=_jax.DeviceList(tuple(devices)),
            compile_options=compile_options,
        )


def find_devices(options: argparse.Namespace) -> list[Any]:
    """The first cores of a topology, one for each replica."""
    from jax.experimental import topologies

    bounds = [int(n) for n in options.chips_per_host.split(",") if n]
    more = {"chips_per_host_bounds": bounds} if bounds else {}
    topology = topologies.get_topology_desc(platform="tpu", topology_name=options.topology, **more)
    return list(topology.devices[: options.num_replicas])


def strip_copies(module: Any, ir: Any) -> None:
    """`mhlo.copy` says nothing that the TPU's compiler needs, and it does not know it."""
    copies = []

    def note(operation: Any) -> Any:
        if operation.name == "mhlo.copy":
            copies.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    for copy in copies:
        copy.results[0].replace_all_uses_with(copy.operands[0])
        copy.erase()


def figures(executable: Any) -> dict[str, float]:
    """Memory in bytes, operations and traffic of one core's step, as the compiler counts them."""
    memory = executable.get_compiled_memory_stats()
    costs = executable.cost_analysis()
    costs = costs[0] if isinstance(costs, (list, tuple)) else costs
    return {
        **{f"{name}_bytes": getattr(memory, f"{name}_size_in_bytes") for name in _SIZES},
        "peak_bytes": memory.peak_memory_in_bytes,
        "flops": costs["flops"],
        "accessed_bytes": costs["bytes accessed"],
    }


if __name__ == "__main__":
    main()
