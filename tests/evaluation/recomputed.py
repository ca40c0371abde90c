"""A whole evaluation told again from raw logits, in plain NumPy.

What is taken from the code under test are its inputs alone: which tokens are asked for (frozen, see
test_questions.py) and how often each row is in each resample (see test_resampling.py).

Shapes: N questions, V tokens, B rows, R resamples.
"""

import dataclasses
import functools
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from clozeflow.artifacts import Artifact
from clozeflow.evaluation.config import Shown
from clozeflow.evaluation.models import MaskedLanguageModel
from clozeflow.evaluation.questions import make_questions
from clozeflow.evaluation.resampling import row_weights
from tests.evaluation import fixtures

SPECIAL = 5
"""The ids below are special tokens."""
MANY = ("1,000 to 10,000", "10,000 or more")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """A model's raw answers to the questions of the validation split."""

    model: MaskedLanguageModel
    shards: Artifact

    @functools.cached_property
    def rows(self) -> np.ndarray:
        return fixtures.rows(self.shards, "validation")["input_ids"]

    @functools.cached_property
    def questions(self):
        batch = fixtures.rows(self.shards, "validation")
        return make_questions(batch, rule=fixtures.rule_of(self.model, Shown.TRAINING), seed=0)

    @functools.cached_property
    def logits(self) -> np.ndarray:
        """Float64 [N, V]: of the whole network, its head everywhere."""
        found = self.raw_logits(self.questions.input_ids)
        return found[self.questions.batch_index, self.questions.positions]

    def raw_logits(self, input_ids: np.ndarray) -> np.ndarray:
        output = self.model.network(input_ids, attention_mask=(input_ids != 1).astype(np.int32))
        return output.logits.numpy().astype(np.float64)

    @functools.cached_property
    def probabilities(self) -> np.ndarray:
        return softmax(self.logits)

    @property
    def labels(self) -> np.ndarray:
        return self.questions.labels

    @functools.cached_property
    def nats(self) -> np.ndarray:
        return -np.log(self.probabilities[np.arange(len(self.labels)), self.labels])

    @functools.cached_property
    def best(self) -> np.ndarray:
        """[N, 10]."""
        return np.argsort(-self.logits, axis=1, kind="stable")[:, :10]

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """[V]: the train split's tokens."""
        tokens = fixtures.rows(self.shards, "train")["input_ids"].ravel()
        return np.bincount(tokens[tokens >= SPECIAL], minlength=self.model.vocab_size)

    @functools.cached_property
    def pieces(self) -> list[str]:
        return self.model.tokenizer.convert_ids_to_tokens(range(len(self.model.tokenizer)))

    def word(self, token: int) -> str:
        if token >= len(self.pieces):
            return ""  # the vocabulary is rounded up for the hardware
        return self.pieces[token].replace("▁", " ").strip() or self.pieces[token]


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def evaluation(asked: Asked, baseline: Asked | None = None) -> dict:
    """What `evaluation.json` holds of what a model says, but for the verdict on it."""
    return {
        "num_examples": len(asked.rows),
        "num_questions": len(asked.labels),
        "most_frequent_token": asked.word(int(asked.counts.argmax())),
        "guesses_counted_tokens": int(asked.counts.sum()),
        "figures": all_figures(asked),
        "intervals": intervals(resampled(asked)),
        "slices": slices(asked),
        "calibration": calibration(asked),
        "mistakes": mistakes(asked),
        "pseudo_likelihood": {k: v for k, v in one_by_one(asked).items() if k[:4] == "num_"},
        "neighbours": neighbours(asked),
        "baseline": against(asked, baseline) if baseline else {},
    }


