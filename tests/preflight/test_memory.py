"""What the compiler's words and its log say of memory."""

import pytest

from clozeflow.preflight import compiler_log
from clozeflow.preflight.compilation import Compilation, Status, read_answer
from clozeflow.preflight.memory import Verdict, memory_of

GIB = 2**30
TOO_MUCH = (
    "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries "
    "(17.50G) exceeds available HBM (15.75G)."
)
LOG = """I m.cc:1] rematerialization limit 14.68G = 95% hbm - overlays (512.00M)
I passes.cc:2] XLA::TPU rematerialization hbm reduction:  20.50G => 14.50G
I heap_simulator.h:3] Primary algorithm finished with size: 1024
I heap_simulator.h:4] Fallback algorithm finished with size: 13958643712
"""


def test_what_does_not_fit_says_how_much_it_wants():
    assert compiler_log.wanted(TOO_MUCH) == (17.5 * GIB, 15.75 * GIB)
    used = "Ran out of memory in memory space hbm. Used 900.00M of 0.50G hbm. Exceeded by 388M."
    assert compiler_log.wanted(used) == (900 * 2**20, 0.5 * GIB)
    assert compiler_log.wanted("RESOURCE_EXHAUSTED: something else") is None


def test_the_log_says_what_lives_for_a_while_and_what_is_computed_again():
    found = compiler_log.read(LOG)
    assert found == {
        "temporary_bytes": 13 * GIB + 0.5 * GIB,
        "before_rematerialization_bytes": 20.5 * GIB,
    }
    assert compiler_log.read("nothing of that kind") == {}


def test_out_of_memory_is_the_one_thing_that_does_not_fit():
    answer = read_answer('{"status": "out_of_memory", "message": "' + TOO_MUCH + '"}', "")
    memory = memory_of(answer, argument_bytes=0, limit_bytes=8 * GIB)
    assert memory.verdict is Verdict.DOES_NOT_FIT
    assert (memory.needed_bytes, memory.limit_bytes) == (17.5 * GIB, 15.75 * GIB)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "Segmentation fault",
        '{"status": "failed", "message": "INTERNAL: Mosaic failed"}',
        '{"message": "no status"}',
        '["a list"]',
    ],
)
def test_anything_else_says_nothing(output):
    answer = read_answer(output, "")
    assert answer.status is Status.UNAVAILABLE
    assert answer.message
    memory = memory_of(answer, argument_bytes=0, limit_bytes=8 * GIB)
    assert memory.verdict is Verdict.UNAVAILABLE
    assert not memory.does_fit


@pytest.mark.parametrize(
    ("temp_gib", "verdict"), [(1.0, Verdict.FITS), (8.0, Verdict.FITS), (8.2, Verdict.TIGHT)]
)
def test_above_nine_tenths_is_tight(temp_gib, verdict):
    figures = {
        "argument_bytes": 1.0 * GIB,
        "output_bytes": 1.0 * GIB,
        "alias_bytes": 1.0 * GIB,
        "temp_bytes": temp_gib * GIB,
        "generated_code_bytes": 0.0,
        "peak_bytes": 0.0,
    }
    answer = Compilation(status=Status.COMPILED, figures=figures)
    memory = memory_of(answer, argument_bytes=0, limit_bytes=10 * GIB)
    assert memory.verdict is verdict
    assert memory.needed_bytes == pytest.approx((1 + temp_gib) * GIB)


def test_what_is_only_placed_is_arguments_and_what_the_log_says():
    answer = Compilation(status=Status.PLACED, memory=compiler_log.read(LOG))
    memory = memory_of(answer, argument_bytes=GIB, limit_bytes=15.75 * GIB)
    assert 14.5 * GIB < memory.needed_bytes < 14.55 * GIB
    assert memory.verdict is Verdict.TIGHT


@pytest.mark.parametrize("more", [0.0, 0.01, 1.0])
def test_what_is_placed_at_the_very_limit_is_not_said_to_fit(more):
    """Compiled to its end it takes some code too: such steps were refused then."""
    answer = Compilation(status=Status.PLACED, memory=compiler_log.read(LOG))
    memory = memory_of(answer, argument_bytes=(2.25 + more) * GIB, limit_bytes=15.75 * GIB)
    assert memory.verdict is Verdict.DOES_NOT_FIT
    assert memory.needed_bytes > memory.limit_bytes
