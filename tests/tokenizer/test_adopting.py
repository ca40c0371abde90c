"""A tokenizer that others made: its ids stay, and what masking needs is checked."""

import json
from pathlib import Path

import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AutoTokenizer,
    BertTokenizerFast,
    PreTrainedTokenizerFast,
    RobertaTokenizerFast,
)

from clozeflow.errors import UserError
from clozeflow.tokenizer import loading
from clozeflow.tokenizer.special import SpecialIds
from clozeflow.verification import verify
from tests.tokenizer import fixtures


def _trained(model, trainer, pre_tokenizer) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(fixtures.speeches(), trainer)
    return tokenizer


def roberta(folder: Path) -> str:
    """RoBERTa's own kind, `<mask>` last as in roberta-base."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw = _trained(models.BPE(), trainer, pre_tokenizers.ByteLevel(add_prefix_space=False))
    raw.decoder = decoders.ByteLevel()
    raw.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    RobertaTokenizerFast(tokenizer_object=raw).save_pretrained(folder)
    return str(folder)


def bert(folder: Path) -> str:
    """BERT's own kind: lower case, padding id 0."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    raw = _trained(models.WordPiece(unk_token="[UNK]"), trainer, pre_tokenizers.BertPreTokenizer())
    raw.normalizer = normalizers.BertNormalizer()
    raw.decoder = decoders.WordPiece()
    raw.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    BertTokenizerFast(tokenizer_object=raw).save_pretrained(folder)
    return str(folder)


def unigram_with_reachable_specials(folder: Path) -> str:
    """As XLM-R's: a Unigram in which a special token scores better than its letters."""
    letters = sorted({c for text in fixtures.speeches() for c in text if c != " "} | set("</>▁"))
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(letter, -5.0) for letter in letters] + [("<mask>", 0.0)]
    raw = Tokenizer(models.Unigram(pieces, unk_id=3))
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=raw,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        mask_token="<mask>",
    ).save_pretrained(folder)
    return str(folder)


KINDS = {
    roberta: ("bpe", SpecialIds(mask=500)),
    bert: ("wordpiece", SpecialIds(bos=2, pad=0, eos=3, unk=1, mask=4)),
    unigram_with_reachable_specials: ("unigram", None),
}


@pytest.fixture(scope="module", params=list(KINDS), ids=lambda kind: kind.__name__)
def adopted(request, corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("adopted")
    original = request.param(folder / "original")
    artifact = fixtures.train(corpus, folder / "out", from_pretrained=original)
    return original, artifact, *KINDS[request.param]


def test_ids_are_the_original_ones(adopted):
    original, artifact, *_ = adopted
    ours, theirs = (AutoTokenizer.from_pretrained(f) for f in (artifact.uri, original))
    for text in (*fixtures.speeches()[:50], "a  <mask> b", "", "É 漢"):
        masked = text.replace("<mask>", theirs.mask_token)
        assert ours(masked).input_ids == theirs(masked).input_ids
    assert type(ours) is PreTrainedTokenizerFast
    assert len(ours) == len(theirs) == artifact.manifest.properties["vocab_size"]


def test_special_ids_are_its_own(adopted):
    _, artifact, algorithm, ids = adopted
    assert artifact.manifest.properties["algorithm"] == algorithm
    if ids:
        assert loading.special_ids(artifact.uri) == ids
        assert artifact.manifest.properties["mask_id"] == ids.mask


def test_special_texts_are_text(adopted):
    _, artifact, *_ = adopted
    tokenizer, special = loading.load(artifact.uri), loading.special_ids(artifact.uri)
    mask = tokenizer.id_to_token(special.mask)
    ids = tokenizer.encode(f"a {mask} b", add_special_tokens=False).ids
    assert not set(special.all()) - {special.unk} & set(ids)


def test_it_verifies_and_its_origin_is_an_input(adopted):
    original, artifact, *_ = adopted
    verify(artifact.uri)
    ref = artifact.manifest.input("from_pretrained")
    assert ref.uri == original
    assert ref.fingerprint.startswith("sha256:")


def test_another_padding_id_is_said(corpus, tmp_path):
    artifact = fixtures.train(corpus, tmp_path / "out", from_pretrained=bert(tmp_path / "bert"))
    quality = json.loads(Path(artifact.path("quality.json")).read_text())
    assert any("padding id is 0" in warning for warning in quality["warnings"])


def test_a_tokenizer_without_a_mask_is_refused(corpus, tmp_path):
    folder = tmp_path / "gpt"
    raw = Tokenizer(
        models.WordLevel({"a": 0, "<unk>": 1, "<s>": 2, "<pad>": 3, "</s>": 4}, "<unk>")
    )
    PreTrainedTokenizerFast(
        tokenizer_object=raw,
        unk_token="<unk>",
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
    ).save_pretrained(folder)
    with pytest.raises(UserError, match=r"not what masking needs.*mask None"):
        fixtures.train(corpus, tmp_path / "out", from_pretrained=str(folder))


@pytest.mark.parametrize("setting", ["from_pretrained", "baseline"])
def test_a_name_that_cannot_be_reached_is_one_clear_error(setting, corpus, tmp_path):
    flag = "--" + setting.replace("_", "-")
    with pytest.raises(UserError, match=f"{flag} nobody/nothing: cannot be opened"):
        fixtures.train(corpus, tmp_path / "out", **{setting: "nobody/nothing"})


def test_a_changed_original_is_another_input(corpus, tmp_path):
    original = roberta(tmp_path / "original")
    fixtures.train(corpus, tmp_path / "out", from_pretrained=original)
    file = Path(original, "tokenizer.json")
    definition = json.loads(file.read_text())
    definition["model"]["merges"].pop()
    file.write_text(json.dumps(definition))
    with pytest.raises(UserError, match="another from_pretrained"):
        fixtures.train(corpus, tmp_path / "out", from_pretrained=original)


def test_a_folder_without_a_tokenizer_is_said_in_a_line(corpus, tmp_path):
    (tmp_path / "model.bin").write_text("no tokenizer")
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError, match="is no folder of a tokenizer") as error:
            fixtures.train(corpus, tmp_path / "out", from_pretrained=str(folder))
        assert len(str(error.value)) < 400