def sums(asked: Asked) -> dict[str, np.ndarray]:
    """Float64 [N] each: what the figures are ratios of."""
    labels, is_mask = asked.labels, asked.questions.shown == 4
    hits = asked.best == labels[:, None]
    unigram = (asked.counts + 1) / (asked.counts.sum() + len(asked.pieces) - SPECIAL)
    num_bytes = [len(asked.pieces[i].replace("▁", " ").encode()) for i in labels]
    return {
        "one": np.ones(len(labels)),
        "nats": asked.nats,
        "top1": hits[:, :1].any(1),
        "top5": hits[:, :5].any(1),
        "top10": hits.any(1),
        "bytes": np.array(num_bytes),
        "frequent": labels == asked.counts.argmax(),
        "unigram": -np.log(unigram[labels]),
        "mask": is_mask,
        "mask_nats": asked.nats * is_mask,
        "mask_top1": hits[:, 0] & is_mask,
    }


def ratios(total: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "loss": total["nats"] / total["one"],
            "perplexity": np.exp(total["nats"] / total["one"]),
            "masked_accuracy": total["top1"] / total["one"],
            "masked_accuracy_top5": total["top5"] / total["one"],
            "masked_accuracy_top10": total["top10"] / total["one"],
            "mask_loss": total["mask_nats"] / total["mask"],
            "mask_accuracy": total["mask_top1"] / total["mask"],
            "bits_per_byte": total["nats"] / math.log(2) / total["bytes"],
            "most_frequent_token_accuracy": total["frequent"] / total["one"],
            "accuracy_ratio": total["top1"] / total["frequent"],
            "unigram_loss": total["unigram"] / total["one"],
            "unigram_bits_per_byte": total["unigram"] / math.log(2) / total["bytes"],
        }


def figures(asked: Asked, chosen: np.ndarray | slice = slice(None)) -> dict[str, float]:
    found = ratios({name: values[chosen].sum() for name, values in sums(asked).items()})
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}


def all_figures(asked: Asked) -> dict[str, float]:
    """Those of the whole split, and those that no slice has."""
    return {
        **figures(asked),
        "calibration_error": calibration_error(asked),
        "pseudo_bits_per_byte": one_by_one(asked)["bits_per_byte"],
    }


def resampled(asked: Asked) -> dict[str, np.ndarray]:
    """[R] for each figure."""
    weights = row_weights(asked.questions.row_numbers)[asked.questions.batch_index]  # [N, R]
    return ratios({name: values @ weights for name, values in sums(asked).items()})


def intervals(values: dict[str, np.ndarray]) -> dict[str, list[float]]:
    defined = {name: value[np.isfinite(value)] for name, value in values.items()}
    return {name: np.quantile(v, (0.025, 0.975)).tolist() for name, v in defined.items() if len(v)}


def against(asked: Asked, other: Asked) -> dict:
    own, theirs = all_figures(asked), all_figures(other)
    values, others = resampled(asked), resampled(other)
    return {
        "figures": theirs,
        "differences": {name: own[name] - theirs[name] for name in own},
        "difference_intervals": intervals({name: values[name] - others[name] for name in values}),
    }


def slices(asked: Asked) -> list[dict]:
    """Every group that has questions, with all its figures."""
    found = []
    for name, (names, groups) in groupings(asked).items():
        described = [
            {"group": label, "num_questions": int((groups == i).sum())}
            | figures(asked, np.flatnonzero(groups == i))
            for i, label in enumerate(names)
            if (groups == i).any()
        ]
        found.append({"name": name, "groups": described})
    return found


