"""A corpus to a tokenizer, and the figures of its quality."""
