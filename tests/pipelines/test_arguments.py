"""From `k=v` to checked arguments."""

import pytest

from clozeflow.errors import UserError
from pipelines.arguments import check_arguments, parse_arguments, spec_of
from pipelines.pretrain import pretrain_pipeline

SPEC = spec_of(pretrain_pipeline())


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["vocab_size=100"], {"vocab_size": 100}),
        (["peak_learning_rate=1e-3"], {"peak_learning_rate": 1e-3}),
        (["preset=mini"], {"preset": "mini"}),
        (["preset="], {"preset": ""}),
        (["source=a.txt"], {"source": ["a.txt"]}),
        (["source=a.txt", "source=b.txt"], {"source": ["a.txt", "b.txt"]}),
        (['source=["a", "b"]', "source=c=d"], {"source": ["a", "b", "c=d"]}),
    ],
)
def test_values_have_the_parameters_types(texts, values):
    assert parse_arguments(SPEC, texts) == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vocab_size", "has no value"),
        ("vocab_sise=1", "Did you mean vocab_size"),
        ("=1", "no such parameter"),
        ("vocab_size=many", "vocab_size: has the wrong type"),
        ("source=[1", "source: has the wrong type"),
    ],
)
def test_what_cannot_be_read_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        parse_arguments(SPEC, [text])


def test_defaults_are_filled_in_with_their_types():
    values = check_arguments(SPEC, {"seq_len": 64})
    assert values["seq_len"] == 64
    assert (values["vocab_size"], type(values["vocab_size"])) == (8192, int)
    assert values["source"] == ["sample"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocab_size": 3}, "task tokenizer: --vocab-size: is out of range"),
        ({"seq_len": 4}, "task shard: --seq-len"),
        ({"preset": "huge"}, "task train: --preset"),
        ({"source": []}, "task corpus: --source"),
        ({"source": [3]}, "expected a list of strings"),
        ({"masking_rate": 2.0}, "masking-rate"),
        ({"masking_rate": float("nan")}, "masking-rate"),
    ],
)
def test_a_stages_range_is_checked_before_anything_runs(arguments, message):
    with pytest.raises(UserError, match=message):
        check_arguments(SPEC, arguments)


def test_a_required_parameter_is_asked_for():
    from clozeflow.slices import find_slice
    from pipelines.tpu import vertex_variant

    spec = spec_of(pretrain_pipeline(vertex_variant(find_slice("v5e-4"))))
    with pytest.raises(UserError, match="parameter project: has no value"):
        check_arguments(spec, {"location": "us-west1"})
    values = check_arguments(spec, {"project": "p", "location": "us-west1"})
    assert values["project"] == "p"
    with pytest.raises(UserError, match="task train: --preset"):
        check_arguments(spec, {"project": "p", "location": "us-west1", "preset": "huge"})
