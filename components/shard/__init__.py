"""The shard component."""
