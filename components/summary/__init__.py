"""The summary component."""
