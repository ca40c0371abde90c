"""Each trap is caught, and what has no trap is not."""

import copy

import pytest
import yaml

from clozeflow.slices import find_slice
from pipelines.compiled import compiled
from pipelines.gke import gke_variant
from pipelines.lint import lint, untagged
from pipelines.pretrain import pretrain_pipeline
from pipelines.tpu import vertex_variant

DIGEST = "registry.example/p/r/clozeflow@sha256:" + "a" * 64
IMAGES = {"cpu": DIGEST, "tpu": DIGEST, "tpu_pod": DIGEST, "preflight": DIGEST}


@pytest.fixture(scope="module")
def good():
    """The pretrain pipeline on Vertex AI, with images by digest."""
    variant = vertex_variant(find_slice("v5e-16"))
    return yaml.safe_load(compiled(pretrain_pipeline(variant), IMAGES))


def job_inputs(spec):
    return spec["components"]["comp-train"]["inputDefinitions"]["parameters"]


def pool(spec):
    return job_inputs(spec)["worker_pool_specs"]["defaultValue"][0]


def executor(spec, name):
    return spec["deploymentSpec"]["executors"][f"exec-{name}"]["container"]


def train_task(spec):
    (graph,) = [
        c for c in spec["components"].values() if "train" in c.get("dag", {}).get("tasks", {})
    ]
    return graph["dag"]["tasks"]["train"]


def long_default(spec):
    spec["root"]["inputDefinitions"]["parameters"]["source"]["defaultValue"] = ["x" * 100] * 200


def foreign_title(spec):
    outputs = spec["components"]["comp-corpus"]["outputDefinitions"]["artifacts"]
    outputs["corpus"]["artifactType"]["schemaTitle"] = "mlm.Corpus"


TRAPS = {
    "executor input inside an argument": (
        lambda spec: executor(spec, "shard")["args"].append("--executor-input={{$}}"),
        "Make {{$}} an argument of its own",
    ),
    "executor input inside a job's argument": (
        lambda spec: pool(spec)["container_spec"]["args"].append("--input={{$}}"),
        "Make {{$}} an argument of its own",
    ),
    "field of another type": (
        lambda spec: job_inputs(spec).update(labels={"parameterType": "STRING"}),
        "'labels' takes the place",
    ),
    "field of another meaning": (
        lambda spec: job_inputs(spec)["strategy"].update(defaultValue="mirrored"),
        "'strategy' takes the place",
    ),
    "placeholder in a job": (
        lambda spec: pool(spec)["container_spec"]["args"].append(
            '{"IfPresent": {"InputName": "x"}}'
        ),
        "IfPresent and Concat",
    ),
    "machine of the launcher": (
        lambda spec: executor(spec, "train").update(resources={"cpuLimit": 4.0}),
        "change the launcher",
    ),
    "variables of the launcher": (
        lambda spec: executor(spec, "train").update(env=[{"name": "A", "value": "b"}]),
        "change the launcher",
    ),
    "two pools": (
        lambda spec: job_inputs(spec)["worker_pool_specs"]["defaultValue"].append(pool(spec)),
        "one pool with one replica",
    ),
    "two replicas": (
        lambda spec: pool(spec).update(replica_count=4.0),
        "one pool with one replica",
    ),
    "no topology": (
        lambda spec: pool(spec)["machine_spec"].pop("tpu_topology"),
        "v5e-16 (ct5lp-hightpu-4t 4x4)",
    ),
    "wrong topology": (
        lambda spec: pool(spec)["machine_spec"].update(tpu_topology="3x3"),
        "no slice is asked for by",
    ),
    "entry point hidden": (
        lambda spec: pool(spec)["container_spec"].update(command=["clozeflow-component"]),
        "hides the entry point",
    ),
    "unsupported generation": (
        lambda spec: pool(spec)["machine_spec"].update(machine_type="ct6e-standard-4t"),
        "TensorFlow does not support v6e",
    ),
    "TensorBoard alone": (
        lambda spec: job_inputs(spec)["tensorboard"].update(defaultValue="t"),
        "demands a service account",
    ),
    "project by placeholder": (
        lambda spec: train_task(spec)["inputs"]["parameters"].pop("project"),
        "Pass both to the task",
    ),
    "tag": (lambda spec: executor(spec, "shard").update(image="r/clozeflow:1"), "by its digest"),
    "tag in a job": (
        lambda spec: pool(spec)["container_spec"].update(image_uri="r/clozeflow:1"),
        "by its digest",
    ),
    "digest cut short": (
        lambda spec: executor(spec, "shard").update(image="r/clozeflow@sha256:12ab"),
        "what stands behind @ is no digest. A digest is sha256: and 64 digits",
    ),
    "cached training": (
        lambda spec: train_task(spec).update(cachingOptions={"enableCache": True}),
        "Switch caching off",
    ),
    "long default": (long_default, "longer than 10,000 characters"),
    "foreign title": (foreign_title, "schema title 'mlm.Corpus'"),
}


def test_what_we_compile_has_no_trap(good):
    assert lint(yaml.safe_dump(good)) == []


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_caught(good, trap):
    change, words = TRAPS[trap]
    spec = copy.deepcopy(good)
    change(spec)
    findings = lint(yaml.safe_dump(spec))
    assert any(words in str(finding) for finding in findings), findings


def test_a_second_document_is_caught_where_a_job_is(good):
    text = yaml.safe_dump_all([good, {"platforms": {}}])
    assert [f.where for f in lint(text)] == ["pipeline"]
    assert lint(compiled(pretrain_pipeline(gke_variant(find_slice("v5e-4"))), IMAGES)) == []


def test_images_without_a_digest_can_be_told_from_the_rest(good):
    spec = copy.deepcopy(good)
    executor(spec, "shard")["image"] = "r/clozeflow:1"
    long_default(spec)
    findings = lint(yaml.safe_dump(spec))
    assert len(findings) == 2
    assert len(untagged(findings)) == 1
