"""Tokenizers that others made: opened, checked for what masking needs, written in our form."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Tokenizer, processors

from clozeflow import storage
from clozeflow.artifacts import InputRef
from clozeflow.errors import UserError
from clozeflow.tokenizer.special import SPECIAL_ROLES, SpecialIds

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def open_pretrained(name: str, *, flag: str) -> PreTrainedTokenizerFast:
    """A tokenizer from a folder (local or `gs://`), or from the Hub as `NAME` or `NAME@REVISION`.

    Raises:
        UserError: There is none, it cannot be reached, or it is no fast tokenizer.
    """
    try:
        found = _from_pretrained(name)
    except UserError:
        raise
    except Exception as error:  # each library below raises its own
        raise UserError(
            f"{flag} {name}",
            f"cannot be opened as a tokenizer: {_first_words(error)}",
            fix="Give a folder with a tokenizer.json, or a name on the Hub (that needs a network).",
        ) from None
    if not found.is_fast:
        raise UserError(
            f"{flag} {name}",
            "has no fast tokenizer, which the shard stage needs",
            got=type(found).__name__,
            fix="Convert it with transformers first: save what AutoTokenizer(use_fast=True) gives.",
        )
    return found


def _first_words(error: Exception) -> str:
    """Libraries list all that they know: the first line is enough, and its first 200 characters."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line.rstrip(".") if len(line) <= 200 else f"{line[:200]}…"


def _from_pretrained(name: str) -> PreTrainedTokenizerFast:
    if not storage.is_remote(name) and (Path(name).exists() or name.startswith(("/", "."))):
        _check_folder(name)
    from transformers import AutoTokenizer

    if storage.is_remote(name):
        with storage.local_folder(name) as folder:
            return AutoTokenizer.from_pretrained(str(folder))
    if Path(name).is_dir():
        return AutoTokenizer.from_pretrained(name)
    where, _, revision = name.partition("@")
    return AutoTokenizer.from_pretrained(where, revision=revision or "main")


def _check_folder(name: str) -> None:
    """Says at once what transformers would say at length."""
    files = {path.name for path in Path(name).iterdir()} if Path(name).is_dir() else set()
    if not any("tokenizer" in file or "vocab" in file or "spiece" in file for file in files):
        raise UserError(
            name,
            "is no folder of a tokenizer",
            got=", ".join(sorted(files)[:5]) or "no folder, or an empty one",
            expected="tokenizer.json, or a vocabulary that transformers can convert",
            fix="Give a folder that save_pretrained wrote, or a name on the Hub.",
        )


def source_ref(name: str, *, role: str) -> InputRef:
    """The tokenizer as an input: a hash of what it does, wherever it was."""
    tokenizer = open_pretrained(name, flag=f"--{role.replace('_', '-')}")
    content = tokenizer.backend_tokenizer.to_str() + json.dumps(
        {key: str(value) for key, value in tokenizer.special_tokens_map.items()}, sort_keys=True
    )
    digest = hashlib.sha256(content.encode()).hexdigest()
    return InputRef(name=role, type="tokenizer", fingerprint=f"sha256:{digest}", uri=name)


def special_ids(tokenizer: PreTrainedTokenizerFast, *, where: str) -> SpecialIds:
    """The ids of its special tokens.

    Raises:
        UserError: One that masking needs is missing.
    """
    vocab: dict[str, int] = tokenizer.get_vocab()
    ids: dict[str, int | None] = {}
    for role, names in SPECIAL_ROLES.items():
        texts = (getattr(tokenizer, name) for name in names)
        ids[role] = next((vocab.get(text) for text in texts if text), None)
    missing = [role for role, token_id in ids.items() if token_id is None]
    if missing or len(set(ids.values())) < len(ids):
        raise UserError(
            where,
            "has not what masking needs",
            got=", ".join(f"{role} {token_id}" for role, token_id in ids.items()),
            expected="five different tokens: bos or cls, pad, eos or sep, unk, mask",
            fix="Choose a tokenizer of a masked language model, or train one.",
        )
    return SpecialIds(**{role: token_id for role, token_id in ids.items() if token_id is not None})


def adopt(name: str, *, model_max_length: int) -> PreTrainedTokenizerFast:
    """The tokenizer with its own ids, as transformers' plain fast class.

    What its class did besides (some lower-case, some add a space) is in its `tokenizer.json`
    already; the plain class adds nothing, in transformers 4 and 5 alike. Nothing is padded or cut,
    and encoding puts `<s>` and `</s>`, or what it calls them, around a text.
    """
    from transformers import PreTrainedTokenizerFast

    where = f"--from-pretrained {name}"
    found = open_pretrained(name, flag="--from-pretrained")
    ids = special_ids(found, where=where)
    bos, eos = (str(found.convert_ids_to_tokens(i)) for i in (ids.bos, ids.eos))
    backend = _backend(found, ids, bos, eos)
    adopted = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        **{role: getattr(found, role) for role in ("pad_token", "unk_token")},
        bos_token=bos,
        eos_token=eos,
        cls_token=bos,
        sep_token=eos,
        mask_token=_mask_token(found, ids),
        model_max_length=model_max_length,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        padding_side="right",
        truncation_side="right",
    )
    _check_texts(adopted, ids, where)
    return adopted


def _backend(found: PreTrainedTokenizerFast, ids: SpecialIds, bos: str, eos: str) -> Tokenizer:
    """Its `tokenizers` part, which neither pads nor cuts, and puts bos and eos around a text."""
    backend = _unreachable(found.backend_tokenizer, ids)
    backend.no_padding()
    backend.no_truncation()
    if backend.encode("").ids != [ids.bos, ids.eos]:
        backend.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A {eos}",
            pair=f"{bos} $A {eos} {eos} $B {eos}",
            special_tokens=[(bos, ids.bos), (eos, ids.eos)],
        )
    return backend


def _mask_token(found: PreTrainedTokenizerFast, ids: SpecialIds) -> AddedToken:
    """Its mask token, as it treats the spaces around it."""
    return found.added_tokens_decoder[ids.mask]


def _unreachable(backend: Tokenizer, ids: SpecialIds) -> Tokenizer:
    """A Unigram looks for its special tokens in the text too: they get a score that forbids it."""
    definition: dict[str, Any] = json.loads(backend.to_str())
    if definition["model"]["type"] != "Unigram":
        return backend
    vocab = definition["model"]["vocab"]
    special = [i for i in ids.all() if i < len(vocab)]
    lowest = min(score for _, score in vocab)
    for i in special:
        vocab[i][1] = 2 * len(vocab[i][0]) * min(lowest, -1.0)
    return Tokenizer.from_str(json.dumps(definition, ensure_ascii=False))


def _check_texts(adopted: PreTrainedTokenizerFast, ids: SpecialIds, where: str) -> None:
    """Refuses a tokenizer for which the text of a special token cannot be ordinary text."""
    backend = Tokenizer.from_str(adopted.backend_tokenizer.to_str())
    backend.encode_special_tokens = True
    forbidden = set(ids.all()) - {ids.unk}
    for text in adopted.convert_ids_to_tokens(sorted(forbidden)):
        if forbidden & set(backend.encode(f"a {text} b", add_special_tokens=False).ids):
            raise UserError(
                where,
                f"reads the text {text!r} in a document as a special token",
                fix="Choose another tokenizer, or train one.",
            )
