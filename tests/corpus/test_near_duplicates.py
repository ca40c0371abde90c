"""Near duplicates: found when they are near, and only then; dropped on request."""

import itertools
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clozeflow.corpus import near_duplicates, windows


@pytest.fixture(scope="module")
def paragraphs(speeches):
    """Real paragraphs of some length that differ from each other."""
    lines = {line for path in speeches for line in path.read_text().split("\n")}
    return sorted(line for line in lines if len(line) > 400)


def changed(text, number, seed):
    """The text with so many of its words replaced."""
    words, generator = text.split(), random.Random(seed)
    for index in generator.sample(range(len(words)), number):
        words[index] = f"changed{generator.randrange(1000)}"
    return " ".join(words)


def similarity(one, other):
    sets = [set(windows.hashes(text.encode()).tolist()) for text in (one, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def find(texts, threshold, tmp_path, num_cells=4):
    """(document, near) by number, of every near duplicate."""
    documents = np.arange(1, len(texts) + 1, dtype=np.uint64) << np.uint64(50)
    bands, pairs = str(tmp_path / "bands"), [str(tmp_path / f"pairs{i}") for i in range(num_cells)]
    near_duplicates.write_bands(
        bands,
        pa.chunked_array([pa.array(texts, pa.string())]),
        documents,
        np.zeros(len(texts), np.int8),
        num_cells=num_cells,
    )
    for index, target in enumerate(pairs):
        near_duplicates.find_pairs([bands], target, threshold, index=index, num_cells=num_cells)
    rows = near_duplicates.read_pairs(pairs, index=0, num_ranges=1).to_pylist()
    return {(row["document"] >> 50) - 1: (row["near"] >> 50) - 1 for row in rows}


def test_near_ones_are_found_and_others_are_not(paragraphs, tmp_path):
    originals = paragraphs[:300]
    near = [changed(text, 1, seed) for seed, text in enumerate(originals)]
    far = [changed(text, len(text.split()) // 2, seed) for seed, text in enumerate(originals)]
    assert np.mean([similarity(a, b) for a, b in zip(originals, near, strict=True)]) > 0.9
    found = find([*originals, *near, *far], 0.8, tmp_path)
    right = sum(found.get(300 + i) == i for i in range(300))
    assert right >= 290
    assert not [i for i in found if i >= 600]
    assert not [i for i in found if i < 300]


def test_sketches_estimate_the_similarity(paragraphs):
    pairs = [(text, changed(text, n, n)) for n, text in enumerate(paragraphs[:60]) if n]
    exact = np.array([similarity(*pair) for pair in pairs])
    _, signatures = near_duplicates._signatures(pa.array(list(itertools.chain(*pairs))))
    sketches = near_duplicates._sketches(signatures)
    estimate = near_duplicates._similarity(sketches[::2], sketches[1::2])
    assert np.abs(estimate - exact).mean() < 0.08
    assert abs((estimate - exact).mean()) < 0.03


def test_a_band_that_many_share_is_no_trouble(paragraphs, tmp_path):
    copies = [changed(paragraphs[0], 1, seed) for seed in range(3000)]
    found = find(copies, 0.7, tmp_path)
    assert len(found) > 2900


def test_short_documents_are_not_compared(tmp_path):
    assert find(["too short to tell"] * 3, 0.8, tmp_path) == {}
    assert find([], 0.8, tmp_path) == {}


@pytest.fixture
def with_near_ones(paragraphs, tmp_path):
    texts = paragraphs[:100]
    texts += [changed(text, 1, seed) for seed, text in enumerate(texts[:30])]
    (tmp_path / "near.txt").write_text("\n".join(texts))
    return str(tmp_path / "near.txt")


def test_reported_dropped_or_ignored(make_corpus, with_near_ones):
    reported = make_corpus([with_near_ones])
    number = reported.manifest.properties["num_near_duplicates"]
    assert 27 <= number <= 30
    assert reported.manifest.properties["num_documents"] == 130
    example = reported.statistics["near_duplicates"]["examples"][0]
    assert example["similarity"] >= 0.8 and example["text"][:20] and example["near_text"][:20]

    dropped = make_corpus([with_near_ones], near_duplicates="drop", keep_dropped=True)
    assert dropped.manifest.properties["num_documents"] == 130 - number
    assert dropped.statistics["dropped"]["near_duplicate"] == number
    rows = pq.read_table(dropped.folder / "dropped").to_pylist()
    assert {row["text"] for row in rows} == reported.texts() - dropped.texts()
    assert {row["reason"] for row in rows} == {"near_duplicate"}

    ignored = make_corpus([with_near_ones], near_duplicates="ignore")
    assert ignored.manifest.properties["num_near_duplicates"] == 0
    assert ignored.texts() == reported.texts()


def test_the_held_out_document_stays(make_corpus, paragraphs, tmp_path):
    texts = paragraphs[:40]
    near = [changed(text, 1, seed) for seed, text in enumerate(texts)]
    (tmp_path / "train.txt").write_text("\n".join(near + paragraphs[100:150]))
    (tmp_path / "test.txt").write_text("\n".join(texts))
    made = make_corpus(
        [str(tmp_path / "train.txt")],
        test_source=[str(tmp_path / "test.txt")],
        near_duplicates="drop",
    )
    assert len(made.documents("test")) == 40
    assert len(set(near) & made.texts()) <= 3
