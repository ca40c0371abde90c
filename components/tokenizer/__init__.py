"""The tokenizer component."""
