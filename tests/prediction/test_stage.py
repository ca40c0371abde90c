"""Files of texts answered or embedded, part by part."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from clozeflow import artifacts, component
from clozeflow.errors import UserError
from clozeflow.evaluation.embed import Embedder
from clozeflow.evaluation.predict import FillMask
from clozeflow.prediction import stage
from clozeflow.registry import STAGES
from clozeflow.stages import run_stage
from tests.evaluation import fixtures

TEXTS = [f"The <mask> of {word} and [MASK]" for word in ("war", "peace", "our country", "it")]


def predict(model, dataset, output, **settings):
    found = STAGES["predict"]
    inputs = {"model": model.uri, "dataset": str(dataset)}
    return run_stage(found, found.config(**settings), inputs=inputs, output=str(output))


def rows_of(output: Path) -> list[dict]:
    manifest = artifacts.read_manifest(str(output))
    paths = [output / file.path for file in manifest.splits["all"].files]
    if paths[0].suffix == ".parquet":
        return [row for path in paths for row in pq.read_table(path).to_pylist()]
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.fixture
def dataset(tmp_path) -> Path:
    """Two files of anybody's, with no manifest."""
    folder = tmp_path / "dataset"
    folder.mkdir()
    (folder / "a.txt").write_text("".join(f"{text}\n" for text in TEXTS[:3]))
    (folder / "b.jsonl").write_text(json.dumps({"text": TEXTS[3], "id": 7}) + "\n")
    (folder / "about.md").write_text("no rows")
    return folder


@pytest.mark.parametrize(("rows_per_part", "num_parts"), [(65_536, 2), (2, 3)])
def test_every_row_is_answered_as_alone(
    model,
    opened,
    dataset,
    tmp_path,
    monkeypatch,
    rows_per_part,
    num_parts,
):
    monkeypatch.setattr(stage, "ROWS_PER_PART", rows_per_part)
    manifest = predict(model, dataset, tmp_path / "out", top_k=3)
    assert len(manifest.splits["all"].files) == num_parts
    assert manifest.splits["all"].counts == {"num_rows": 4}
    rows = rows_of(tmp_path / "out")
    assert [row["text"] for row in rows] == TEXTS
    assert rows[3]["id"] == 7
    for row, expected in zip(rows, FillMask(opened)(TEXTS, top_k=3), strict=True):
        assert [a["token_id"] for a in row["answers"]] == [a.token_id for a in expected]


def test_a_single_file_is_a_data_set_and_vectors_are_those_of_embed(
    model,
    opened,
    dataset,
    tmp_path,
):
    settings = {"produce": "vectors", "output_format": "jsonl"}
    predict(model, dataset / "b.jsonl", tmp_path / "out", **settings)
    (row,) = rows_of(tmp_path / "out")
    assert row["vector"] == pytest.approx(Embedder(opened)([TEXTS[3]])[0].tolist(), abs=1e-6)


def test_processes_change_nothing(model, dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "ROWS_PER_PART", 2)
    alone = predict(model, dataset, tmp_path / "out")
    assert predict(model, dataset, tmp_path / "two", num_workers=2).fingerprint == alone.fingerprint


def test_a_corpus_is_embedded(model, corpus, tmp_path):
    manifest = predict(model, corpus.uri, tmp_path / "out", produce="vectors")
    counts = corpus.manifest.splits["train"].counts
    assert manifest.splits["all"].counts["num_rows"] > counts["num_documents"]
    assert manifest.input("dataset").fingerprint == corpus.manifest.fingerprint


def test_the_examples_of_shards_are_embedded_as_they_are(model, opened, shards, tmp_path):
    manifest = predict(model, shards.uri, tmp_path / "out", produce="vectors")
    splits = {name: split.counts["num_examples"] for name, split in shards.manifest.splits.items()}
    assert manifest.splits["all"].counts["num_rows"] == sum(splits.values())
    rows = rows_of(tmp_path / "out")
    expected = fixtures.rows(shards, "validation")
    found = [row for row in rows if row["split"] == "validation"]
    assert len(found) == len(expected["row"])
    for row, ids, mask in zip(
        found[:5], expected["input_ids"], expected["attention_mask"], strict=False
    ):
        assert row["input_ids"] == ids[mask == 1].tolist()
        hidden = opened.network.roberta(ids[None], attention_mask=mask[None])[0].numpy()[0]
        assert row["vector"] == pytest.approx(hidden[ids > 4].mean(axis=0), abs=1e-5)


def test_shards_have_no_masks_and_must_be_the_models(model, shards, tokenizer, tmp_path):
    with pytest.raises(UserError, match="no masks to answer"):
        predict(model, shards.uri, tmp_path / "out")
    other = fixtures.finish_model(fixtures.save_model(tmp_path / "m", tokenizer), "sha256:0")
    with pytest.raises(UserError, match=r"--dataset .* made with another tokenizer"):
        predict(other, shards.uri, tmp_path / "out2", produce="vectors")


def test_parts_that_were_finished_are_not_worked_on_again(
    model,
    dataset,
    tmp_path,
    monkeypatch,
):
    monkeypatch.setattr(stage, "ROWS_PER_PART", 1)
    work, done = stage.predict_part, []

    def stop_at_the_third(part):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(part.path)
        return work(part)

    monkeypatch.setattr(stage, "predict_part", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        predict(model, dataset, tmp_path / "out")
    again = []
    monkeypatch.setattr(stage, "predict_part", lambda part: again.append(part.path) or work(part))
    interrupted = predict(model, dataset, tmp_path / "out")
    assert len(again) == 2 and not {*again} & {*done}
    monkeypatch.setattr(stage, "predict_part", work)
    assert interrupted.fingerprint == predict(model, dataset, tmp_path / "whole").fingerprint


def test_a_row_without_a_mask_is_named_before_anything_is_answered(
    model,
    dataset,
    tmp_path,
):
    (dataset / "c.txt").write_text("fine <mask>\nnot fine\n")
    with pytest.raises(UserError, match=r"c\.txt, line 2: has no mask"):
        predict(model, dataset, tmp_path / "out")
    assert not list((tmp_path / "out").glob("part-*"))


def test_what_holds_no_texts_is_refused(model, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"--dataset .* holds no file"):
        predict(model, tmp_path / "empty", tmp_path / "out")
    (tmp_path / "empty" / "a.csv").write_text("a,b")
    with pytest.raises(UserError, match=r"holds no file of texts \(got a.csv"):
        predict(model, tmp_path / "empty", tmp_path / "out")


def test_other_texts_in_the_same_place_are_other_work(model, dataset, tmp_path):
    predict(model, dataset, tmp_path / "out")
    (dataset / "a.txt").write_text("Another <mask>\n")
    with pytest.raises(UserError, match="another dataset"):
        predict(model, dataset, tmp_path / "out")


def test_as_a_component(model, dataset, tmp_path):
    def artifact(uri):
        return {"artifacts": [{"name": "n", "uri": str(uri)}]}

    component.run_component(
        STAGES["predict"],
        {
            "inputs": {
                "parameterValues": {"top_k": 2.0},
                "artifacts": {"model": artifact(model.uri), "dataset": artifact(dataset)},
            },
            "outputs": {
                "outputFile": str(tmp_path / "output.json"),
                "artifacts": {"predictions": artifact(tmp_path / "out")},
            },
        },
    )
    output = json.loads((tmp_path / "output.json").read_text())
    metadata = output["artifacts"]["predictions"]["artifacts"][0]["metadata"]
    assert metadata["all_num_rows"] == 4
    assert len(rows_of(tmp_path / "out")) == 4
