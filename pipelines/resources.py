"""What a task asks of the machine that it runs on.

Memory does not grow with the corpus, but with the processes that a stage starts.
"""

import dataclasses
import math
from collections.abc import Mapping

_MIN_CORES, _MAX_CORES = 4, 64
_HOUR_SECONDS = 3600
_GIB_PER_CORE = 4  # as the standard machine types have it

_MIB_PER_CORE_SECOND: Mapping[str, float] = {"corpus": 6.3, "tokenizer": 1.4, "shard": 7.8}
"""Text that a data stage gets through: CPU time of one process on 57 MiB of English, start and (for
the tokenizer) the training of 8,192 pieces included, which larger corpora do not pay again."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resources:
    """Cores and memory of a task."""

    num_cores: int
    memory_gib: int


def resources_of(stage: str, corpus_gib: float) -> Resources:
    """Enough for a data stage to be through with the corpus in about an hour.

    Args:
        stage: The stage's name; one that reads no whole corpus gets the least.
        corpus_gib: The size of the raw text.
    """
    rate = _MIB_PER_CORE_SECOND.get(stage)
    needed = math.ceil(corpus_gib * 1024 / rate / _HOUR_SECONDS) if rate else 0
    # Machine types come in powers of two.
    cores = 2 ** math.ceil(math.log2(max(_MIN_CORES, min(needed, _MAX_CORES))))
    return Resources(num_cores=cores, memory_gib=cores * _GIB_PER_CORE)
