"""The pages of the components say what the components are."""

import pytest

from pipelines.arguments import parameter_definitions, spec_of
from pipelines.catalog import COMPONENTS
from pipelines.pages import page


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_page_names_every_input_output_and_setting(name):
    component = COMPONENTS[name]
    text = page(component)
    settings = parameter_definitions(spec_of(component))
    artifacts = {n for n, i in component.component_spec.inputs.items() if n not in settings}
    for word in (*artifacts, *component.component_spec.outputs):
        assert f"| {word} |" in text
    for setting in settings:
        assert f"| `{setting}` |" in text


def test_a_page_says_what_each_thing_is():
    text = page(COMPONENTS["evaluate"])
    assert "| blessed | true or false | Whether every threshold of `require` holds. |" in text
    assert "May be left out." in text
    assert "| `top_k` | integer | `5` | Answers to each prompt. |" in text
    assert "| 100 GiB | 8 | 32 GiB |" in page(COMPONENTS["corpus"])


def test_a_page_names_the_choices_and_what_each_means():
    text = page(COMPONENTS["tokenizer"])
    assert '| `algorithm` | one of `unigram`, `bpe`, `wordpiece` | `"unigram"` |' in text
    assert " `bpe`: Byte-level, as RoBERTa's own: no text is unknown. |" in text
    assert "`large`: 24 x 1024, as roberta-large. |" in page(COMPONENTS["train"])
    assert "| `init_from` | text |" in page(COMPONENTS["train"])


def test_what_a_description_brings_along_stays_text():
    for component in COMPONENTS.values():
        rows = [line for line in page(component).splitlines() if line.startswith("|")]
        assert all(line.count(" | ") >= 2 for line in rows)
