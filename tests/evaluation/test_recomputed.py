"""Every figure of an evaluation of a model that learned from real text, told again.

Nothing is picked: each number and word in `evaluation.json` and `classification.json` is compared
with one that `recomputed` makes from raw logits, and one that it does not make fails the test.
"""

from html.parser import HTMLParser

import numpy as np
import pytest

from clozeflow.artifacts import ArtifactType, open_artifact
from clozeflow.evaluation.gate import FIGURES
from clozeflow.evaluation.models import open_model
from clozeflow.registry import STAGES
from clozeflow.report import format_number
from clozeflow.stages import run_stage
from tests.evaluation import fixtures, recomputed
from tests.shards import fixtures as shard_fixtures

SETTINGS = {"split": "validation", "masking_rate": 0.15, "shown": "training", "seed": 0}
REQUIRED = ("loss<=baseline", "masked_accuracy>=0.05", "accuracy_ratio>1")
WITHOUT_INTERVAL = {"calibration_error", "pseudo_bits_per_byte"}
PROMPTS = ("The <mask> of the United States.", "We [MASK] the <mask>")


def spoken(num_documents: int) -> list[str]:
    """Documents of one word of speeches each, said again and again, with now and then another.

    The words have one piece or several: most of what is masked can be told from the context, and
    not all of it.
    """
    words = dict.fromkeys(word for text in shard_fixtures.documents() for word in text.split())
    generator = np.random.default_rng(0)
    frequency = 1 / np.arange(1, 41) / (1 / np.arange(1, 41)).sum()
    own = generator.choice(list(words)[:40], size=num_documents, p=frequency)
    others = generator.choice(list(words)[:40], size=(num_documents, 40), p=frequency)
    is_other = generator.random(others.shape) < 0.05
    return [" ".join(row) for row in np.where(is_other, others, own[:, None])]


@pytest.fixture(scope="module")
def language(tokenizer, tmp_path_factory):
    """Of texts that are quickly learned, and not all of them; held-out ones from two parts."""
    folder = tmp_path_factory.mktemp("language")
    texts = spoken(400)
    corpus = shard_fixtures.write_corpus(
        folder / "corpus", train=[texts[40:]], validation=[texts[:30], texts[30:40]]
    )
    return shard_fixtures.make_shards(
        folder / "shards", corpus=corpus, tokenizer=tokenizer, seq_len=fixtures.SEQ_LEN
    )


@pytest.fixture(scope="module")
def learned(language, tokenizer, tmp_path_factory):
    output = str(tmp_path_factory.mktemp("learned") / "model")
    stage = STAGES["train"]
    settings = stage.config(
        num_train_steps=150, global_batch_size=32, peak_learning_rate=5e-3, dropout_rate=0.0
    )
    inputs = {"shards": language.uri, "tokenizer": tokenizer.uri}
    run_stage(stage, settings, inputs=inputs, output=output)
    return open_artifact(output, ArtifactType.MASKED_LM, name="model")


@pytest.fixture(scope="module")
def folder(learned, model, language, tmp_path_factory):
    output = tmp_path_factory.mktemp("evaluated") / "evaluation"
    fixtures.evaluate(
        output,
        model=learned,
        shards=language,
        baseline=model.uri,
        require=REQUIRED,
        prompts=PROMPTS,
        batch_size=7,
    )
    return output


@pytest.fixture(scope="module")
def asked(learned, language):
    return recomputed.Asked(model=open_model(learned.uri), shards=language)


@pytest.fixture(scope="module")
def expected(asked, learned, opened, model, language):
    """The whole of `evaluation.json`."""
    baseline = recomputed.Asked(model=opened, shards=language)
    found = recomputed.evaluation(asked, baseline)
    own, theirs = found["figures"], found["baseline"]["figures"]
    found["baseline"]["fingerprint"] = model.manifest.fingerprint
    return {
        **SETTINGS,
        "model": learned.manifest.fingerprint,
        "shards": language.manifest.fingerprint,
        "guesses_counted_on": "train",
        **found,
        "prompts": [
            {"text": text, "true_word": "", "answers": recomputed.answers(asked, text)}
            for text in PROMPTS
        ],
        "blessed": True,
        "reasons": [
            f"loss<=baseline: met ({own['loss']:.6g} against {theirs['loss']:.6g})",
            f"masked_accuracy>=0.05: met ({own['masked_accuracy']:.6g})",
            f"accuracy_ratio>1: met ({own['accuracy_ratio']:.6g})",
        ],
    }


