import numpy as np
import pyarrow as pa

from clozeflow import storage
from clozeflow.artifacts import Split
from clozeflow.shards import page
from clozeflow.shards.config import ShardConfig
from clozeflow.shards.statistics import Statistics, bin_bounds
from tests.shards import fixtures


def test_the_report_shows_counts_and_pictures(shards):
    html = storage.read_text(shards.path("report.html"))
    assert html.count("<svg") == 3
    for words in ("Tokens per document", "Tokens per source", "padding", "even", "odd", "train"):
        assert words in html
    num_examples = shards.manifest.splits["train"].counts["num_examples"]
    assert f"{num_examples:,}" in html
    assert "SentencePiece, each distinct word once" in html


def test_the_same_work_gives_the_same_report(shards, corpus, tokenizer, tmp_path):
    made = fixtures.make_shards(
        tmp_path / "made", corpus=corpus, tokenizer=tokenizer, examples_per_shard=64
    )
    one, other = (storage.read_text(a.path("report.html")) for a in (shards, made))
    assert one == other


def test_the_report_is_no_part_of_the_fingerprint(shards):
    assert [file.path for file in shards.manifest.files if file.auxiliary] == ["report.html"]


def test_counts_add_up(shards, corpus):
    metrics = shards.manifest.metrics
    assert 0 < metrics["padding_share"] < 0.02
    assert metrics["unknown_share"] < 0.01
    documents = sum(s.counts["num_documents"] for s in corpus.manifest.splits.values())
    special = shards.manifest.properties["num_tokens"] - (
        metrics["tokens_per_document"] * documents
    )
    # At least <s> and </s> of each row, and a separator for each further document.
    assert special >= 2 * shards.manifest.properties["num_examples"]


def test_names_from_outside_are_text():
    counted = Statistics(num_documents=1, num_document_tokens=9, text_bytes=30)
    counted.tokens_by_source["$x_1$ <b>&"] = 9
    counted.documents_by_length["12"] = 1
    split = Split(files=())
    html = page.render(ShardConfig(), {"train": split}, {"train": counted}, method="one")
    assert "$x_1$ &lt;b&gt;&amp;" in html
    assert "<b>" not in html


def test_bins_hold_their_lengths():
    counted = Statistics()
    lengths = [0, 1, 2, 3, 7, 8, 9, 1000]
    counted.count(pa.array(["a"] * len(lengths)), np.array(lengths))
    assert sum(counted.documents_by_length.values()) == len(lengths)
    for length in lengths[1:]:
        one = Statistics()
        one.count(pa.array(["a"]), np.array([length]))
        (number,) = map(int, one.documents_by_length)
        low, high = bin_bounds(number)
        assert low <= length + 1e-6 and length < high + 1e-6
