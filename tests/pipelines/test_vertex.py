"""Vertex AI's own client against a server that parses what it sends as the real messages."""

import io
import sys
import time

import pytest
from google.cloud import aiplatform_v1 as v1
from google.protobuf import json_format

from clozeflow import storage
from clozeflow.errors import UserError
from clozeflow.slices import find_slice
from pipelines.__main__ import main
from pipelines.compiled import compiled
from pipelines.pretrain import pretrain_pipeline
from pipelines.request import Request
from pipelines.tpu import JobOptions, vertex_variant
from pipelines.vertex import (
    cancel,
    download,
    find_job,
    follow,
    list_jobs,
    prepare,
    schedule,
    submit,
    task_states,
)
from tests.pipelines.fake_vertex import BUCKET, State, Task

DIGEST = "registry.example/p/r/clozeflow@sha256:" + "a" * 64
ROOT = f"gs://{BUCKET}/runs"


@pytest.fixture(scope="module")
def text():
    """The pretrain pipeline on v5e-4, with images by digest."""
    variant = vertex_variant(find_slice("v5e-4"), JobOptions())
    return compiled(pretrain_pipeline(variant), {"cpu": DIGEST, "tpu": DIGEST, "preflight": DIGEST})


def request(text, **arguments):
    return Request(text=text, arguments=arguments, pipeline_root=ROOT)


def test_a_job_is_sent_listed_and_cancelled_in_seconds(fake, place, text):
    start = time.process_time()
    job = submit(place, prepare(place, request(text, vocab_size=1000, prompts=["a <mask>"])))
    (sent,) = fake.jobs.values()
    values = dict(sent.runtime_config.parameter_values)
    assert values["vocab_size"] == 1000
    assert list(values["prompts"]) == ["a <mask>"]
    assert values["project"] == "p"
    assert sent.runtime_config.gcs_output_directory == ROOT
    assert [j.resource_name for j in list_jobs(place)] == [job.resource_name]
    cancel(place, job.name)
    assert find_job(place, job.name).state == State.PIPELINE_STATE_CANCELLED
    assert time.process_time() - start < 5


def test_a_schedule_holds_the_job(fake, place, text):
    prepared = prepare(place, request(text))
    schedule(place, prepared, cron="TZ=Europe/Zurich 0 3 * * 1", max_runs=4)
    (sent,) = fake.schedules.values()
    assert sent.cron == "TZ=Europe/Zurich 0 3 * * 1"
    assert sent.max_run_count == 4
    job = sent.create_pipeline_job_request.pipeline_job
    assert dict(job.runtime_config.parameter_values)["seq_len"] == 128
    with pytest.raises(UserError, match="is no schedule"):
        schedule(place, prepared, cron="monday")


def test_a_job_is_followed_to_its_end(fake, place, text):
    job = submit(place, prepare(place, request(text)))

    def becomes(state, **tasks):
        def change(resource):
            resource.state = state
            resource.job_detail = v1.PipelineJobDetail(
                task_details=[Task(task_name=n, state=s, error=e) for n, (s, e) in tasks.items()]
            )

        return change

    running, done = (Task.State.RUNNING, None), (Task.State.SUCCEEDED, None)
    failed = (Task.State.FAILED, {"code": 9, "message": "out of memory"})
    fake.stages = [
        becomes(State.PIPELINE_STATE_RUNNING, corpus=running),
        becomes(State.PIPELINE_STATE_RUNNING, corpus=done, train=running),
        becomes(State.PIPELINE_STATE_FAILED, corpus=done, train=failed),
    ]
    screen, waits = io.StringIO(), []
    end = follow(job, screen, sleep=waits.append)
    assert end == State.PIPELINE_STATE_FAILED
    assert len(waits) == 2
    lines = [line.split(maxsplit=1)[1] for line in screen.getvalue().splitlines()]
    assert [" ".join(line.split()) for line in lines] == [
        "corpus running",
        "corpus succeeded",
        "train running",
        "train failed: out of memory",
    ]
    assert task_states(job)["train"] == "failed: out of memory"


def test_artifacts_of_a_job_are_fetched(fake, place, text, tmp_path):
    storage.write_text("memory://runs/corpus/train/part.txt", "text")
    job = submit(place, prepare(place, request(text)))

    def finish(resource):
        artifact = v1.Artifact(uri="memory://runs/corpus")
        outputs = {"corpus": Task.ArtifactList(artifacts=[artifact])}
        resource.job_detail = v1.PipelineJobDetail(
            task_details=[Task(task_name="corpus", outputs=outputs)]
        )

    fake.stages = [finish]
    assert download(find_job(place, job.name), tmp_path) == [tmp_path / "corpus" / "corpus"]
    assert (tmp_path / "corpus" / "corpus" / "train" / "part.txt").read_text() == "text"


