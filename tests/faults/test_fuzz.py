"""The fuzzer's short form; `python -m tests.faults.fuzz --minutes 60` is the long one."""

import pytest

from tests.faults import fuzz


@pytest.mark.parametrize("test", fuzz.PROPERTIES, ids=lambda test: test.__name__)
def test_nothing_but_errors_for_the_user(test):
    fuzz.limited(test, 25, derandomize=True)()
