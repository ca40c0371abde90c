"""The harness itself is tried: each of three faults put in on purpose is found by it."""

import pytest

from tests.faults import kills


def test_a_rename_before_the_data_is_complete(calm, tmp_path):
    """Killed before each file operation in turn: one of them leaves half a file."""
    found = []
    for event in range(1, 40):
        report = kills.kill_at_event(
            calm, "publish", kills.empty(tmp_path / "run"), event, defect="rename_before_complete"
        )
        found += report.faults
        if found or report.codes[0] == 0:
            break
    assert found, "no kill showed the defect"


@pytest.mark.parametrize("defect", ["resume_one_step_off", "mask_of_the_batch"])
def test_a_training_that_goes_on_otherwise(calm, tmp_path, defect):
    """Stopped after its second checkpoint and gone on with, it gives other weights."""
    report = kills.kill_after(calm, "train", tmp_path, "step-00000008.json", defect=defect)
    assert report.codes[0] == -9
    assert "differs: model.safetensors" in report.faults, report


def test_the_same_training_without_a_defect(calm, tmp_path):
    report = kills.kill_after(calm, "train", tmp_path, "step-00000008.json")
    assert report.codes == [-9, 0]
    assert not report.faults, report
