"""Seeds are the frequent substrings that go on in more than one way."""

import collections

from hypothesis import given
from hypothesis import strategies as st

from clozeflow.tokenizer.seeds import MAX_PIECE_CHARS, seed_pieces

WORD_COUNTS = st.dictionaries(
    st.text("ab漢", min_size=1, max_size=20).map("▁".__add__), st.integers(1, 50), min_size=1
)


def substrings(counts: dict[str, int]) -> dict[str, int]:
    """By definition: every substring with its frequency, two characters or more."""
    found: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        for start in range(len(word)):
            for end in range(start + 2, min(len(word), start + MAX_PIECE_CHARS) + 1):
                found[word[start:end]] += count
    return found


def expected(counts: dict[str, int]) -> dict[str, int]:
    found = substrings(counts)
    extended = {s[:-1] for s, frequency in found.items() if found.get(s[:-1]) == frequency}
    return {s: f for s, f in found.items() if f >= 2 and s not in extended}


@given(WORD_COUNTS)
def test_all_of_them_where_there_is_room(counts):
    seeds = seed_pieces(list(counts), list(counts.values()), num_seeds=10**6)
    assert dict(seeds) == expected(counts)
    assert len(seeds) == len(dict(seeds))


@given(WORD_COUNTS, st.integers(1, 40))
def test_the_best_of_them_where_there_is_not(counts, num_seeds):
    seeds = seed_pieces(list(counts), list(counts.values()), num_seeds=num_seeds)
    scores = sorted((len(s) * f for s, f in expected(counts).items()), reverse=True)
    assert [len(s) * f for s, f in seeds] == scores[:num_seeds]
    assert dict(seeds).items() <= expected(counts).items()


def test_words_of_one_character_have_none():
    assert seed_pieces(["a", "b"], [3, 4], num_seeds=10) == []
