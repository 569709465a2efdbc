from __future__ import annotations

import pytest

from xpubuild.ui import wording as show


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0.0 s"), (0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1m 00s"),
     (185, "3m 05s"), (3599.6, "1h 00m"), (7384, "2h 03m")],
)  # fmt: skip
def test_duration(seconds: float, text: str) -> None:
    assert show.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "decimal", "binary"),
    [(0, "0 B", ""), (999, "999 B", "999 B"), (999_600, "1.0 MB", "976 KiB"),
     (12_345_678, "12.3 MB", "11.8 MiB"), (3 << 30, "3.2 GB", "3.0 GiB"),
     (5 * 10**15, "5000 TB", "4547 TiB")],
)  # fmt: skip
def test_bytes(count: int, decimal: str, binary: str) -> None:
    assert show.size(count) == decimal
    assert show.memory(count) == binary


@pytest.mark.parametrize(
    ("per_second", "unit", "text"),
    [(0, "edges", ""), (4.52, "edges", "4.5/s"), (22500, "objects", "22500/s"), (0.417, "edges", "25/min"),
     (0.05, "edges", "3.0/min"), (1.5e6, "bytes", "1.5 MB/s")],
)  # fmt: skip
def test_rate(per_second: float, unit: str, text: str) -> None:
    assert show.rate(per_second, unit) == text