def test_a_job_that_is_not_there_is_one_message(place):
    with pytest.raises(UserError, match="no such job in p, us-central1"):
        find_job(place, "pretrain-1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arguments": {"vocab_size": "many"}}, "vocab_size: has the wrong type"),
        ({"arguments": {"vocab_sise": 1}}, "Did you mean vocab_size"),
        ({"arguments": {"vocab_size": 3}}, "task tokenizer: --vocab-size"),
        ({"pipeline_root": "gs://nowhere/runs"}, "no such bucket"),
        ({"pipeline_root": "runs"}, "is no folder of a bucket"),
        ({"pipeline_root": "gs://b/runs"}, "got gs://b/runs, .* name has 3 characters or more"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_sent(fake, place, text, change, message):
    asked = {"text": text, "arguments": {}, "pipeline_root": ROOT, **change}
    with pytest.raises(UserError, match=message):
        prepare(place, Request(**asked))
    assert fake.sent() == []


def test_a_tag_without_a_digest_is_refused(fake, place):
    tagged = compiled(pretrain_pipeline(vertex_variant(find_slice("v5e-4"))))
    with pytest.raises(UserError, match="expected NAME@sha256"):
        prepare(place, request(tagged))
    assert fake.sent() == []


def test_the_server_refuses_a_field_that_no_message_has(fake):
    path = "/v1/projects/p/locations/l/pipelineJobs"
    with pytest.raises(json_format.ParseError, match="no field named"):
        fake.answer("POST", path, {"pipelineJobId": ["x"]}, '{"colour": 1}')
    assert fake.jobs == {}


def command(fake, monkeypatch, *arguments):
    """Runs the command line in this process."""
    place = ["--project", "p", "--location", "us-central1", "--endpoint", fake.url]
    monkeypatch.setattr(sys, "argv", ["pipelines", *arguments, *place])
    main()


def submission(tmp_path, text, *more):
    path = tmp_path / "pretrain.yaml"
    path.write_text(text)
    return ["submit", str(path), "--pipeline-root", ROOT, *more]


def test_submit_shows_the_cost_and_sends(fake, monkeypatch, capsys, tmp_path, text):
    price = ["--usd-per-chip-hour", "1.2", "--hours", "10"]
    command(fake, monkeypatch, *submission(tmp_path, text, "--yes", "--no-wait", *price))
    said = capsys.readouterr().out
    assert "4 chips (v5e-4) x 10 h x 1.2 USD = 48.00 USD" in said
    assert "a preflight has the step compiled for v5e-4" in said
    assert len(fake.jobs) == 1
    command(fake, monkeypatch, "status")
    assert "pending" in capsys.readouterr().out


def test_without_a_yes_nothing_is_sent(fake, monkeypatch, capsys, tmp_path, text):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SystemExit):
        command(fake, monkeypatch, *submission(tmp_path, text))
    assert "Add --yes" in capsys.readouterr().err
    assert fake.sent() == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--param", "vocab_size=many"], "has the wrong type"),
        (["--labels", "team"], "are KEY=VALUE"),
    ],
)
def test_a_wrong_command_is_one_message(fake, monkeypatch, capsys, tmp_path, text, more, message):
    with pytest.raises(SystemExit):
        command(fake, monkeypatch, *submission(tmp_path, text, "--yes", *more))
    assert message in capsys.readouterr().err
    assert fake.sent() == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--tpu", "v5e-5"], "for example v5e-4"),
        (["--tpu", "v5e-4", "--tensorboard", "t"], "demands a service account"),
        ([], "needs a slice"),
    ],
)
def test_a_job_that_cannot_be_compiled_is_one_message(fake, monkeypatch, capsys, more, message):
    with pytest.raises(SystemExit):
        command(fake, monkeypatch, "submit", "pretrain", "--pipeline-root", ROOT, "--yes", *more)
    assert message in capsys.readouterr().err
    assert fake.sent() == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--yes", "--tpu", "v5e-4", "--param", "vocab_sise=1"], "Did you mean vocab_size"),
        (["--yes", "--tpu", "v5e-4", "--param", "vocab_size=3"], "task tokenizer: --vocab-size"),
        (["--yes", "--tpu", "v5e-4"], "expected NAME@sha256"),
        (
            [
                *("--yes", "--tpu", "v5e-4", "--image", "cpu=r/c@sha256:12"),
                *(f"tpu={DIGEST}", f"preflight={DIGEST}"),
            ],
            "is no digest",
        ),
        (["--yes", "--tpu", "v5e-4", "--labels", "team"], "are KEY=VALUE"),
        (["--yes", "--tpu", "v5e-4", "--preset", "demon"], "no such preset"),
        (["--yes"], "needs a slice"),
        (["--tpu", "v5e-4", "--images", "nowhere.json"], "nowhere.json: cannot be read"),
        (["--tpu", "v5e-4", "--pipeline-root", "gs://B/runs"], "is no folder of a bucket"),
        (["--tpu", "v5e-4", "--param", "vocab_size=3"], "task tokenizer: --vocab-size"),
        (["--tpu", "v5e-4"], "expected NAME@sha256"),
        (
            ["--tpu", "v5e-4", "--image", *(f"{r}={DIGEST}" for r in ("cpu", "tpu", "preflight"))],
            "asks before it sends. Add --yes",
        ),
    ],
)
def test_what_is_wrong_is_said_before_the_client_is_imported(
    fake, monkeypatch, capsys, more, message
):
    """The import takes seconds, and looking for credentials where there are none takes more."""
    monkeypatch.setitem(sys.modules, "pipelines.vertex", None)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SystemExit) as caught:
        command(fake, monkeypatch, "submit", "pretrain", "--pipeline-root", ROOT, *more)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_a_wrong_schedule_is_said_before_the_client_is_imported(fake, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pipelines.vertex", None)
    arguments = ["schedule", "pretrain", "--pipeline-root", ROOT, "--cron", "monday"]
    with pytest.raises(SystemExit):
        command(fake, monkeypatch, *arguments)
    assert "is no schedule" in capsys.readouterr().err
