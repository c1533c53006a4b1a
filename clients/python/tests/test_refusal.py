"""The wait that a refusal states where the server did not."""

from __future__ import annotations

import pytest

from tidegate.refusal import jittered


@pytest.mark.parametrize("seconds", [1, 2, 4, 5, 9, 60])
def test_a_wait_is_never_shorter_and_at_most_a_fifth_longer(seconds: int) -> None:
    drawn = {jittered(seconds) for _ in range(2000)}
    assert drawn == set(range(seconds, seconds + max(1, seconds // 5) + 1))
