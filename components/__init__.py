"""The interfaces of the stages as Kubeflow components: typed artifacts, scalars, one image.

No work is done here. Each component's command is `clozeflow-component STAGE '{{$}}'`, which the
image brings; each `component.yaml` stands beside its source for use in other pipelines.
"""