def groupings(asked: Asked) -> dict[str, tuple[list[str], np.ndarray]]:
    """The group of each question, by the name of the slicing: from the tokens alone."""
    labels, shown = asked.labels, asked.questions.shown
    starts = np.array([asked.pieces[i].startswith("▁") for i in labels])
    sizes = [len(asked.pieces[i].removeprefix("▁").encode()) for i in labels]
    per_million = asked.counts[labels] / asked.counts.sum() * 1e6
    lengths = (asked.questions.attention_mask.sum(1))[asked.questions.batch_index]
    quarter = asked.rows.shape[1] // 4
    seen = 1 + np.searchsorted((10, 100, 1000, 10000), per_million, "right")
    return {
        "source": sources(asked),
        "shown in the place of the token": (
            ["the mask", "another token", "the token itself"],
            np.where(shown == 4, 0, np.where(shown == labels, 2, 1)),
        ),
        "token frequency (in a million training tokens)": (
            ["never seen", "below 10", "10 to 100", "100 to 1,000", *MANY],
            np.where(asked.counts[labels] == 0, 0, seen),
        ),
        "word start or inside": (["begins a word", "inside a word"], np.where(starts, 0, 1)),
        "bytes in the token": (
            ["1", "2 to 3", "4 to 6", "7 or more"],
            np.searchsorted((2, 4, 7), sizes, "right"),
        ),
        "position in the example": (
            [f"{i * quarter} to {(i + 1) * quarter - 1}" for i in range(4)],
            asked.questions.positions // quarter,
        ),
        "length of the example (tokens)": (
            [f"{i * quarter + 1} to {(i + 1) * quarter}" for i in range(4)],
            (lengths - 1) // quarter,
        ),
    }


def sources(asked: Asked) -> tuple[list[str], np.ndarray]:
    """Every place of every row with its source, read run by run."""
    of_place, first = {}, 0
    for file in asked.shards.manifest.splits["validation"].files:
        table = pq.read_table(
            Path(asked.shards.uri, "sources", Path(file.path).with_suffix(".parquet"))
        )
        begin = dict.fromkeys(table["row"].to_pylist(), 0)
        for run in table.to_pylist():
            for position in range(begin[run["row"]], run["end"]):
                of_place[first + run["row"], position] = run["source"]
            begin[run["row"]] = run["end"]
        first += file.counts["num_examples"]
    sizes = Counter(of_place.values())
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    questions = asked.questions
    places = zip(questions.batch_index, questions.positions, strict=True)
    groups = np.array([names.index(of_place[place]) for place in places])
    others = [f"{len(names) - 20} other sources"] if len(names) > 20 else []
    return [*names[:20], *others], np.minimum(groups, 20)


def calibration(asked: Asked) -> list[dict]:
    confidence, is_right = asked.probabilities.max(1), asked.best[:, 0] == asked.labels
    found = []
    for low in range(10):
        inside = (confidence >= low / 10) & (confidence < (low + 1) / 10 + (low == 9))
        if inside.any():
            found.append(
                {
                    "from": low / 10,
                    "to": (low + 1) / 10,
                    "num_questions": int(inside.sum()),
                    "confidence": confidence[inside].mean(),
                    "accuracy": is_right[inside].mean(),
                }
            )
    return found


def calibration_error(asked: Asked) -> float:
    bins = calibration(asked)
    gaps = [bin_["num_questions"] * abs(bin_["confidence"] - bin_["accuracy"]) for bin_ in bins]
    return sum(gaps) / len(asked.labels)


def confidence_curve(asked: Asked) -> list[dict]:
    """What `classification.json` holds."""
    confidence, is_right = asked.probabilities.max(1), asked.best[:, 0] == asked.labels
    return [
        {
            "confidenceThreshold": threshold / 10,
            "recall": (is_right & (confidence >= threshold / 10)).sum() / is_right.sum(),
            "falsePositiveRate": (~is_right & (confidence >= threshold / 10)).sum()
            / (~is_right).sum(),
        }
        for threshold in range(9, -1, -1)
    ]


def mistakes(asked: Asked) -> list[dict]:
    confidence, is_right = asked.probabilities.max(1), asked.best[:, 0] == asked.labels
    wrong = np.flatnonzero(~is_right)
    worst = wrong[np.argsort(-confidence[wrong], kind="stable")][:12]
    return [
        {
            **context(asked, n),
            "true_token": asked.word(asked.labels[n]),
            "true_probability": asked.probabilities[n, asked.labels[n]],
            "answer": asked.word(asked.best[n, 0]),
            "probability": confidence[n],
        }
        for n in worst
    ]


