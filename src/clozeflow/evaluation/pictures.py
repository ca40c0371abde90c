"""The pictures of the evaluation's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clozeflow.report import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_POINTS = 2000
"""Of a curve: a picture is a thousand pixels wide."""
BLUE, GREEN, ORANGE, GREY = "#2463b3", "#1a7f37", "#b35900", "#888888"


def curve(
    lines: Sequence[Mapping[str, Any]], name: str, results: Mapping[str, Any], *, against: str
) -> Figure:
    """A figure over the steps of training, beside the evaluated one and a guess's.

    Args:
        lines: Of the training log, with `step`; those without `name` are left out.
        name: The figure, as the log and the evaluation call it.
        results: The evaluation.
        against: The guess's figure, as the evaluation calls it.
    """
    figure, axes = _axes()
    points = [(line["step"], line[name]) for line in lines if name in line]
    thinned = points[:: max(1, len(points) // MAX_POINTS)]
    if thinned:
        axes.plot(*zip(*thinned, strict=True), color=BLUE, label="training")
    value, guess = results["figures"][name], results["figures"][against]
    axes.axhline(value, color=GREEN, linestyle="--", label=f"{results['split']}: {value:.3g}")
    axes.axhline(guess, color=ORANGE, linestyle=":", label=f"guess: {guess:.3g}")
    axes.set_xlabel("step")
    axes.set_ylabel(name.replace("_", " "))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def calibration(bins: Sequence[Mapping[str, Any]]) -> Figure:
    """Accuracy against confidence, a dot for each bin of `Calibration.bins`."""
    figure, axes = _axes(width=5, height=4.2)
    most = max((bin_["num_questions"] for bin_ in bins), default=1)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    axes.scatter(
        [bin_["confidence"] for bin_ in bins],
        [bin_["accuracy"] for bin_ in bins],
        s=[20 + 180 * bin_["num_questions"] / most for bin_ in bins],
        color=BLUE,
        alpha=0.8,
        clip_on=False,  # a bin whose answers are all right is on the edge
    )
    axes.set_xlabel("confidence")
    axes.set_ylabel("accuracy")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    return figure


def _axes(**size: float) -> tuple[Figure, Axes]:
    figure = new_figure(**size)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
