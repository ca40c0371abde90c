"""The types of the artifacts.

KFP knows only `system.*` titles: to other pipelines a `Corpus` is a plain Dataset, a `MaskedLM` a
plain Model. Our own type travels in the artifact's metadata, under `type`.
"""

from kfp import dsl


class Corpus(dsl.Dataset):
    """Clean documents in train, validation and test."""


class Tokenizer(dsl.Artifact):
    """What `AutoTokenizer.from_pretrained` opens."""


class Shards(dsl.Dataset):
    """TFRecord files of fixed-length examples."""


class PreflightReport(dsl.Artifact):
    """What the TPU's compiler says of a training step."""


class MaskedLM(dsl.Model):
    """What `AutoModelForMaskedLM.from_pretrained` opens."""


class Evaluation(dsl.Artifact):
    """A model's figures and answers, with a report."""


class Publication(dsl.Artifact):
    """Where a model was published to: places, revisions, files."""


class Predictions(dsl.Dataset):
    """Rows with a model's answers or vectors."""
