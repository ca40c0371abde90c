"""The evaluation's report: a page made from `evaluation.json` and the training log alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clozeflow.evaluation import pictures
from clozeflow.evaluation.config import Shown
from clozeflow.evaluation.gate import FIGURES, GUESSES
from clozeflow.evaluation.slicing import BY_SOURCE
from clozeflow.report import Report, format_number

_SHOWN = {
    Shown.TRAINING: "As in training, the model was shown the mask in the place of 80 % of them, "
    "another token for 10 %, and the token itself for 10 %: the slices below tell these apart.",
    Shown.MASK: "The model was shown the mask in the place of each of them.",
}

Results = Mapping[str, Any]
Curve = Sequence[Mapping[str, Any]]


def build_page(results: Results, curve: Curve) -> Report:
    """The whole report.

    Args:
        results: The content of `evaluation.json`.
        curve: The lines of `training.jsonl`, with `step`, `loss` and perhaps `masked_accuracy`.
    """
    page = Report("Evaluation of a masked language model")
    page.text(_summary(results))
    _add_verdict(page, results)
    _add_curves(page, results, curve)
    _add_figures(page, results)
    _add_baseline(page, results["baseline"])
    _add_prompts(page, results["prompts"])
    _add_slices(page, results["slices"])
    _add_calibration(page, results)
    _add_mistakes(page, results["mistakes"])
    _add_neighbours(page, results["neighbours"])
    return page


def build_summary(results: Results) -> str:
    """The verdict and the figures in Markdown, for KFP's page of a task."""
    figures, intervals = results["figures"], results["intervals"]
    rows = [
        f"| {name} | {format_number(figures[name])} | {_interval(intervals.get(name))} |"
        for name in FIGURES
        if name in figures
    ]
    return "\n".join(
        (
            f"# {'Blessed' if results['blessed'] else 'Not blessed'}",
            "",
            *(f"- {reason}" for reason in results["reasons"]),
            "",
            _summary(results),
            "",
            "| figure | value | 95 % interval |",
            "|---|---|---|",
            *rows,
            "",
        )
    )


def _summary(results: Results) -> str:
    figures = results["figures"]
    ratio = figures.get("accuracy_ratio")
    times = f": {ratio:.1f} times as much" if ratio else ""
    return (
        f"The model restores {figures['masked_accuracy']:.1%} of the masked tokens of the "
        f"{results['split']} split; always answering the most frequent token, "
        f"“{results['most_frequent_token']}”, restores "
        f"{figures['most_frequent_token_accuracy']:.1%}{times}."
    )


def _add_verdict(page: Report, results: Results) -> None:
    page.heading("Blessed" if results["blessed"] else "Not blessed")
    for reason in results["reasons"]:
        page.text(reason)


def _add_curves(page: Report, results: Results, curve: Curve) -> None:
    page.heading("Training")
    if not curve:
        page.text("The model brings no training.jsonl: there is no curve to show.")
        return
    page.figure(
        pictures.curve(curve, "loss", results, against="unigram_loss"),
        "Loss on the training batches, the loss here, and that of a model that knows only how "
        "frequent each token is.",
    )
    page.figure(
        pictures.curve(curve, "masked_accuracy", results, against="most_frequent_token_accuracy"),
        "Masked accuracy on the training batches, the accuracy here, and that of always answering "
        "the most frequent token.",
    )


def _add_figures(page: Report, results: Results) -> None:
    figures, intervals = results["figures"], results["intervals"]
    page.heading("Figures")
    page.table(
        ("figure", "value", "95 % interval", "what it is"),
        [
            (name, figures[name], _interval(intervals.get(name)), FIGURES[name])
            for name in FIGURES
            if name in figures
        ],
    )
    page.text(_about_questions(results))


