"""A tokenizer that cuts text otherwise than when it was made is found out."""

import json
import shutil
from pathlib import Path

import pytest

from clozeflow.artifacts import Artifact
from clozeflow.errors import UserError
from clozeflow.tokenizer import golden


def test_a_changed_score_is_found(unigram, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(unigram.uri, copy)
    changed = Artifact(uri=str(copy), manifest=unigram.manifest)
    golden.check(changed)
    definition = json.loads((copy / "tokenizer.json").read_text())
    definition["model"]["vocab"][6][1] = -50.0
    (copy / "tokenizer.json").write_text(json.dumps(definition))
    with pytest.raises(UserError, match=r"golden\.json.*has other document_ids"):
        golden.check(changed)


def test_documents_and_inputs_differ_in_special_tokens(unigram):
    encodings = {e["text"]: e for e in golden.read(unigram.uri)}
    text = next(text for text in encodings if text.startswith("<mask> first"))
    assert encodings[text]["input_ids"].count(4) == 4
    assert 4 not in encodings[text]["document_ids"]
    assert encodings[""]["input_ids"] == [0, 2]


def test_golden_file_is_of_the_artifact(unigram):
    assert Path(unigram.path(golden.GOLDEN_FILE)).is_file()
    assert golden.GOLDEN_FILE in [file.path for file in unigram.manifest.files]
