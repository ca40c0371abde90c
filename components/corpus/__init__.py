"""The corpus component."""
