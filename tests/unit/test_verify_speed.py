"""Speeds: what a metric's name says, the table of peaks, and baselines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xpubuild.errors import UsageError
from xpubuild.verify import baseline
from xpubuild.verify.baseline import Baseline
from xpubuild.verify.model import CheckResult, VerifyReport
from xpubuild.verify.suite.metrics import direction, share
from xpubuild.verify.suite.peaks import PEAKS, find


@pytest.mark.parametrize(
    ("name", "sign"),
    [("bfloat16_tflops", 1), ("copy_gb_s", 1), ("float32_images_per_s", 1), ("launch_us", -1), ("batch", 0)],
)
def test_the_end_of_a_name_says_which_way_is_better(name: str, sign: int) -> None:
    assert direction(name) == sign


def test_share_is_below_one_for_what_is_slower() -> None:
    assert share("copy_gb_s", 50.0, 100.0) == 0.5
    assert share("launch_us", 20.0, 10.0) == 0.5
    assert share("copy_gb_s", 0.0, 100.0) == 0.0


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


def test_devices_are_found_by_name() -> None:
    assert find("NVIDIA H200", 0) is not None
    assert find("NVIDIA H100 80GB HBM3", 0) is not None
    assert find("Intel(R) Arc(TM) B580 Graphics", 160) is None


def report(**metrics: float) -> VerifyReport:
    check = CheckResult(
        id="speed.gemm", title="t", group="speed", status="pass", metrics={**metrics, "peak_source": "x"}
    )
    failed = CheckResult(id="speed.copies", title="t", group="speed", status="fail", metrics={"a_gb_s": 1.0})
    return VerifyReport(
        suite="speed",
        python="p",
        checks=(check, failed),
        torch={"version": "2.13.0"},
        device={"type": "xpu", "name": "GPU A"},
    )


def test_a_baseline_holds_the_speeds_of_what_passed(tmp_path: Path) -> None:
    made = baseline.of_report(report(bfloat16_tflops=100.0, float32_tflops_of_peak=0.7))
    assert made.speeds == {"speed.gemm": {"bfloat16_tflops": 100.0}}
    baseline.write(made, tmp_path / "deep" / "base.json")
    assert baseline.read(tmp_path / "deep" / "base.json") == made


def test_what_is_slower_than_the_baseline_is_a_warning_with_figures() -> None:
    earlier = Baseline("GPU A", "2.12.0", {"speed.gemm": {"bfloat16_tflops": 100.0, "launch_us": 5.0}})
    same = {"bfloat16_tflops": 91.0, "launch_us": 5.5}
    assert earlier.compare("speed.gemm", same, "GPU A") == ()
    slow = earlier.compare("speed.gemm", {"bfloat16_tflops": 80.0, "launch_us": 10.0}, "GPU A")
    assert slow == (
        "bfloat16_tflops is 80: 80% of the baseline's 100",
        "launch_us is 10: 50% of the baseline's 5",
    )
    assert earlier.compare("speed.memory", {"copy_gb_s": 1.0}, "GPU A") == ()


def test_a_baseline_of_another_device_is_not_compared() -> None:
    earlier = Baseline("GPU A", "2.12.0", {"speed.gemm": {"bfloat16_tflops": 100.0}})
    (warning,) = earlier.compare("speed.gemm", {"bfloat16_tflops": 1.0}, "GPU B")
    assert warning == "the baseline is for GPU A, but this device is GPU B: not compared"


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
