"""One name, one type, one default: in the config, on the command line, in the component."""

import dataclasses
import enum
import typing

import pytest

from clozeflow.component import CUSTOM_JOB_FIELDS
from clozeflow.config import flag
from clozeflow.registry import STAGES
from components.documentation import field_descriptions
from pipelines.arguments import parameter_definitions, spec_of
from pipelines.catalog import COMPONENTS, PIPELINES, PRESETS
from pipelines.graph import HERE

KINDS = {int: "NUMBER_INTEGER", float: "NUMBER_DOUBLE", bool: "BOOLEAN", str: "STRING"}


def kind_of(annotation) -> str:
    """KFP's name of a config field's type."""
    if typing.get_origin(annotation) is tuple:
        return "LIST"
    if isinstance(annotation, type) and issubclass(annotation, enum.StrEnum):
        return "STRING"
    return KINDS[annotation]


def config_interface(config) -> dict[str, tuple]:
    types = typing.get_type_hints(config)
    defaults = config().to_dict()
    texts = field_descriptions(config)
    return {
        field.name: (kind_of(types[field.name]), defaults[field.name], texts[field.name])
        for field in dataclasses.fields(config)
    }


def component_interface(component) -> dict[str, tuple]:
    return {
        name: (d["parameterType"], d["defaultValue"], d["description"])
        for name, d in parameter_definitions(spec_of(component)).items()
    }


def differences(expected: dict, found: dict) -> list[str]:
    names = [*expected, *(name for name in found if name not in expected)]
    return [
        f"{name}:\n  config    {expected.get(name)}\n  component {found.get(name)}"
        for name in names
        if expected.get(name) != found.get(name)
    ]


def signature_lines(config) -> list[str]:
    """What a component's function must say of its config's fields, ready to be copied."""
    types = {"NUMBER_INTEGER": "int", "NUMBER_DOUBLE": "float", "BOOLEAN": "bool", "LIST": "list"}
    return [
        f"    {name}: {types.get(kind, 'str')} = {default!r},"
        for name, (kind, default, _) in config_interface(config).items()
    ]


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_component_has_the_parameters_of_its_config(stage):
    differing = differences(
        config_interface(stage.config), component_interface(COMPONENTS[stage.name])
    )
    assert not differing, "\n".join([*differing, "", *signature_lines(stage.config)])


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_component_has_the_artifacts_of_its_stage(stage):
    spec = COMPONENTS[stage.name].component_spec
    inputs = {n: i.optional for n, i in spec.inputs.items() if i.type.startswith("system.")}
    assert inputs == dict.fromkeys(stage.inputs, False) | dict.fromkeys(stage.optional_inputs, True)
    assert stage.output_name in spec.outputs


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_command_line_has_a_flag_for_each_field(stage, capsys, monkeypatch):
    from clozeflow import cli

    monkeypatch.setattr("sys.argv", ["clozeflow", stage.command or stage.name, "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    text = capsys.readouterr().out
    missing = [f.name for f in dataclasses.fields(stage.config) if flag(f.name) not in text]
    assert missing == []


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_no_setting_is_named_like_a_field_of_a_custom_job(stage):
    names = {field.name for field in dataclasses.fields(stage.config)}
    assert names & CUSTOM_JOB_FIELDS == set()


def test_fields_of_a_custom_job_are_those_of_the_library():
    from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp

    assert set(CustomTrainingJobOp.component_spec.inputs) == CUSTOM_JOB_FIELDS


@pytest.mark.parametrize("name", PIPELINES)
def test_pipeline_parameters_are_those_of_its_tasks(name):
    """What a pipeline hands on it takes under the same name, with the same default."""
    spec = spec_of(PIPELINES[name](HERE))
    found = parameter_definitions(spec)
    assert found
    assert [n for n, d in found.items() if not d.get("description")] == []
    graphs = [spec["root"], *spec["components"].values()]
    tasks = [task for g in graphs for task in g.get("dag", {}).get("tasks", {}).values()]
    for task in tasks:
        own = spec["components"][task["componentRef"]["name"]]
        if "executorLabel" not in own:
            continue
        inner = own.get("inputDefinitions", {}).get("parameters", {})
        for parameter, source in task.get("inputs", {}).get("parameters", {}).items():
            outer = source.get("componentInputParameter", "").removeprefix("pipelinechannel--")
            if "defaultValue" in inner[parameter] and outer in found:
                assert parameter == outer
                # What a pipeline cannot do without has no default there.
                default = inner[parameter]["defaultValue"]
                assert found[outer].get("defaultValue", default) == default


@pytest.mark.parametrize(("pipeline", "preset"), [(p, n) for p, ps in PRESETS.items() for n in ps])
def test_presets_are_arguments_of_their_pipeline(pipeline, preset):
    from pipelines.arguments import check_arguments

    check_arguments(spec_of(PIPELINES[pipeline](HERE)), PRESETS[pipeline][preset])
