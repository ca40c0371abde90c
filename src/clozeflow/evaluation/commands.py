"""The commands that use a model: predict, embed, serving. Each says what to print.

Nothing heavy is imported here: the command line reads these classes for its flags.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping

import tyro

from clozeflow.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predict:
    """Answers texts with `<mask>` or `[MASK]` in them."""

    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    """Texts with one or more masks each."""
    model: str
    """Folder of the model: ours, or any that transformers opens."""
    file: str = ""
    """Instead of texts: a file of them (.txt, .jsonl, .parquet), local or `gs://`."""
    output: str = ""
    """For a file's rows with their answers (.jsonl, .parquet); without it they are printed."""
    text_field: str = "text"
    """The field of a file's rows that holds the text; the others are kept."""
    top_k: int = 5
    """Answers to each mask."""
    targets: tuple[str, ...] = ()
    """Words to choose from; none for the whole vocabulary."""

    def lines(self) -> Iterator[str]:
        """Answers, and prints them or writes them to the output."""
        self._check_given()
        if self.file:
            texts = _check_early(self.file, self.output, self.text_field)
        else:
            texts = {f"text {number}": text for number, text in enumerate(self.texts, 1)}
        _check_masks_early(self.model, texts)
        yield from self._file_lines() if self.file else self._text_lines()

    def _check_given(self) -> None:
        if not self.texts and not self.file:
            raise UserError(
                "predict",
                "is given nothing to answer",
                fix="Give texts with a mask in each, or a file of them with --file.",
            )
        if self.texts and self.file:
            raise UserError(
                "predict",
                "is given texts and a file",
                got=f"{', '.join(map(repr, self.texts[:3]))}; --file {self.file}",
                fix="Leave out the one or the other.",
            )

    def _text_lines(self) -> Iterator[str]:
        from clozeflow.evaluation.files import say_what_was_cut
        from clozeflow.evaluation.predict import FillMask

        fill_mask = FillMask(self.model)
        found = fill_mask(self.texts, top_k=self.top_k, targets=self.targets)
        for text, answers in zip(self.texts, found, strict=True):
            yield text
            num_masks = answers[-1].mask + 1
            for answer in answers:
                mask = f"mask {answer.mask + 1}: " if num_masks > 1 else ""
                yield f"  {answer.probability:6.1%}  {mask}{answer.token}"
        if said := say_what_was_cut(self.texts, found):
            yield said

    def _file_lines(self) -> Iterator[str]:
        from clozeflow.evaluation.files import answering, work_on
        from clozeflow.evaluation.predict import FillMask
        from clozeflow.evaluation.rows import write_rows

        work = answering(
            FillMask(self.model),
            text_field=self.text_field,
            top_k=self.top_k,
            targets=self.targets,
        )
        batches = work_on(self.file, work)
        if self.output:
            yield f"{self.output}: {write_rows(self.output, batches):,} rows"
            return
        for batch in batches:
            for row in batch:
                yield json.dumps(row, ensure_ascii=False, default=str)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Embed:
    """Turns the texts of a file into vectors: mean-pooled last hidden states."""

    model: str
    """Folder of the model: ours, or any that transformers opens."""
    file: str
    """The texts (.txt, .jsonl, .parquet), local or `gs://`."""
    output: str
    """For the rows with their field `vector` (.jsonl, .parquet)."""
    text_field: str = "text"
    """The field of a file's rows that holds the text; the others are kept."""

    def lines(self) -> Iterator[str]:
        """Embeds, and says how many."""
        _check_early(self.file, self.output, self.text_field)
        from clozeflow.evaluation.embed import Embedder
        from clozeflow.evaluation.files import embedding, work_on
        from clozeflow.evaluation.rows import write_rows

        embedder = Embedder(self.model)
        rows = work_on(self.file, embedding(embedder, text_field=self.text_field))
        count = write_rows(self.output, rows)
        yield f"{self.output}: {count:,} rows with vectors of {embedder.hidden_size}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Serving:
    """Writes a SavedModel that fills masks, for TensorFlow Serving."""

    model: str
    """Folder of the model: ours, or any that transformers opens."""
    output: str
    """Folder for the SavedModel: new or empty, local or `gs://`."""
    top_k: int = 10
    """Answers to each mask."""

    def lines(self) -> Iterator[str]:
        """Exports, and says how to look at the result."""
        from clozeflow.evaluation.models import open_model
        from clozeflow.evaluation.serving import save_for_serving

        save_for_serving(open_model(self.model), self.output, top_k=self.top_k)
        yield f"{self.output}: SavedModel; `saved_model_cli show --dir {self.output} --all`"


def _check_early(file: str, output: str, text_field: str) -> dict[str, str]:
    """The first text, by its place, read before a model is opened; so is the output's kind."""
    from clozeflow.evaluation.rows import OUTPUT_FORMATS, format_of, read_rows

    if output:
        format_of(output, allowed=OUTPUT_FORMATS)
    place, row = next(read_rows(file, text_field=text_field))
    return {place: row[text_field]}


def _check_masks_early(model: str, texts: Mapping[str, str]) -> None:
    """Refuses texts without a mask, by their places, before a model is opened.

    Where the model's folder does not say what its mask is, only opening it will tell.
    """
    from clozeflow.evaluation.masks import spell_masks
    from clozeflow.tokenizer import loading

    if mask := loading.mask_token(model):
        for place, text in texts.items():
            spell_masks(text, mask, where=place)
