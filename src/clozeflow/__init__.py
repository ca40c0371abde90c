"""clozeflow: pretrain masked language models from raw text, in restartable stages."""

__version__ = "0.1.0"
