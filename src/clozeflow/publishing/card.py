"""The model card, made from manifests: nobody has to remember what a model is made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from clozeflow import storage
from clozeflow.artifacts import Artifact, ArtifactType, InputRef, Manifest
from clozeflow.evaluation.gate import FIGURES
from clozeflow.publishing.chain import ancestors, public_name
from clozeflow.publishing.config import PublishConfig
from clozeflow.report import format_number

TRAINING_LOG, CURVE = "training.jsonl", "plots/loss.png"
_FLOPS_PER_PARAMETER_AND_TOKEN = 6
"""Forward and backward pass of a transformer (Kaplan and others, 2020), attention left out."""
_CORPUS_FACTS = ("num_documents", "num_words", "text_bytes", "num_duplicates")
_TOKENIZER_FACTS = ("algorithm", "vocab_size", "tokens_per_word", "unknown_rate")
_MAX_SOURCES = 50

Facts = Iterable[tuple[str, object]]


def make_card(config: PublishConfig, model: Artifact, evaluation: Artifact, *, name: str) -> str:
    """The card, as the Hub's `README.md`.

    Args:
        config: For the licence and the price.
        model: The model.
        evaluation: Its evaluation.
        name: The model's name: what `from_pretrained` is given.
    """
    made_of = ancestors(model.manifest)
    parts = [
        _front_matter(config.license),
        f"# {name}",
        _summary(model.manifest, evaluation.manifest),
        _use(name),
        _intended_use(model.manifest),
        _figures(evaluation.manifest),
        _curve(model.manifest),
        _data(made_of),
        _section("Tokenizer", _facts_of(made_of, ArtifactType.TOKENIZER, _TOKENIZER_FACTS)),
        _section("Training", [(f"`{k}`", v) for k, v in model.manifest.shaping_config.items()]),
        _section("Cost and time", _costs(model, config.usd_per_hour)),
        _licence(config.license),
        _provenance(model.manifest, evaluation.manifest, made_of),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(license_name: str) -> str:
    chosen = (
        f"license: {json.dumps(license_name)}"
        if license_name
        else "# license: to be filled in, for example apache-2.0"
    )
    lines = ["---", chosen, "library_name: transformers", "pipeline_tag: fill-mask"]
    return "\n".join([*lines, "tags:", "- fill-mask", "- clozeflow", "---"])


def _summary(model: Manifest, evaluation: Manifest) -> str:
    size = f"{model.properties['num_parameters']:,} parameters" if _has_size(model) else "weights"
    verdict = evaluation.properties.get("verdict", "")
    blessed = "Blessed" if evaluation.parameters.get("blessed") else "Not blessed"
    return (
        f"A masked language model (RoBERTa, {size}), pretrained from scratch by clozeflow.\n\n"
        f"{blessed}: {verdict}."
    )


def _has_size(model: Manifest) -> bool:
    return "num_parameters" in model.properties


def _use(name: str) -> str:
    return (
        "## Use\n\n```python\n"
        "from transformers import pipeline\n\n"
        f'fill_mask = pipeline("fill-mask", model="{name}")\n'
        'for answer in fill_mask("One word of this is <mask>."):\n'
        '    print(answer["token_str"], answer["score"])\n'
        "```\n\n"
        "With TensorFlow and without torch: `clozeflow predict --model FOLDER TEXT`."
    )


def _intended_use(model: Manifest) -> str:
    longest = model.properties.get("seq_len", "a limited number of")
    return (
        "## Intended use\n\n"
        "To fill masks, and as an encoder to be fine-tuned (classification, tagging, retrieval) "
        "on text of the kind that it was trained on.\n\n"
        "## Limits\n\n"
        f"- It reads at most {longest} tokens at once.\n"
        "- It knows the data named below and nothing else: their language, their time, their "
        "views and prejudices.\n"
        "- It fills in what is likely, which need not be true; it is no generator of text.\n"
        "- The figures below are of held-out text of the same source; other text is harder."
    )


def _figures(evaluation: Manifest) -> str:
    found = evaluation.metrics
    rows = [(f"`{n}`", format_number(found[n]), what) for n, what in FIGURES.items() if n in found]
    asked = (
        f"{evaluation.properties.get('num_questions', 0):,} masked tokens of the "
        f"{evaluation.properties.get('split', 'held-out')} split; intervals, slices and answers "
        "are in `evaluation/report.html`."
    )
    return f"## Figures\n\n{_table(('figure', 'value', 'what it is'), rows)}\n\n{asked}"


def _curve(model: Manifest) -> str:
    if CURVE not in {file.path for file in model.files}:
        return ""
    return f"![loss and masked accuracy over the steps of training]({CURVE})"


def _data(made_of: Sequence[tuple[InputRef, Manifest | None]]) -> str:
    sources = [
        (ref.name, public_name(ref), f"`{ref.fingerprint[:19]}`")
        for ref, _ in made_of
        if ref.type not in set(ArtifactType)
    ]
    facts = _facts_of(made_of, ArtifactType.CORPUS, _CORPUS_FACTS)
    if not sources:
        return "## Data\n\nThe corpus is no longer where it was; its fingerprint is below."
    more = f"\n\nand {len(sources) - _MAX_SOURCES:,} more" if len(sources) > _MAX_SOURCES else ""
    header = ("source", "what, with its revision", "hash of its content")
    return f"{_section('Data', facts)}\n\n{_table(header, sources[:_MAX_SOURCES])}{more}"


def _facts_of(
    made_of: Sequence[tuple[InputRef, Manifest | None]], kind: ArtifactType, names: Iterable[str]
) -> list[tuple[str, object]]:
    """Facts of the ancestors of one type, or none where its manifest is gone."""
    return [
        (name.replace("_", " "), manifest.properties[name])
        for ref, manifest in made_of
        if ref.type == kind and manifest
        for name in names
        if name in manifest.properties
    ]


def _costs(model: Artifact, usd_per_hour: float) -> list[tuple[str, object]]:
    properties, metrics = model.manifest.properties, model.manifest.metrics
    seconds = _training_seconds(model)
    facts: dict[str, object] = {}
    if seconds:
        facts["hours of training, lost attempts left out"] = seconds / 3600
    if "tokens_per_second" in metrics:
        facts["tokens a second at the end"] = metrics["tokens_per_second"]
    if _has_size(model.manifest) and "num_train_tokens" in properties:
        work = properties["num_parameters"] * properties["num_train_tokens"]
        facts["floating-point operations, about"] = f"{_FLOPS_PER_PARAMETER_AND_TOKEN * work:.2g}"
    if seconds and usd_per_hour:
        facts["cost in USD"] = round(seconds / 3600 * usd_per_hour, 2)
    return list(facts.items())


def _training_seconds(model: Artifact) -> float:
    if TRAINING_LOG not in {file.path for file in model.manifest.files}:
        return 0.0
    lines = [line for line in storage.read_text(model.path(TRAINING_LOG)).split("\n") if line]
    return float(json.loads(lines[-1]).get("seconds", 0.0)) if lines else 0.0


def _licence(license_name: str) -> str:
    text = f"`{license_name}`." if license_name else "To be filled in: `--license`."
    return f"## Licence\n\n{text}"


def _provenance(
    model: Manifest, evaluation: Manifest, made_of: Sequence[tuple[InputRef, Manifest | None]]
) -> str:
    rows: list[tuple[object, ...]] = [
        ("model", f"`{model.fingerprint}`"),
        ("evaluation", f"`{evaluation.fingerprint}`"),
        *(
            (ref.name, f"`{ref.fingerprint}`")
            for ref, _ in made_of
            if ref.type in set(ArtifactType)
        ),
        ("clozeflow", model.clozeflow),
        ("code", f"`{model.code}`"),
    ]
    return (
        f"## Provenance\n\n{_table(('what', 'fingerprint'), rows)}\n\n"
        "`clozeflow verify FOLDER` compares every file with `manifest.json`."
    )


def _section(title: str, facts: Facts) -> str:
    rows = [(name, _shown(value)) for name, value in facts]
    return f"## {title}\n\n" + _table(("what", "value"), rows) if rows else ""


def _shown(value: object) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return format_number(value) if is_number else str(value)  # type: ignore[arg-type]


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(c) for c in line) + " |" for line in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
