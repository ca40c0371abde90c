"""Pipelines on Vertex AI: sent, followed, cancelled, scheduled, fetched.

Everything that can be wrong is looked for before anything is sent: Vertex AI checks no types, and
says late what is missing.
"""

import contextlib
import dataclasses
import datetime
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from google.api_core import exceptions
from google.auth import exceptions as auth_exceptions
from google.auth.credentials import Credentials
from google.cloud import aiplatform
from google.cloud.aiplatform.utils import gcs_utils
from google.cloud.aiplatform_v1.types import PipelineState
from google.cloud.storage import Client as StorageClient

from clozeflow import storage as files
from clozeflow.errors import UserError
from pipelines.arguments import bucket_of
from pipelines.request import Request, check_cron, completed

FINAL = {
    PipelineState.PIPELINE_STATE_SUCCEEDED,
    PipelineState.PIPELINE_STATE_FAILED,
    PipelineState.PIPELINE_STATE_CANCELLED,
    PipelineState.PIPELINE_STATE_PAUSED,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """A project and a region of Vertex AI."""

    project: str
    location: str
    endpoint: str = ""
    """The address of the service, where it is not Google's own."""
    credentials: Credentials | None = None

    def connect(self) -> None:
        """Lets the client library talk to the place."""
        aiplatform.init(
            project=self.project,
            location=self.location,
            credentials=self.credentials,
            api_endpoint=self.endpoint or None,
            api_transport="rest" if self.endpoint else None,
        )


def prepare(place: Place, request: Request) -> Request:
    """The request with every argument filled in, after all checks that send nothing.

    Raises:
        UserError: An argument, the bucket, an image or the compiled pipeline is not right.
    """
    ready = completed(request, project=place.project, location=place.location)
    check_bucket(place, request.pipeline_root)
    return ready


def check_bucket(place: Place, pipeline_root: str) -> None:
    """Refuses a bucket that is not there: this is where credentials are needed first."""
    bucket = bucket_of(pipeline_root)
    with explained("--pipeline-root"):
        client = StorageClient(project=place.project, credentials=place.credentials)
        if client.lookup_bucket(bucket) is None:
            raise UserError(
                f"gs://{bucket}",
                "there is no such bucket",
                fix=f"Create it (gcloud storage buckets create gs://{bucket} "
                f"--project {place.project} --location {place.location}), or give another.",
            )


@contextlib.contextmanager
def explained(where: str) -> Iterator[None]:
    """What the service or the lack of credentials says, as one message."""
    try:
        yield
    except auth_exceptions.DefaultCredentialsError:
        raise UserError(
            "Google Cloud",
            "there are no credentials",
            fix="Run: gcloud auth application-default login.",
        ) from None
    except exceptions.GoogleAPICallError as error:
        raise UserError(where, f"Vertex AI says: {error.message}", fix="Mend that.") from error


@contextlib.contextmanager
def _job(place: Place, request: Request) -> Iterator[aiplatform.PipelineJob]:
    now = datetime.datetime.now(datetime.UTC)
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder, "pipeline.yaml")
        template.write_text(request.text, encoding="utf-8")
        yield aiplatform.PipelineJob(
            display_name=request.name,
            template_path=str(template),
            job_id=f"{request.name}-{now:%Y%m%d-%H%M%S-%f}",
            pipeline_root=request.pipeline_root,
            parameter_values=dict(request.arguments),
            labels=dict(request.labels),
            project=place.project,
            location=place.location,
            credentials=place.credentials,
        )


def submit(place: Place, request: Request) -> aiplatform.PipelineJob:
    """Sends a prepared request; returns the job."""
    place.connect()
    with explained("submit"), _job(place, request) as job, _without_bucket_check():
        job.submit(service_account=request.service_account or None, network=request.network or None)
    return job


