"""Which groups of checks run beside each other, and that none waits for one of another lane."""

from __future__ import annotations

from xpubuild.verify.suite.registry import GROUPS, LANES, turns

FULL = [group for group in GROUPS if group not in ("image", "database")]


def test_groups_that_compute_run_beside_each_other_and_speed_alone() -> None:
    steps = turns(FULL, "xpu", 16)
    assert steps[-1] == [["speed"]]
    assert steps[-2] == [list(lane) for lane in LANES]
    assert [lanes[0] for lanes in steps[:-2]] == [["import"], ["device"], ["runtime"], ["aten"], ["onednn"]]
    assert sorted(group for lanes in steps for lane in lanes for group in lane) == sorted(FULL)


def test_on_a_cpu_or_with_few_cores_groups_follow_each_other() -> None:
    alone = [[[group]] for group in FULL]
    assert turns(FULL, "cpu", 64) == alone
    assert turns(FULL, "cuda", 4) == alone
    assert turns(["import", "database"], "cuda", 64) == [[["import"]], [["database"]]]
