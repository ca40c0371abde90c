"""Properties of masks, eagerly and in tf.data."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from clozeflow.training import units
from clozeflow.training.masking import MaskingRule, mask_batch, mask_rows
from clozeflow.training.noise import Noise
from tests.training.artifacts_of_tests import VOCAB_SIZE, make_rows

SEQ_LEN = 64
SPECIAL = (0, 1, 2, 3, 4)
RULE = MaskingRule(
    rate=0.15, seq_len=SEQ_LEN, vocab_size=VOCAB_SIZE, mask_token_id=4, special_token_ids=SPECIAL
)


def masked(rows: np.ndarray, *, rule: MaskingRule = RULE, seed: int = 1, first: int = 0) -> dict:
    indices = tf.range(first, first + len(rows), dtype=tf.int64)
    result = mask_rows(tf.constant(rows), attention(rows), indices, seed=seed, rule=rule)
    return {name: value.numpy() for name, value in result.items()}


def attention(rows: np.ndarray) -> tf.Tensor:
    return tf.constant((rows != 1).astype(np.int32))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return make_rows(2000, SEQ_LEN)


def test_special_tokens_are_never_masked_nor_drawn(rows: np.ndarray) -> None:
    result = masked(rows)
    used = result["masked_weights"] > 0
    assert not np.isin(result["masked_labels"][used], SPECIAL).any()
    shown = np.take_along_axis(result["input_ids"], result["masked_positions"], axis=1)[used]
    assert set(shown[np.isin(shown, SPECIAL)]) == {4}
    assert shown.max() < VOCAB_SIZE


def test_only_masked_positions_change_and_labels_are_what_stood_there(rows: np.ndarray) -> None:
    result = masked(rows)
    restored = result["input_ids"].copy()
    np.put_along_axis(restored, result["masked_positions"], result["masked_labels"], axis=1)
    np.testing.assert_array_equal(restored, rows)


def test_positions_are_distinct_and_ascending(rows: np.ndarray) -> None:
    result = masked(rows)
    for positions, weights in zip(
        result["masked_positions"], result["masked_weights"], strict=True
    ):
        used = positions[weights > 0]
        assert (np.diff(used) > 0).all()


def test_the_rate_is_met_within_three_sigma(rows: np.ndarray) -> None:
    num_maskable = ~np.isin(rows, SPECIAL)
    exact = RULE.rate * num_maskable.sum(axis=1)
    fractions = exact % 1
    sigma = np.sqrt((fractions * (1 - fractions)).sum())
    assert abs(masked(rows)["masked_weights"].sum() - exact.sum()) < 3 * sigma


@pytest.mark.parametrize("seed", range(3))
def test_of_masked_tokens_80_10_10_within_three_sigma(rows: np.ndarray, seed: int) -> None:
    result = masked(rows, seed=seed)
    used = result["masked_weights"] > 0
    shown = np.take_along_axis(result["input_ids"], result["masked_positions"], axis=1)[used]
    labels = result["masked_labels"][used]
    num_ordinary = VOCAB_SIZE - len(SPECIAL)
    expected = {  # a random token is the right one now and then
        "mask": 0.8,
        "kept": 0.1 + 0.1 / num_ordinary,
        "random": 0.1 - 0.1 / num_ordinary,
    }
    found = {"mask": shown == 4, "kept": shown == labels}
    found["random"] = ~(found["mask"] | found["kept"])
    for name, share in expected.items():
        sigma = np.sqrt(share * (1 - share) / len(shown))
        assert abs(found[name].mean() - share) < 3 * sigma, name


def test_every_position_and_every_replacement_is_as_likely_as_another(rows: np.ndarray) -> None:
    full = rows[(rows != 1).all(axis=1)]
    result = masked(full)
    counts = np.bincount(
        result["masked_positions"][result["masked_weights"] > 0], minlength=SEQ_LEN
    )[1:-1]
    # chi-square over 62 positions: mean 61, sigma 11
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 61 + 3 * 11


@pytest.mark.parametrize("num_words", [1, 2, 5])
def test_a_short_row_has_at_least_one_masked_token(num_words: int) -> None:
    row = np.full((1, SEQ_LEN), 1, np.int32)
    row[0, : num_words + 2] = [0, *range(10, 10 + num_words), 2]
    result = masked(np.repeat(row, 50, axis=0))
    assert (result["masked_weights"].sum(axis=1) >= 1).all()


def test_a_row_of_special_tokens_asks_nothing_and_stays_as_it_is() -> None:
    row = np.full((1, SEQ_LEN), 1, np.int32)
    row[0, :2] = [0, 2]
    result = masked(row)
    assert result["masked_weights"].sum() == 0
    np.testing.assert_array_equal(result["input_ids"], row)


def test_position_0_can_be_masked_where_it_is_an_ordinary_token() -> None:
    row = np.full((200, SEQ_LEN), 1, np.int32)
    row[:, :2] = [10, 11]
    result = masked(row)
    restored = result["input_ids"].copy()
    np.put_along_axis(restored, result["masked_positions"], result["masked_labels"], axis=1)
    np.testing.assert_array_equal(restored, row)
    assert set(result["masked_positions"][:, 0]) == {0, 1}


def test_a_rows_mask_does_not_depend_on_its_batch(rows: np.ndarray) -> None:
    whole, part = masked(rows[:64]), masked(rows[40:47], first=40)
    for name, value in part.items():
        np.testing.assert_array_equal(value, whole[name][40:47], err_msg=name)


def test_another_seed_and_another_row_give_other_masks(rows: np.ndarray) -> None:
    same = np.repeat(rows[:1], 2, axis=0)
    first, second = masked(same), masked(same, seed=2)
    assert (first["masked_positions"][0] != first["masked_positions"][1]).any()
    assert (first["masked_positions"] != second["masked_positions"]).any()


def test_tf_data_and_parts_of_a_batch_give_what_eager_gives(rows: np.ndarray) -> None:
    whole = mask_batch(
        tf.constant(rows[:8]),
        attention(rows[:8]),
        seed=3,
        step=5,
        rule=RULE,
        global_batch_size=8,
    )
    for first_row in (0, 4):
        part = rows[first_row : first_row + 4]
        dataset = tf.data.Dataset.from_tensors((part, attention(part), 5)).map(
            lambda ids, mask, step, first_row=first_row: mask_batch(
                ids,
                mask,
                seed=3,
                step=step,
                rule=RULE,
                global_batch_size=8,
                first_row=first_row,
            )
        )
        for name, value in next(iter(dataset)).items():
            np.testing.assert_array_equal(value, whole[name][first_row : first_row + 4])


def test_shapes_are_static_and_room_is_enough_for_every_rate(rows: np.ndarray) -> None:
    for rate in (0.01, 0.15, 0.5, 0.9):
        rule = dataclasses.replace(RULE, rate=rate)
        result = masked(rows[:100], rule=rule)
        assert result["masked_positions"].shape == (100, rule.num_masked_positions)
        full = (rows[:100] != 1).all(axis=1)
        share = result["masked_weights"][full].sum(axis=1) / (SEQ_LEN - 2)
        assert np.abs(share - rate).max() <= 1 / (SEQ_LEN - 2)


def test_a_rate_that_falls_over_training(rows: np.ndarray) -> None:
    rule = dataclasses.replace(RULE, rate=0.3, final_rate=0.1, num_train_steps=11)
    full = rows[(rows != 1).all(axis=1)][:200]
    shares = []
    for step in (0, 5, 10, 99):
        result = mask_batch(
            tf.constant(full),
            attention(full),
            seed=1,
            step=tf.constant(step, tf.int64),
            rule=rule,
            global_batch_size=len(full),
        )
        shares.append(tf.reduce_sum(result["masked_weights"]) / (len(full) * (SEQ_LEN - 2)))
    np.testing.assert_allclose(shares, [0.3, 0.2, 0.1, 0.1], atol=0.003)


class TestUnits:
    """Rows of words of one to four pieces: ids that are multiples of 4 begin one."""

    WORD_STARTS = (*SPECIAL, *range(8, VOCAB_SIZE, 4))

    @pytest.fixture(scope="class")
    def wordy(self) -> np.ndarray:
        generator = np.random.default_rng(0)
        rows = np.full((2000, SEQ_LEN), 2, np.int32)
        for row in rows:
            row[0], column = 0, 1
            while column < SEQ_LEN - 1:
                start = 4 * generator.integers(2, VOCAB_SIZE // 4)
                for piece in range(min(generator.integers(1, 5), SEQ_LEN - 1 - column)):
                    row[column] = start + piece
                    column += 1
            row[generator.integers(2, SEQ_LEN - 2)] = 2
        return rows

    def rule(self, divide: units.DivideRows, **changes) -> MaskingRule:
        return dataclasses.replace(RULE, divide=divide, **changes)

    def whole_words(self) -> units.DivideRows:
        return units.whole_words(self.WORD_STARTS, vocab_size=VOCAB_SIZE)

    def test_words_are_masked_whole(self, wordy: np.ndarray) -> None:
        result = masked(wordy, rule=self.rule(self.whole_words()))
        is_masked = mask_matrix(result)
        is_start = np.isin(wordy, self.WORD_STARTS)
        # the token after a separator begins a word, as the one after the row's start does
        is_start[:, 1:] |= np.isin(wordy[:, :-1], SPECIAL)
        continues = ~is_start & ~np.isin(wordy, SPECIAL)
        assert (is_masked[:, 1:] == is_masked[:, :-1])[continues[:, 1:]].all()

    @pytest.mark.parametrize("kind", ["words", "spans", "ngrams"])
    @pytest.mark.parametrize("rate", [0.15, 0.4])
    def test_the_rate_is_met(self, wordy: np.ndarray, kind: str, rate: float) -> None:
        divide = {
            "words": self.whole_words(),
            "spans": units.geometric_spans(3.0),
            "ngrams": units.ngrams(3),
        }[kind]
        result = masked(wordy, rule=self.rule(divide, rate=rate))
        share = result["masked_weights"].sum() / (~np.isin(wordy, SPECIAL)).sum()
        assert abs(share / rate - 1) < 0.02
        assert not np.isin(result["masked_labels"][result["masked_weights"] > 0], SPECIAL).any()
        assert (result["masked_weights"].sum(axis=1) >= 1).all()

    def test_lengths_of_spans_are_geometric(self) -> None:
        lengths = self.lengths(units.geometric_spans(3.0))
        for length in (1, 2, 3):
            share = (2 / 3) ** (length - 1) / 3
            sigma = np.sqrt(share * (1 - share) / len(lengths))
            assert abs((lengths == length).mean() - share) < 3 * sigma
        assert lengths.max() == 10

    def test_lengths_of_ngrams_fall_as_one_over_n(self) -> None:
        lengths = self.lengths(units.ngrams(3))
        for length in (1, 2, 3):
            share = 1 / length / (1 + 1 / 2 + 1 / 3)
            sigma = np.sqrt(share * (1 - share) / len(lengths))
            assert abs((lengths == length).mean() - share) < 3 * sigma
        assert set(lengths) == {1, 2, 3}

    def lengths(self, divide: units.DivideRows) -> np.ndarray:
        """Of the first unit of each row, which no row's end has cut."""
        ids = tf.zeros([20_000, 16], tf.int32)
        noise = Noise(seed=5, rows=tf.range(20_000, dtype=tf.int64))
        numbers = divide(ids, noise).numpy()
        return (numbers == numbers[:, :1]).sum(axis=1)

    def test_a_unit_longer_than_the_room_is_cut(self) -> None:
        row = np.full((50, SEQ_LEN), 9, np.int32)  # one word that never ends
        row[:, 0], row[:, -1] = 0, 2
        rule = self.rule(self.whole_words())
        result = masked(row, rule=rule)
        assert (result["masked_weights"].sum(axis=1) == rule.num_masked_positions).all()

    def test_in_tf_data_as_eagerly(self, wordy: np.ndarray) -> None:
        for divide in (self.whole_words(), units.geometric_spans(3.0), units.ngrams(3)):
            rule = self.rule(divide)
            eager = masked(wordy[:4], rule=rule)
            indices = np.arange(4, dtype=np.int64)
            inputs = (wordy[:4], attention(wordy[:4]), indices)
            dataset = tf.data.Dataset.from_tensors(inputs).map(
                lambda ids, mask, rows, rule=rule: mask_rows(ids, mask, rows, seed=1, rule=rule)
            )
            for name, value in next(iter(dataset)).items():
                np.testing.assert_array_equal(value, eager[name])


def mask_matrix(result: dict) -> np.ndarray:
    """bool [B, T]: where a token is asked for."""
    matrix = np.zeros(result["input_ids"].shape, bool)
    used = result["masked_weights"] > 0
    matrix[np.nonzero(used)[0], result["masked_positions"][used]] = True
    return matrix


def test_word_starts_by_the_marks_of_the_pieces() -> None:
    class Vocabulary:
        def __init__(self, *pieces: str) -> None:
            self.vocabulary = {piece: index for index, piece in enumerate(pieces)}
            self.all_special_ids = [0]

        def get_vocab(self) -> dict[str, int]:
            return self.vocabulary

    sentencepiece = Vocabulary("<s>", "▁the", "re", "▁")
    assert units.word_starts(sentencepiece) == (0, 1, 3)
    assert units.word_starts(Vocabulary("<s>", "Ġthe", "re")) == (0, 1)
    assert units.word_starts(Vocabulary("[PAD]", "the", "##re")) == (0, 1)
