"""What ONEAPI_DEVICE_SELECTOR leaves of Level Zero's GPUs."""

from __future__ import annotations

import pytest

from xpubuild.doctor.probes.level_zero import SelectorError, visible


@pytest.mark.parametrize(
    ("value", "tiles", "seen"),
    [
        ("", (0, 0), 2),
        ("*:*", (0, 0), 2),
        ("level_zero:*", (0, 0), 2),
        ("LEVEL_ZERO:GPU", (0, 0), 2),
        ("level_zero:1", (0, 0), 1),
        ("level_zero:0,1", (0, 0), 2),
        ("level_zero:7", (0, 0), 0),
        ("*:cpu", (0, 0), 0),
        ("opencl:*", (0, 0), 0),
        ("opencl:*;level_zero:0", (0, 0), 1),
        ("!level_zero:*", (0, 0), 0),
        ("!opencl:*", (0, 0), 2),
        ("!level_zero:0", (0, 0), 1),
        ("level_zero:*;!level_zero:1", (0, 0, 0), 2),
        # Tiles of cards in COMPOSITE mode become devices of their own.
        ("level_zero:0.0", (2, 2), 1),
        ("level_zero:0.*", (2, 2), 2),
        ("level_zero:*.*", (2, 2), 4),
        ("level_zero:0.5", (2,), 0),
        ("level_zero:0.0", (0,), 0),
        ("level_zero:0;level_zero:1.1", (2, 2), 2),
    ],
)
def test_how_many_are_left(value: str, tiles: tuple[int, ...], seen: int) -> None:
    assert visible(value, tiles) == seen


@pytest.mark.parametrize(
    "value", ["gpu", "level_zero", "level_zero:first", "zero:0", "level_zero:", "opencl:0.a"]
)
def test_what_ends_every_sycl_program(value: str) -> None:
    with pytest.raises(SelectorError):
        visible(value, (0,))