def assert_same(found, wanted):
    found, wanted = recomputed.leaves(found), recomputed.leaves(wanted)
    assert set(found) == set(wanted), "figures that are not told again, or no longer there"
    for place, value in wanted.items():
        # Float32 sums of the code under test; cosines are rounded to 4 digits.
        digits = 6e-5 if place.endswith("/cosine") else 3e-6
        same = (
            value if isinstance(value, str | bool) else pytest.approx(value, rel=5e-6, abs=digits)
        )
        assert found[place] == same, place


def test_every_number_is_told_again(folder, expected):
    assert_same(recomputed.read(folder, "evaluation.json"), expected)


def test_every_number_of_a_model_that_learned_nothing_is_told_again(
    evaluation, model, shards, opened
):
    """With the settings that nobody changes: no baseline, no thresholds, prompts from the split."""
    asked, found = recomputed.Asked(model=opened, shards=shards), fixtures.results_of(evaluation)
    fitting = [p for p in found["prompts"] if recomputed.num_tokens(asked, p["text"]) <= 32]
    for prompt in fitting:
        prompt["answers"], answers = recomputed.answers(asked, prompt["text"]), prompt["answers"]
        assert_same(answers, prompt["answers"])
    assert len(fitting) >= 5  # the others are answered from a window: see test_predict.py
    wanted = {
        **SETTINGS,
        "model": model.manifest.fingerprint,
        "shards": shards.manifest.fingerprint,
        "guesses_counted_on": "train",
        **recomputed.evaluation(asked),
        "prompts": found["prompts"],
        "blessed": False,
        "reasons": ["no threshold was set (--require)"],
    }
    assert_same(found, wanted)


def test_the_confidence_curve_is_told_again(folder, asked):
    curve = {"confidenceMetrics": recomputed.confidence_curve(asked)}
    assert_same(recomputed.read(folder, "classification.json"), curve)


def test_a_figure_that_is_not_told_again_would_be_noticed(folder, expected):
    found = recomputed.read(folder, "evaluation.json")
    found["slices"][0]["groups"][0]["new_figure"] = 1.0
    with pytest.raises(AssertionError, match="new_figure"):
        assert_same(found, expected)


def test_all_that_is_promised_is_there(expected):
    assert set(expected["figures"]) == set(FIGURES)
    assert set(expected["intervals"]) == set(FIGURES) - WITHOUT_INTERVAL
    names = [slicing["name"].split(" ")[0] for slicing in expected["slices"]]
    assert names == ["source", "shown", "token", "word", "bytes", "position", "length"]
    assert [group["group"] for group in expected["slices"][0]["groups"]] == ["even", "odd"]


def test_the_model_has_learned(expected):
    """Else most of what is compared would be what any model says."""
    figures = expected["figures"]
    assert figures["loss"] < 0.8 * figures["unigram_loss"]
    assert figures["accuracy_ratio"] > 2
    assert len(expected["calibration"]) >= 5


class Tables(HTMLParser):
    """The cells of a page's tables: a list of rows for each."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._in_cell = False

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag):
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self._in_cell:
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def tables(folder):
    parser = Tables()
    parser.feed((folder / "report.html").read_text())
    return {tuple(rows[0]): rows[1:] for rows in parser.tables}


def test_the_page_shows_these_figures_and_intervals(tables, folder):
    results = recomputed.read(folder, "evaluation.json")
    rows = tables["figure", "value", "95 % interval", "what it is"]
    assert [row[0] for row in rows] == list(FIGURES)
    for name, value, interval, _ in rows:
        assert value == format_number(results["figures"][name])
        bounds = results["intervals"].get(name, [])
        assert interval == " to ".join(map(format_number, bounds))


def test_the_page_shows_these_slices(tables, folder):
    for slicing in recomputed.read(folder, "evaluation.json")["slices"]:
        (rows,) = [rows for header, rows in tables.items() if header[0] == slicing["name"]]
        assert [row[0] for row in rows] == [group["group"] for group in slicing["groups"]]
        for row, group in zip(rows, slicing["groups"], strict=True):
            assert row[1:] == [
                format_number(group["num_questions"]),
                format_number(group["loss"]),
                f"{group['masked_accuracy']:.1%}",
                f"{group['masked_accuracy_top5']:.1%}",
                format_number(group["unigram_loss"]),
            ]


def test_kfp_gets_these_figures_as_metrics(folder):
    manifest = recomputed.read(folder, "manifest.json")
    assert manifest["metrics"] == recomputed.read(folder, "evaluation.json")["figures"]
