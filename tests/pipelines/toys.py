"""Container components small enough to run in milliseconds, and pipelines of them."""

from kfp import dsl

_WRITE = """
import json, os, pathlib, sys, time
call = json.loads(sys.argv[1])
given = call["inputs"].get("parameterValues", {})
before = [a["artifacts"][0] for a in call["inputs"].get("artifacts", {}).values()]
text = "".join(pathlib.Path(a["uri"]).read_text() for a in before) + given.get("text", "")
print("writing", text)
if text.endswith("fail"):
    print("error: text: must not fail (got fail). Write another.", file=sys.stderr)
    sys.exit(2)
if text.endswith("die"):
    os.kill(os.getpid(), 9)
(name, out), = [(n, a["artifacts"][0]) for n, a in call["outputs"]["artifacts"].items()]
pathlib.Path(out["uri"]).parent.mkdir(parents=True, exist_ok=True)
pathlib.Path(out["uri"]).write_text(text)
values = {n: len(text) > 3 for n in call["outputs"].get("parameters", {})}
echo = {"name": out["name"], "uri": out["uri"], "metadata": {"length": len(text)}}
output = {"artifacts": {name: {"artifacts": [echo]}}, "parameterValues": values}
pathlib.Path(call["outputs"]["outputFile"]).write_text(json.dumps(output))
"""


@dsl.container_component
def start(out: dsl.Output[dsl.Dataset], text: str = "a", times: int = 1):
    """Writes a text."""
    return dsl.ContainerSpec(image="toy", command=["python3", "-c", _WRITE], args=["{{$}}"])


@dsl.container_component
def add(
    before: dsl.Input[dsl.Dataset],
    out: dsl.Output[dsl.Model],
    is_long: dsl.OutputPath(bool),
    text: str = "b",
):
    """Adds to a text."""
    return dsl.ContainerSpec(image="toy", command=["python3", "-c", _WRITE], args=["{{$}}"])


@dsl.pipeline(name="toy")
def toy(first: str = "a", second: str = "b", times: int = 1):
    """Writes two texts, one after another.

    Args:
        first: The first.
        second: The second.
        times: Nothing.
    """
    begun = start(text=first, times=times)
    added = add(before=begun.outputs["out"], text=second)
    with dsl.If(added.outputs["is_long"] == True):  # noqa: E712
        start(text="long")
