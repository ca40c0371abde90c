"""predict, embed and serving as commands."""

import io
import json
import logging

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from clozeflow import storage
from clozeflow.errors import UserError
from clozeflow.evaluation.commands import Embed, Predict, Serving
from clozeflow.evaluation.embed import Embedder
from clozeflow.evaluation.predict import FillMask

TEXTS = ("The <mask> of the United States", "We [MASK] the <mask> of our country.")
ROWS = [{"id": 10 * n, "text": text, "tags": ["a", "b"]} for n, text in enumerate(TEXTS)]


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(path)


def test_predict_prints_answers_mask_by_mask(model):
    lines = list(Predict(texts=TEXTS, model=model.uri, top_k=2).lines())
    assert [lines[0], lines[3]] == list(TEXTS)
    assert [("mask" in line.split("%")[-1]) for line in lines[1:3]] == [False, False]
    assert [line.split("%")[1].split(":")[0].strip() for line in lines[4:]] == [
        "mask 1",
        "mask 1",
        "mask 2",
        "mask 2",
    ]


def test_predict_keeps_the_rows_fields(model, opened, rows, tmp_path):
    output = tmp_path / "out.parquet"
    command = Predict(model=model.uri, file=rows, output=str(output), top_k=3)
    assert list(command.lines()) == [f"{output}: 2 rows"]
    found = pq.read_table(output).to_pylist()
    assert [{k: row[k] for k in ("id", "text", "tags")} for row in found] == ROWS
    expected = FillMask(opened)(TEXTS, top_k=3)
    for row, answers in zip(found, expected, strict=True):
        assert [a["token_id"] for a in row["answers"]] == [a.token_id for a in answers]
        assert [a["text"] for a in row["answers"]] == [a.text for a in answers]


def test_a_bucket_is_read_and_written(model, rows, bucket):
    storage.copy_file(rows, f"{bucket}/rows.jsonl")
    given = {"model": model.uri, "file": f"{bucket}/rows.jsonl"}
    list(Predict(**given, output=f"{bucket}/answers.parquet").lines())
    list(Embed(**given, output=f"{bucket}/vectors.jsonl").lines())
    answered = pq.read_table(io.BytesIO(storage.read_bytes(f"{bucket}/answers.parquet")))
    assert answered.column_names == ["id", "text", "tags", "answers"]
    lines = storage.read_text(f"{bucket}/vectors.jsonl").splitlines()
    assert [len(json.loads(line)["vector"]) for line in lines] == [32, 32]


def test_predict_prints_rows_where_no_output_is_given(model, rows):
    found = [json.loads(line) for line in Predict(model=model.uri, file=rows).lines()]
    assert [row["id"] for row in found] == [0, 10]
    assert [len(row["answers"]) for row in found] == [5, 10]


def test_predict_checks_every_row_before_it_answers_one(model, tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("fine <mask>\n" * 3 + "not fine\n")
    output = tmp_path / "out.jsonl"
    with pytest.raises(UserError, match=r"rows\.txt, line 4: has no mask"):
        list(Predict(model=model.uri, file=str(path), output=str(output)).lines())
    assert not output.exists()


@pytest.mark.parametrize(
    ("given", "place"),
    [({"texts": ("fine [MASK]", "not fine")}, "text 2"), ({"file": "rows.txt"}, "line 1")],
)
@pytest.mark.parametrize("config", ['{"mask_token": "<mask>"}', '{"mask_token": {"content": "X"}}'])
def test_a_text_without_a_mask_is_refused_before_the_model_is_opened(
    tmp_path, monkeypatch, config, given, place
):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer_config.json").write_text(config)
    (tmp_path / "rows.txt").write_text("not fine\nfine <mask>\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"{place}: has no mask"):
        list(Predict(model="model", **given).lines())


@pytest.mark.parametrize("config", [None, "{", "[]", "{}"])
def test_a_model_that_does_not_say_its_mask_is_opened(tmp_path, config):
    if config is not None:
        (tmp_path / "tokenizer_config.json").write_text(config)
    with pytest.raises(UserError, match="is no model"):
        list(Predict(model=str(tmp_path), texts=("not fine",)).lines())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"targets": ("zebrafish",)}, "no single piece"), ({"top_k": 801}, "1 to 800")],
)
def test_a_wrong_question_is_refused_before_the_rows_are_read(model, tmp_path, wrong, message):
    path = tmp_path / "rows.txt"
    path.write_text("fine <mask>\nnot fine\n")
    with pytest.raises(UserError, match=message):
        list(Predict(model=model.uri, file=str(path), **wrong).lines())


