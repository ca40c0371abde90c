"""Compiles an HLO module with the real TPU compiler, and prints what it says of it as JSON.

    JAX_ENV/bin/python benchmarks/tpu_compile.py v5e:2x2 step.hlo [compiled.txt]

Runs in an environment of jax and libtpu, without TensorFlow and without a TPU.
"""

from __future__ import annotations

import collections
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

os.environ.update(
    JAX_PLATFORMS="cpu",
    TPU_SKIP_MDS_QUERY="1",
    TPU_ACCELERATOR_TYPE="v5litepod-4",
    TPU_WORKER_HOSTNAMES="localhost",
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
)


def main() -> None:
    """Compiles for one core of a topology."""
    topology, path, *text_path = sys.argv[1:]
    executable = compile_module(topology, Path(path).read_bytes())
    text = executable.hlo_modules()[0].to_string()
    if text_path:
        Path(text_path[0]).write_text(text)
    costs = executable.cost_analysis()
    costs = costs[0] if isinstance(costs, (list, tuple)) else costs
    program = Program(text)
    figures = {
        "tflop": costs["flops"] / 1e12,
        "peak_gib": executable.get_compiled_memory_stats().peak_memory_in_bytes / 2**30,
        "cycles_millions": program.cycles(program.entry) / 1e6,
        "whiles": len(re.findall(r" while\(", text)),
    }
    print(json.dumps(figures))


def compile_module(topology: str, module: bytes) -> Any:
    """An executable for the first core of a topology."""
    import numpy as np
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax, xla_client
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    devices = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[:1]
    text = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(module))
    with mlir.make_ir_context():
        parsed = ir.Module.parse(text)
        _strip_copies(parsed, ir)
        options = compiler.get_compile_options(
            num_replicas=1,
            num_partitions=1,
            device_assignment=np.array([[device.id] for device in devices]),
            backend=devices[0].client,
        )
        return devices[0].client.compile(
            parsed, executable_devices=_jax.DeviceList(tuple(devices)), compile_options=options
        )


def _strip_copies(module: Any, ir: Any) -> None:
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


class Program:
    """A compiled module's text, for the sum of the cycles that the compiler noted in it."""

    _HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
    _CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
    _CALLED = re.compile(r"(?:to_apply|calls|(?:true|false)_computation)=%?([\w.\-]+)")

    def __init__(self, text: str) -> None:
        self._lines: dict[str, list[str]] = collections.defaultdict(list)
        self.entry = name = ""
        for line in text.splitlines():
            if found := self._HEADER.match(line):
                name = found[2]
                self.entry = name if found[1] else self.entry
            elif name:
                self._lines[name].append(line)

    def cycles(self, computation: str) -> int:
        """Of all instructions; a loop's body counts once, as a step should have none."""
        total = 0
        for line in self._lines[computation]:
            if found := self._CYCLES.search(line):
                total += int(found[1])
            elif re.search(r" (call|conditional|while)\(", line):
                names = [*self._CALLED.findall(line), *re.findall(r"body=%?([\w.\-]+)", line)]
                total += sum(map(self.cycles, names))
        return total


if __name__ == "__main__":
    main()
