"""The evaluation's report: a page made from `evaluation.json` and the training log alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clozeflow.evaluation.gate import FIGURES
from clozeflow.report import Report, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_POINTS = 2000
"""Of a curve: a picture is a thousand pixels wide."""


def build_page(results: Mapping[str, Any], curve: Sequence[Mapping[str, Any]]) -> Report:
    """The whole report.

    Args:
        results: The content of `evaluation.json`.
        curve: The lines of `training.jsonl`, with `step`, `loss` and perhaps `masked_accuracy`.
    """
    page = Report("Evaluation of a masked language model")
    page.text(_summary(results))
    _add_verdict(page, results)
    _add_curves(page, results, curve)
    page.heading("Figures")
    page.table(("figure", "value", "what it is"), _figure_rows(results))
    page.text(_about_questions(results))
    _add_prompts(page, results["prompts"])
    return page


def _summary(results: Mapping[str, Any]) -> str:
    figures = results["figures"]
    ratio = figures.get("accuracy_ratio")
    times = f": {ratio:.1f} times as much" if ratio else ""
    return (
        f"The model restores {figures['masked_accuracy']:.1%} of the masked tokens of the "
        f"{results['split']} split; always answering the most frequent token, "
        f"“{results['most_frequent_token']}”, restores "
        f"{figures['most_frequent_token_accuracy']:.1%}{times}."
    )


def _add_verdict(page: Report, results: Mapping[str, Any]) -> None:
    page.heading("Blessed" if results["blessed"] else "Not blessed")
    for reason in results["reasons"]:
        page.text(reason)


def _figure_rows(results: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for name, meaning in FIGURES.items():
        if name in results["figures"]:
            yield name, results["figures"][name], meaning


def _about_questions(results: Mapping[str, Any]) -> str:
    return (
        f"{results['num_questions']:,} questions in {results['num_examples']:,} examples of the "
        f"{results['split']} split: {results['masking_rate']:.0%} of each example's tokens, chosen "
        f"by seed {results['seed']}, each replaced by the mask token. The guesses were counted on "
        f"{results['guesses_counted_tokens']:,} tokens of the {results['guesses_counted_on']} "
        f"split."
    )


def _add_curves(
    page: Report, results: Mapping[str, Any], curve: Sequence[Mapping[str, Any]]
) -> None:
    page.heading("Training")
    if not curve:
        page.text("The model brings no training.jsonl: there is no curve to show.")
        return
    thinned = curve[:: -(-len(curve) // _MAX_POINTS)]
    page.figure(
        _curve_figure(thinned, "loss", results, against="unigram_loss"),
        "Loss on the training batches, the loss here, and that of a model that knows only how "
        "frequent each token is.",
    )
    page.figure(
        _curve_figure(thinned, "masked_accuracy", results, against="most_frequent_token_accuracy"),
        "Masked accuracy on the training batches (where a tenth of the questions shows the true "
        "token), the accuracy here, and that of always answering the most frequent token.",
    )


def _curve_figure(
    curve: Sequence[Mapping[str, Any]], name: str, results: Mapping[str, Any], *, against: str
) -> Figure:
    figure = new_figure()
    axes = figure.add_subplot()
    points = [(line["step"], line[name]) for line in curve if name in line]
    axes.plot(*zip(*points, strict=True), color="#2463b3", label="training") if points else None
    value, guess = results["figures"][name], results["figures"][against]
    axes.axhline(value, color="#1a7f37", linestyle="--", label=f"{results['split']}: {value:.3g}")
    axes.axhline(guess, color="#b35900", linestyle=":", label=f"guess: {guess:.3g}")
    axes.set_xlabel("step")
    axes.set_ylabel(name.replace("_", " "))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _add_prompts(page: Report, prompts: Sequence[Mapping[str, Any]]) -> None:
    page.heading("Answers")
    if not prompts:
        page.text("No prompt was given, and the split holds no text to make one from.")
    for prompt in prompts:
        page.quote(prompt["text"])
        if prompt["true_word"]:
            page.text(f"It was: {prompt['true_word']}")
        page.table(
            ("mask", "answer", "probability"),
            [
                (str(answer["mask"] + 1), answer["token"], f"{answer['probability']:.1%}")
                for answer in prompt["answers"]
            ],
        )
