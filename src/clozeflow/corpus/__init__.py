"""Raw text to clean, deduplicated documents in train, validation and test."""
