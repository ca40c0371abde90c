"""Our components in a pipeline that is not ours: shards for a trainer that knows nothing of us.

    python examples/bigram.py                                    writes build/bigram.yaml
    python -m pipelines run build/bigram.yaml --output runs      runs it here

The corpus, tokenizer and shard components are loaded from their `component.yaml` alone, as any
pipeline could load them by URL. The trainer counts pairs of tokens.
"""

from pathlib import Path

from kfp import compiler, components, dsl

ROOT = Path(__file__).parents[1]
corpus, tokenizer, shard = (
    components.load_component_from_file(str(ROOT / "components" / name / "component.yaml"))
    for name in ("corpus", "tokenizer", "shard")
)


# The image brings TensorFlow and kfp: nothing is installed when the task starts.
@dsl.component(base_image="tensorflow/tensorflow:2.20.0", install_kfp_package=False)
def train_bigrams(
    shards: dsl.Input[dsl.Dataset],
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    vocab_size: int,
    seq_len: int,
) -> None:
    """Counts which token follows which, and says how well that foretells the validation split."""
    from pathlib import Path

    import numpy as np
    import tensorflow as tf

    features = {"input_ids": tf.io.FixedLenFeature([seq_len], tf.int64)}

    def pairs(split: str) -> np.ndarray:
        files = sorted(tf.io.gfile.glob(f"{shards.path}/{split}/*.tfrecord"))
        counts = np.zeros((vocab_size, vocab_size))
        for batch in tf.data.TFRecordDataset(files).batch(256):
            rows = tf.io.parse_example(batch, features)["input_ids"].numpy()
            np.add.at(counts, (rows[:, :-1], rows[:, 1:]), 1)
        return counts

    counts = pairs("train") + 0.1  # a pair never seen is not impossible
    probabilities = counts / counts.sum(axis=1, keepdims=True)
    held_out = pairs("validation")
    loss = -(held_out * np.log(probabilities)).sum() / held_out.sum()
    Path(model.path).mkdir(parents=True, exist_ok=True)
    np.save(Path(model.path, "bigrams.npy"), probabilities.astype("float32"))
    metrics.log_metric("validation_loss", float(loss))
    metrics.log_metric("uniform_loss", float(np.log(vocab_size)))


@dsl.pipeline(name="bigram", display_name="A model of token pairs")
def bigram(source: list = ["sample"], vocab_size: int = 2000, seq_len: int = 128) -> None:  # noqa: B006
    """Trains a bigram model on a text.

    Args:
        source: Files, globs or `sample`.
        vocab_size: Pieces in the vocabulary.
        seq_len: Tokens in a row.
    """
    documents = corpus(source=source)
    pieces = tokenizer(corpus=documents.outputs["corpus"], vocab_size=vocab_size)
    rows = shard(
        corpus=documents.outputs["corpus"], tokenizer=pieces.outputs["tokenizer"], seq_len=seq_len
    )
    train_bigrams(shards=rows.outputs["shards"], vocab_size=vocab_size, seq_len=seq_len)


if __name__ == "__main__":
    target = ROOT / "build" / "bigram.yaml"
    target.parent.mkdir(exist_ok=True)
    compiler.Compiler().compile(bigram, str(target))
    print(f"{target}\nRun it here: python -m pipelines run {target} --output runs")
