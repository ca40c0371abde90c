"""The summary component: the last task of a run, whatever its end."""

from kfp import dsl

from components import images


@dsl.container_component
def summary(
    status: dsl.PipelineTaskFinalStatus, summary: dsl.Output[dsl.HTML]
) -> dsl.ContainerSpec:
    """Says how a run ended, what it made and how good that is; for a pipeline's exit handler.

    Args:
        status: How the other tasks ended; KFP gives it.

    Returns:
        summary: The page.
    """
    return dsl.ContainerSpec(image=images.CPU, command=images.COMMAND, args=["summary", "{{$}}"])
