"""Training as a custom job on a TPU slice."""

import json

import pytest
from google.cloud.aiplatform_v1 import Scheduling
from kfp import dsl

from clozeflow.errors import UserError
from clozeflow.slices import SLICES, find_slice
from components import images
from components.train.component import train
from pipelines.tpu import (
    JobOptions,
    Provisioning,
    Unsupported,
    check_slice,
    custom_job,
    vertex_variant,
)
from tests.pipelines import rendering


def job_on(name, **options):
    if not options:
        return rendering.custom_job(rendering.train_on(name))
    return rendering.custom_job(vertex_variant(find_slice(name), JobOptions(**options)).train)


def test_v5e_4_is_one_pool_with_one_replica_of_one_machine():
    (pool,) = job_on("v5e-4").job_spec.worker_pool_specs
    assert pool.machine_spec.machine_type == "ct5lp-hightpu-4t"
    assert pool.machine_spec.tpu_topology == "2x2"
    assert pool.replica_count == 1
    assert pool.container_spec.image_uri == images.TPU
    assert list(pool.container_spec.command) == ["clozeflow-component"]


@pytest.mark.parametrize("name", SLICES)
def test_executor_input_comes_back_unchanged(name):
    (pool,) = job_on(name).job_spec.worker_pool_specs
    words = [*pool.container_spec.command, *pool.container_spec.args]
    assert words[:2] == ["clozeflow-component", "train"]
    assert json.loads(words[2]) == rendering.EXECUTOR_INPUT
    # The pod image keeps its own entry point, so several hosts mean: no command.
    has_one_host = find_slice(name).num_hosts == 1
    assert bool(pool.container_spec.command) == has_one_host
    assert pool.container_spec.image_uri == (images.TPU if has_one_host else images.TPU_POD)


@pytest.mark.parametrize("name", ["v2-8", "v3-32"])
def test_older_generations_are_asked_for_by_cores(name):
    machine = job_on(name).job_spec.worker_pool_specs[0].machine_spec
    generation, cores = name.split("-")
    assert machine.machine_type == "cloud-tpu"
    assert machine.accelerator_type.name == f"TPU_{generation.upper()}"
    assert machine.accelerator_count == int(cores)
    assert machine.tpu_topology == ""


def test_options_reach_the_job():
    job = job_on(
        "v5e-4",
        provisioning=Provisioning.FLEX_START,
        max_wait_seconds=3600,
        timeout_seconds=7200,
        restart_on_worker_restart=True,
        service_account="trainer@p.iam.gserviceaccount.com",
        network="projects/1/global/networks/n",
        encryption_key="projects/p/locations/l/keyRings/r/cryptoKeys/k",
        tensorboard="projects/p/locations/l/tensorboards/1",
        labels={"team": "x"},
    )
    scheduling = job.job_spec.scheduling
    assert scheduling.strategy == Scheduling.Strategy.FLEX_START
    assert scheduling.max_wait_duration.total_seconds() == 3600
    assert scheduling.timeout.total_seconds() == 7200
    assert scheduling.restart_job_on_worker_restart
    assert job.job_spec.service_account == "trainer@p.iam.gserviceaccount.com"
    assert job.job_spec.network == "projects/1/global/networks/n"
    assert job.job_spec.tensorboard == "projects/p/locations/l/tensorboards/1"
    assert job.encryption_spec.kms_key_name == "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    assert dict(job.labels) == {"team": "x"}


def test_a_reservation_is_named_in_full():
    job = job_on("v5e-4", reservation="projects/p/zones/z/reservations/r")
    affinity = job.job_spec.worker_pool_specs[0].machine_spec.reservation_affinity
    assert affinity.key == "compute.googleapis.com/reservation-name"
    assert list(affinity.values) == ["projects/p/zones/z/reservations/r"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tensorboard": "t"}, "demands a service account"),
        ({"provisioning": Provisioning.SPOT, "reservation": "r"}, "SPOT"),
        ({"timeout_seconds": -5}, "--timeout-seconds"),
        ({"max_wait_seconds": -1}, "--max-wait-seconds"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        job_on("v5e-4", **options)


def test_an_input_named_like_a_field_of_the_job_is_refused():
    @dsl.container_component
    def clash(labels: str, model: dsl.Output[dsl.Model]):
        return dsl.ContainerSpec(image="x", command=["y"], args=["{{$}}"])

    with pytest.raises(UserError, match="field of a custom job: labels"):
        custom_job(clash, find_slice("v5e-4"), JobOptions())


def test_the_wrapped_component_keeps_the_interface():
    wrapped = vertex_variant(find_slice("v5e-4")).train.component_spec
    for name, entry in train.component_spec.inputs.items():
        assert (wrapped.inputs[name].type, wrapped.inputs[name].default) == (
            entry.type,
            entry.default,
        )
    assert set(wrapped.outputs) == {"model", "gcp_resources"}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("v5e-12", "v5e-8"), ("v5e-300", "v5e-256"), ("v3-16", "v3-8"), ("v9z-4", "v5e-4")],
)
def test_an_unknown_slice_is_refused_with_the_nearest(name, nearest):
    with pytest.raises(UserError, match=f"for example {nearest}"):
        find_slice(name)


@pytest.mark.parametrize("name", ["", "tpu", "v5e", "h100-8", "v4-8"])
def test_what_is_no_slice_is_refused(name):
    with pytest.raises(UserError, match="there is no such slice") as caught:
        find_slice(name)
    check_slice(find_slice(caught.value.expected.removeprefix("for example ")))


def test_v6e_is_refused_unless_allowed():
    with pytest.raises(UserError, match="Give --tpu v5e-8"):
        check_slice(find_slice("v6e-8"))
    check_slice(find_slice("v6e-8"), Unsupported.ALLOW)