@contextlib.contextmanager
def _without_bucket_check() -> Iterator[None]:
    """Leaves out the client's own look at the bucket, which `prepare` has looked at.

    It would make a missing bucket, asks another service for the project's number, for most of a
    minute where that cannot be reached, and hides what goes wrong.
    """
    name = "create_gcs_bucket_for_pipeline_artifacts_if_it_does_not_exist"
    check = getattr(gcs_utils, name)
    setattr(gcs_utils, name, lambda **_: None)
    try:
        yield
    finally:
        setattr(gcs_utils, name, check)


def schedule(
    place: Place, request: Request, *, cron: str, max_runs: int = 0
) -> aiplatform.PipelineJobSchedule:
    """Lets Vertex AI run a prepared request again and again.

    Args:
        place: Where.
        request: What.
        cron: When, for example `TZ=Europe/Zurich 0 3 * * 1`.
        max_runs: After how many runs it ends; 0 for never.
    """
    check_cron(cron)
    place.connect()
    with explained("schedule"), _job(place, request) as job:
        return job.create_schedule(
            cron=cron,
            display_name=request.name,
            max_run_count=max_runs or None,
            service_account=request.service_account or None,
            network=request.network or None,
        )


def find_job(place: Place, name: str) -> aiplatform.PipelineJob:
    """A job by its resource name, or by its id in the place."""
    place.connect()
    try:
        with explained(name):
            return aiplatform.PipelineJob.get(
                name, project=place.project, location=place.location, credentials=place.credentials
            )
    except UserError as error:
        if isinstance(error.__cause__, exceptions.NotFound):
            raise UserError(
                name,
                f"there is no such job in {place.project}, {place.location}",
                fix="See: python -m pipelines status.",
            ) from None
        raise


def list_jobs(place: Place) -> list[aiplatform.PipelineJob]:
    """The place's jobs, the newest first."""
    place.connect()
    with explained("status"):
        return list(aiplatform.PipelineJob.list(order_by="create_time desc"))


def cancel(place: Place, name: str) -> None:
    """Asks a job to stop; training keeps its last checkpoint."""
    job = find_job(place, name)
    with explained(name):
        job.cancel()


def follow(
    job: aiplatform.PipelineJob,
    screen: TextIO,
    *,
    poll_seconds: float = 20,
    sleep: Callable[[float], None] = time.sleep,
) -> PipelineState:
    """Shows each change of a task's state until the job has ended; returns how it ended."""
    shown: dict[str, str] = {}
    while True:
        state = job.state
        for task, now in task_states(job).items():
            if shown.get(task) != now:
                screen.write(f"{datetime.datetime.now():%H:%M:%S}  {task:<24} {now}\n")
                shown[task] = now
        screen.flush()
        if state in FINAL:
            return state
        sleep(poll_seconds)


def task_states(job: aiplatform.PipelineJob) -> dict[str, str]:
    """The state of each of a job's tasks, with the error of one that failed."""
    states = {}
    for task in job.gca_resource.job_detail.task_details:
        error = f": {task.error.message}" if task.error.message else ""
        states[task.task_name] = f"{task.state.name.lower()}{error}"
    return states


def download(job: aiplatform.PipelineJob, output: Path) -> list[Path]:
    """Copies the artifacts of a job's tasks to `output/TASK/NAME`; what is there whole stays."""
    found = []
    for task in job.gca_resource.job_detail.task_details:
        for name, artifacts in task.outputs.items():
            for artifact in artifacts.artifacts:
                found += _fetched(artifact.uri, output / task.task_name / name)
    return found


def _fetched(uri: str, target: Path) -> list[Path]:
    names = files.list_files(uri)
    for name in names:
        place = target / name if name else target
        if not place.is_file() or place.stat().st_size != files.size_bytes(files.join(uri, name)):
            with files.atomic_writer(str(place)) as file, _reader(uri, name) as source:
                while piece := source.read(1 << 20):
                    file.write(piece)
    return [target] if names else []


def _reader(uri: str, name: str) -> Any:
    return files.open_read(files.join(uri, name) if name else uri)
