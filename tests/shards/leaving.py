"""A program that ends while a batch is being read; `test_reader` runs it."""

import sys
import time

from clozeflow import artifacts
from clozeflow.shards import order, reader
from clozeflow.shards.source import Source

order.WINDOW_TOKENS = 1
gather = Source.gather


def slow_gather(*arguments):
    time.sleep(0.5)
    return gather(*arguments)


Source.gather = slow_gather
shards = artifacts.open_artifact(sys.argv[1], artifacts.ArtifactType.SHARDS, name="shards")
batches = iter(reader.train_batches(shards, global_batch_size=64, seed=0))
next(batches)
sys.stdout.write("read\n")
