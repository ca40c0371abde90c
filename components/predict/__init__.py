"""The predict component."""
