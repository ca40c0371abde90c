"""Documents to TFRecord shards of fixed-length examples, and the way back."""