def _about_questions(results: Results) -> str:
    return (
        f"{results['num_questions']:,} questions in {results['num_examples']:,} examples of the "
        f"{results['split']} split: {results['masking_rate']:.0%} of each example's tokens, chosen "
        f"by seed {results['seed']}. {_SHOWN[results['shown']]} The guesses were counted on "
        f"{results['guesses_counted_tokens']:,} tokens of the {results['guesses_counted_on']} "
        f"split. Intervals are of resampled examples. For pseudo_bits_per_byte "
        f"{results['pseudo_likelihood']['num_questions']:,} tokens of "
        f"{results['pseudo_likelihood']['num_examples']:,} examples were asked for, one at a time."
    )


def _interval(bounds: Sequence[float] | None) -> str:
    return " to ".join(format_number(bound) for bound in bounds) if bounds else ""


def _add_baseline(page: Report, baseline: Results) -> None:
    if not baseline:
        return
    page.heading("Against the baseline model")
    page.table(
        ("figure", "baseline", "difference", "95 % interval of the difference"),
        [
            (
                name,
                baseline["figures"][name],
                difference,
                _interval(baseline["difference_intervals"].get(name)),
            )
            for name, difference in baseline["differences"].items()
            if name not in GUESSES
        ],
    )
    page.text(
        "Both models were asked the same questions, and both are resampled alike: an interval "
        "that holds no 0 is a difference that other texts of the kind would show too."
    )


def _add_prompts(page: Report, prompts: Sequence[Results]) -> None:
    page.heading("Answers")
    if not prompts:
        page.text("No prompt was given, and the split holds no text to make one from.")
    for prompt in prompts:
        page.quote(prompt["text"])
        if prompt["true_word"]:
            page.text(f"It was: {prompt['true_word']}")
        page.table(("mask", "answer", "probability"), _answer_rows(prompt["answers"]))


def _answer_rows(answers: Sequence[Results]) -> Iterator[tuple[object, ...]]:
    for answer in answers:
        yield answer["mask"] + 1, answer["token"], f"{answer['probability']:.1%}"


def _add_slices(page: Report, slices: Sequence[Results]) -> None:
    page.heading("Slices")
    if not any(slicing["name"] == BY_SOURCE for slicing in slices):
        page.text(
            "There is no slice by source: these shards do not tell where a token comes from. Those "
            "that `clozeflow shard` makes do, outside the train split; adopted ones do not."
        )
    for slicing in slices:
        page.table(
            (slicing["name"], "questions", "loss", "masked accuracy", "top 5", "unigram loss"),
            [
                (
                    group["group"],
                    group["num_questions"],
                    group["loss"],
                    f"{group['masked_accuracy']:.1%}",
                    f"{group['masked_accuracy_top5']:.1%}",
                    group["unigram_loss"],
                )
                for group in slicing["groups"]
            ],
        )


def _add_calibration(page: Report, results: Results) -> None:
    page.heading("Calibration")
    page.figure(
        pictures.calibration(results["calibration"]),
        "How often first answers are right, by the model's confidence in them; on the line, "
        "confidence is deserved. Larger dots stand for more questions.",
    )


def _add_mistakes(page: Report, mistakes: Sequence[Results]) -> None:
    page.heading("Worst mistakes")
    page.text(
        "Wrong answers that the model was surest of, in their context, with what it was shown in "
        "the place of the word; ___ is a mask."
    )
    page.table(
        ("text", "shown", "it was", "answer"),
        [
            (
                f"…{mistake['before']} [?]{mistake['after']}…",
                mistake["shown"],
                f"{mistake['true_token']} ({mistake['true_probability']:.1%})",
                f"{mistake['answer']} ({mistake['probability']:.1%})",
            )
            for mistake in mistakes
        ],
    )


def _add_neighbours(page: Report, words: Sequence[Results]) -> None:
    page.heading("Nearest neighbours")
    page.text("Frequent words, and the tokens whose embeddings point the same way (cosine).")
    page.table(
        ("word", "neighbours"),
        [
            (
                word["word"],
                ", ".join(f"{n['token']} ({n['cosine']:.2f})" for n in word["neighbours"]),
            )
            for word in words
        ],
    )