def test_predict_refuses_a_row_that_has_answers(model, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a <mask>", "answers": 1}\n')
    with pytest.raises(UserError, match="has a field 'answers' already"):
        list(Predict(model=model.uri, file=str(path)).lines())


def test_predict_says_that_a_long_row_was_cut(model, tmp_path, caplog):
    path = tmp_path / "rows.txt"
    path.write_text("people " * 15_000 + "<mask>\nshort <mask>\n")
    with caplog.at_level(logging.WARNING):
        found = [json.loads(line) for line in Predict(model=model.uri, file=str(path)).lines()]
    assert "1 longer than the model" in caplog.text
    assert found[0]["answers"][0]["seen"][0] > 100_000
    assert found[1]["answers"][0]["seen"] == [0, len("short <mask>")]


@pytest.mark.parametrize("command", [Predict, Embed])
@pytest.mark.parametrize(
    ("name", "content", "output", "message"),
    [
        ("a.txt", " \n", "out.jsonl", "holds no texts"),
        ("a.csv", "text\n", "out.jsonl", "of no kind that can be used here"),
        ("a.jsonl", '{"body": "a <mask>"}\n', "out.jsonl", "Name the field that holds the text"),
        ("a.txt", "a <mask>\n", "out.csv", r"ends in \.jsonl, \.parquet"),
    ],
)
def test_a_wrong_file_is_named_before_a_model_is_opened(
    tmp_path, command, name, content, output, message
):
    (tmp_path / name).write_text(content)
    given = {"file": str(tmp_path / name), "output": str(tmp_path / output)}
    with pytest.raises(UserError, match=message):
        list(command(model=str(tmp_path / "no-model"), **given).lines())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "is given nothing to answer"),
        (
            {"texts": ("a <mask>",), "file": "a.txt"},
            r"texts and a file \(got 'a <mask>'; --file a\.txt\)",
        ),
    ],
)
def test_predict_wants_texts_or_a_file(given, message):
    with pytest.raises(UserError, match=message):
        list(Predict(model="no-model", **given).lines())


def test_embed_gives_the_mean_of_the_tokens_states(model, opened, rows, tmp_path):
    output = tmp_path / "out.jsonl"
    (line,) = Embed(model=model.uri, file=rows, output=str(output)).lines()
    assert line.endswith("2 rows with vectors of 32")
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [{k: row[k] for k in ("id", "text", "tags")} for row in found] == ROWS
    for row in found:
        ids = opened.tokenizer(row["text"], return_tensors="np")["input_ids"].astype(np.int32)
        hidden = opened.network.roberta(ids)[0].numpy()[0]
        assert row["vector"] == pytest.approx(hidden[1:-1].mean(axis=0), abs=1e-5)


def test_long_texts_are_embedded_whole_and_empty_ones_as_nothing(opened):
    embedder = Embedder(opened)
    short, long, empty = embedder(["people of the", "people of the " * 100, ""])
    assert not empty.any()
    assert np.isfinite(long).all() and long.any()
    middle = embedder(["people of the " * 5])[0]
    cosine = long @ middle / np.linalg.norm(long) / np.linalg.norm(middle)
    assert cosine > 0.9
    assert embedder(["people of the"])[0] == pytest.approx(short, abs=1e-5)


def test_a_saved_model_answers_as_the_model_does(model, opened, tmp_path):
    folder = tmp_path / "served"
    list(Serving(model=model.uri, output=str(folder), top_k=3).lines())
    texts = [text.replace("[MASK]", "<mask>") for text in TEXTS]
    ids = opened.tokenizer(texts, padding=True, return_tensors="np")["input_ids"].astype(np.int32)
    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    found = served(input_ids=tf.constant(ids), attention_mask=tf.constant((ids != 1).astype("i4")))
    found = {name: tensor.numpy() for name, tensor in found.items()}
    answers = [answer for text in FillMask(opened)(TEXTS, top_k=3) for answer in text]
    assert found["row"].tolist() == [0, 1, 1]
    assert (ids[found["row"], found["position"]] == opened.mask_token_id).all()
    assert found["token_ids"].ravel().tolist() == [answer.token_id for answer in answers]
    probabilities = [answer.probability for answer in answers]
    assert found["probabilities"].ravel() == pytest.approx(probabilities, rel=1e-4)
    assert found["tokens"][0][0].decode() == opened.pieces.names[answers[0].token_id]
    assert (folder / "assets.extra" / "tokenizer.json").is_file()


def test_serving_refuses_a_full_folder_and_too_many_answers(model, tmp_path):
    with pytest.raises(UserError, match="--top-k"):
        list(Serving(model=model.uri, output=str(tmp_path / "new"), top_k=10_000).lines())
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        list(Serving(model=model.uri, output=str(tmp_path)).lines())