def context(asked: Asked, n: int) -> dict[str, str]:
    """What the model was shown around a question, 16 tokens on each side."""
    row = asked.questions.input_ids[asked.questions.batch_index[n]]
    position = int(asked.questions.positions[n])
    shown = [
        " ___" if i == 4 else "" if i < SPECIAL else asked.pieces[i].replace("▁", " ") for i in row
    ]
    return {
        "shown": shown[position].strip(),
        "before": "".join(shown[max(0, position - 16) : position]),
        "after": "".join(shown[position + 1 : position + 17]),
    }


@functools.cache
def one_by_one(asked: Asked) -> dict:
    """Every token of 1024 / T rows, evenly spaced over the first shard, asked for alone."""
    in_first = asked.shards.manifest.splits["validation"].files[0].counts["num_examples"]
    count = min(in_first, 1024 // asked.rows.shape[1])
    nats, num_bytes, num_questions = 0.0, 0, 0
    for row in asked.rows[np.arange(count) * in_first // count]:
        places = np.flatnonzero(row >= SPECIAL)
        copies = np.repeat(row[None], len(places), axis=0)
        copies[np.arange(len(places)), places] = 4
        logits = asked.raw_logits(copies)[np.arange(len(places)), places]
        nats -= np.log(softmax(logits)[np.arange(len(places)), row[places]]).sum()
        num_bytes += sum(len(asked.pieces[i].replace("▁", " ").encode()) for i in row[places])
        num_questions += len(places)
    return {
        "num_examples": count,
        "num_questions": num_questions,
        "bits_per_byte": nats / math.log(2) / num_bytes,
    }


def neighbours(asked: Asked) -> list[dict]:
    """The 12 most frequent long words, each with 5 tokens seen 5 times or more, by cosine."""
    vectors = asked.model.network.get_input_embeddings().weight.numpy().astype(np.float64)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    by_frequency = np.argsort(-asked.counts, kind="stable")
    seen = [int(i) for i in by_frequency if asked.counts[i] >= 5]
    words = [i for i in seen if len(asked.pieces[i]) > 4 and asked.pieces[i][0] == "▁"]
    words = [i for i in words if asked.pieces[i][1:].isalpha()][:12]
    found = []
    for word in words:
        others = sorted((i for i in seen if i != word), key=lambda i: -(units[i] @ units[word]))
        near = [
            {"token": asked.word(i), "cosine": float(units[i] @ units[word])} for i in others[:5]
        ]
        found.append({"word": asked.word(word), "neighbours": near})
    return found


def num_tokens(asked: Asked, text: str) -> int:
    return len(asked.model.tokenizer(text)["input_ids"])


def answers(asked: Asked, text: str, top_k: int = 5) -> list[dict]:
    """The likeliest tokens that there are for each mask of a text."""
    spelled = text.replace("[MASK]", "<mask>")
    ids = np.array(asked.model.tokenizer(spelled)["input_ids"], np.int32)
    probabilities = softmax(asked.raw_logits(ids[None])[0])
    return [
        {"mask": mask, "token": asked.word(token), "probability": probabilities[place, token]}
        for mask, place in enumerate(np.flatnonzero(ids == 4))
        for token in np.argsort(-probabilities[place, : len(asked.pieces)], kind="stable")[:top_k]
    ]


def leaves(value: object, path: str = "") -> dict[str, object]:
    """Every number and word of JSON-like data by where it stands."""
    if isinstance(value, dict) and value:
        parts = [leaves(v, f"{path}/{k}") for k, v in value.items()]
    elif isinstance(value, list | tuple) and len(value):
        parts = [leaves(v, f"{path}/{k}") for k, v in enumerate(value)]
    else:
        return {path: value}
    return {k: v for part in parts for k, v in part.items()}


def read(folder: Path, name: str) -> dict:
    return json.loads((folder / name).read_text())
