"""Pipelines of the components, and what is done with them: compile, run, submit, ask after."""
