"""Speeds: what a metric's name says, the table of peaks, and baselines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xpubuild.errors import UsageError
from xpubuild.verify import baseline
from xpubuild.verify.suite.peaks import PEAKS, find


@pytest.mark.parametrize(
    ("engines", "tiles", "bfloat16"),
    [(512, 1, 419.4), (1024, 2, 838.8)],
)
def test_a_max_1550_is_one_tile_in_flat_and_two_in_composite(
    engines: int, tiles: int, bfloat16: float
) -> None:
    found = find("Intel(R) Data Center GPU Max 1550", engines)
    assert found is not None
    peak, number = found
    assert number == tiles
    assert peak.tflops["bfloat16"] * number == pytest.approx(bfloat16)


def test_peaks_of_the_max_series_follow_from_units_and_clock() -> None:
    for name, clock in (("1550", 1.6), ("1100", 1.55)):
        (peak,) = [peak for peak in PEAKS if name in peak.name]
        for kind, per_clock in (("float32", 32), ("tf32", 256), ("bfloat16", 512), ("int8", 1024)):
            assert peak.tflops[kind] == pytest.approx(peak.engines * per_clock * clock / 1000, rel=2e-3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file or directory"),
        ("{", "it is not valid JSON"),
        ('{"schema": "xpubuild.verify/1"}', "its schema is not xpubuild.verify-baseline/1"),
        (json.dumps({"schema": baseline.SCHEMA, "device": "d", "torch": "t"}), "it has an invalid part"),
        (
            json.dumps({"schema": baseline.SCHEMA, "device": "d", "torch": "t", "speeds": {"a": {"b": "c"}}}),
            "it has an invalid part",
        ),
    ],
)
def test_what_is_no_baseline_is_a_usage_error(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "base.json"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(UsageError) as caught:
        baseline.read(path)
    assert why in caught.value.why
    assert "--update-baseline" in caught.value.fix
