"""Shards to a masked language model."""
