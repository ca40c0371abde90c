"""The train component on a TPU node of GKE, for KFP's open-source backend.

A task there is one pod, so a slice of one host is all that it can have.
"""

from typing import Any

from kfp import components as kfp_components
from kfp import dsl
from kfp import kubernetes as kfp_kubernetes

from clozeflow.errors import UserError
from clozeflow.slices import SLICES, Generation, Slice
from components import images
from components.train.component import train
from pipelines.compiled import compiled
from pipelines.graph import Variant

# Labels that GKE gives to the nodes of a TPU slice, and the resource that a pod asks for.
_ACCELERATORS = {Generation.V5E: "tpu-v5-lite-podslice", Generation.V6E: "tpu-v6e-slice"}
_ACCELERATOR_LABEL = "cloud.google.com/gke-tpu-accelerator"
_TOPOLOGY_LABEL = "cloud.google.com/gke-tpu-topology"
_RESOURCE = "google.com/tpu"


def gke_variant(tpu: Slice, **others: Any) -> Variant:
    """A pipeline's variant for KFP on GKE, with its training on the slice.

    Args:
        tpu: The slice.
        **others: Fields of `Variant` that are set besides.

    Raises:
        UserError: The slice has several hosts, or GKE does not offer it.
    """
    if tpu.num_hosts > 1 or tpu.generation not in _ACCELERATORS:
        usable = [s.name for s in SLICES.values() if s.num_hosts == 1 and not s.accelerator_type]
        raise UserError(
            "--tpu",
            "a task on GKE is one pod, on one host with v5e or v6e chips",
            got=tpu.name,
            expected=", ".join(usable),
            fix="Give one of these, or compile with --target vertex.",
        )

    def settle(task: dsl.PipelineTask) -> None:
        task.set_caching_options(False)
        task.set_accelerator_type(_RESOURCE).set_accelerator_limit(tpu.num_chips)
        for label, value in (
            (_ACCELERATOR_LABEL, _ACCELERATORS[tpu.generation]),
            (_TOPOLOGY_LABEL, tpu.topology),
        ):
            kfp_kubernetes.add_node_selector(task, label_key=label, label_value=value)

    on_tpu = kfp_components.load_component_from_text(compiled(train, {"cpu": images.TPU}))
    return Variant(
        train=on_tpu,
        settle_train=settle,
        fixed={"tpu": tpu.name},
        **{"num_retries": 2, "corpus_gib": 1.0, **others},
    )
