"""The train component as a custom job of Vertex AI on a TPU slice."""

import copy
import dataclasses
import enum
import json
from typing import Any

from google.protobuf import json_format
from google_cloud_pipeline_components.v1.custom_job import (
    CustomTrainingJobOp,
    create_custom_training_job_from_component,
)
from kfp import components as kfp_components
from kfp.dsl.base_component import BaseComponent

from clozeflow.errors import UserError
from clozeflow.slices import UNSUPPORTED, Slice
from components import images
from components.train.component import train
from pipelines.graph import Variant


class Provisioning(enum.StrEnum):
    """How Vertex AI finds the machines."""

    STANDARD = "STANDARD"
    SPOT = "SPOT"
    """Cheaper, and taken back at any time: training resumes from its last checkpoint."""
    FLEX_START = "FLEX_START"
    """Waits until there are machines, at most `max_wait_seconds`."""


class Unsupported(enum.Enum):
    """What is done with a slice that TensorFlow does not support by default."""

    REFUSE = enum.auto()
    ALLOW = enum.auto()


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobOptions:
    """What a custom job can be told besides its machines."""

    provisioning: Provisioning = Provisioning.STANDARD
    """How the machines are found: SPOT is cheaper and may be taken back, FLEX_START waits for them
    (STANDARD)."""
    max_wait_seconds: int = 86_400
    """Seconds that FLEX_START waits for machines; 0 waits without end (86400: a day)."""
    timeout_seconds: int = 604_800
    """Seconds after which the job is stopped (604800: a week)."""
    restart_on_worker_restart: bool = False
    """Start the whole job again where one of its machines starts again."""
    service_account: str = ""
    """The account that the job acts as, as NAME@PROJECT.iam.gserviceaccount.com."""
    network: str = ""
    """A VPC network that the job is peered with, as projects/NUMBER/global/networks/NAME."""
    encryption_key: str = ""
    """A customer-managed key, as projects/…/cryptoKeys/NAME."""
    tensorboard: str = ""
    """A Vertex TensorBoard, as projects/…/tensorboards/ID; it demands a service account."""
    persistent_resource: str = ""
    """The id of a persistent resource of Vertex AI whose machines the job runs on."""
    reservation: str = ""
    """Reserved machines, as projects/…/zones/…/reservations/NAME."""
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    """Labels of the job, for bills and filters."""

    def check(self) -> None:
        """Refuses combinations that Vertex AI refuses only after the job was sent."""
        for flag, seconds, least in (
            ("--timeout-seconds", self.timeout_seconds, 1),
            ("--max-wait-seconds", self.max_wait_seconds, 0),
        ):
            if seconds < least:
                raise UserError(
                    flag,
                    "is out of range",
                    got=seconds,
                    expected=f"at least {least}",
                    fix="Give it in seconds.",
                )
        if self.tensorboard and not self.service_account:
            raise UserError(
                "--tensorboard",
                "demands a service account",
                fix="Give --service-account too: Vertex AI writes the logs in its name.",
            )
        if self.provisioning is Provisioning.SPOT and self.reservation:
            raise UserError(
                "--reservation",
                "cannot be used with SPOT machines",
                fix="Give one of --provisioning SPOT and --reservation.",
            )


def vertex_variant(tpu: Slice, options: JobOptions | None = None, **others: Any) -> Variant:
    """A pipeline's variant for Vertex AI, with its training on the slice.

    Args:
        tpu: The slice.
        options: The training job's.
        **others: Fields of `Variant` that are set besides.
    """
    settings = {"num_retries": 2, "corpus_gib": 1.0, **others}
    return Variant(
        train=custom_job(train, tpu, options or JobOptions()),
        # By default the job's project and location are placeholders that only Vertex's own
        # backend knows; as parameters they are seen, and checked, before anything is sent.
        job_parameters={"project": str, "location": str},
        fixed={"tpu": tpu.name},
        job_descriptions={
            "project": "The Google Cloud project that the training job runs in.",
            "location": "The region of the training job, for example us-west1.",
        },
        # A job that Vertex AI took for done would be handed on, whatever its image has become.
        settle_train=lambda task: task.set_caching_options(False),
        **settings,
    )


