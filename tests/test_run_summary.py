"""The page that sums up a run."""

from clozeflow import component
from clozeflow.artifacts import ArtifactType
from clozeflow.run_summary import find_artifacts, run_summary
from clozeflow.stages import run_stage
from tests.toy import ToyConfig, toy_stage


def two_stages(first, second):
    run_stage(toy_stage(), ToyConfig(size=5), inputs={}, output=str(first))
    stage = toy_stage(corpus=ArtifactType.CORPUS)
    run_stage(stage, ToyConfig(size=2), inputs={"corpus": str(first)}, output=str(second))


def test_artifacts_of_earlier_runs_are_found_through_those_made_of_them(tmp_path):
    two_stages(tmp_path / "before" / "a" / "corpus", tmp_path / "run" / "b" / "shards")
    found = find_artifacts(str(tmp_path / "run"))
    assert [artifact.manifest.stage for artifact in found] == ["first", "second"]


def test_page_says_how_the_run_ended_and_what_it_made(tmp_path):
    two_stages(tmp_path / "a" / "corpus", tmp_path / "b" / "shards")
    status = {"state": "FAILED", "error": {"message": "Task <train> failed."}}
    page = run_summary(status=status, output=str(tmp_path / "summary" / "summary"))
    assert "The run ended as FAILED. Task &lt;train&gt; failed." in page
    assert "clozeflow.Corpus" in page
    assert "mean" in page


def test_a_run_that_made_nothing_says_so(tmp_path):
    page = run_summary(status={}, output=str(tmp_path / "run" / "summary" / "summary"))
    assert "No task finished an artifact." in page


def test_component_writes_the_page_and_its_state(tmp_path):
    place = tmp_path / "summary" / "summary"
    component.write_summary(
        {
            "inputs": {"parameterValues": {"status": {"state": "SUCCEEDED"}}},
            "outputs": {
                "outputFile": str(tmp_path / "out.json"),
                "artifacts": {"summary": {"artifacts": [{"name": "s", "uri": str(place)}]}},
            },
        }
    )
    assert "SUCCEEDED" in place.read_text()
    assert '"state": "SUCCEEDED"' in (tmp_path / "out.json").read_text()
