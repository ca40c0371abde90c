"""The preflight component."""