def check_slice(tpu: Slice, unsupported: Unsupported = Unsupported.REFUSE) -> None:
    """Refuses slices that TensorFlow does not support, unless told otherwise."""
    if tpu.generation in UNSUPPORTED and unsupported is Unsupported.REFUSE:
        raise UserError(
            "--tpu",
            "TensorFlow does not support this generation by default",
            got=tpu.name,
            expected="v5e, v3 or v2",
            fix=f"Give --tpu {tpu.name.replace('v6e', 'v5e')}, or add --allow-unsupported.",
        )


def custom_job(component: BaseComponent, tpu: Slice, options: JobOptions) -> BaseComponent:
    """The component wrapped as a custom job: the same inputs and outputs, run on the slice.

    Raises:
        UserError: An input or output bears the name of a custom job's field.
    """
    check_names(component)
    options.check()
    wrapped = create_custom_training_job_from_component(
        component,
        display_name=component.name,
        machine_type=tpu.machine_type,
        accelerator_type=tpu.accelerator_type,
        accelerator_count=tpu.accelerator_count,
        boot_disk_type="",  # the machine type's own default
        **_job_fields(options),
    )
    return _with_worker_pools(wrapped, tpu, component)


def check_names(component: BaseComponent) -> None:
    """Refuses an input that would override a custom job's field, silently."""
    fields = set(CustomTrainingJobOp.component_spec.inputs)
    outputs = set(CustomTrainingJobOp.component_spec.outputs)
    spec = component.component_spec
    clash = sorted((fields & set(spec.inputs or {})) | (outputs & set(spec.outputs or {})))
    if clash:
        raise UserError(
            f"component {component.name}",
            f"has an input or output named like a field of a custom job: {', '.join(clash)}",
            fix="Rename it: it would take that field's place in the job, without a word.",
        )


def _job_fields(options: JobOptions) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "timeout": f"{options.timeout_seconds}s",
        "restart_job_on_worker_restart": options.restart_on_worker_restart,
        "service_account": options.service_account,
        "network": options.network,
        "encryption_spec_key_name": options.encryption_key,
        "tensorboard": options.tensorboard,
        "labels": options.labels,
        "strategy": str(options.provisioning),
        "max_wait_duration": f"{options.max_wait_seconds}s",
    }
    if options.persistent_resource:
        fields["persistent_resource_id"] = options.persistent_resource
    if options.reservation:
        fields["reservation_affinity_type"] = "SPECIFIC_RESERVATION"
        fields["reservation_affinity_key"] = "compute.googleapis.com/reservation-name"
        fields["reservation_affinity_values"] = [options.reservation]
    return fields


def _with_worker_pools(wrapped: BaseComponent, tpu: Slice, component: BaseComponent) -> Any:
    """Adds to the job what the wrapper has no argument for: topology, image, entry point."""
    spec = json_format.MessageToDict(wrapped.pipeline_spec)
    for definition in (spec["root"], *spec["components"].values()):
        pools = definition["inputDefinitions"]["parameters"]["worker_pool_specs"]["defaultValue"]
        (pool,) = pools
        _finish_pool(pool, tpu)
    loaded = kfp_components.load_component_from_text(json.dumps(spec))  # JSON is YAML, only faster
    loaded.component_spec.name = component.name
    loaded.description = component.description
    return loaded


def _finish_pool(pool: dict[str, Any], tpu: Slice) -> None:
    if tpu.topology:
        pool["machine_spec"]["tpu_topology"] = tpu.topology
    container = pool["container_spec"]
    container["image_uri"] = images.TPU_POD if tpu.num_hosts > 1 else images.TPU
    if tpu.num_hosts > 1:
        # The pod image's own entry point starts the program on every host: no command.
        container["args"] = [*container.pop("command"), *copy.copy(container["args"])]
