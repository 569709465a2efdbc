"""What ``status --all`` says of sizes and times."""

from __future__ import annotations

import json
import os
from pathlib import Path

from xpubuild.workspace.layout import Layout
from xpubuild.workspace.overview import disk_usage, workspace_row


def test_a_file_with_two_names_takes_its_space_once(tmp_path: Path) -> None:
    assert disk_usage(tmp_path / "nowhere") == 0
    (tmp_path / "a").write_bytes(b"x" * 10_000)
    (tmp_path / "below").mkdir()
    one = disk_usage(tmp_path)
    os.link(tmp_path / "a", tmp_path / "below" / "b")
    assert disk_usage(tmp_path) == one
    assert disk_usage(tmp_path / "below") >= 10_000


def test_a_report_of_verify_that_is_gone_has_no_time(tmp_path: Path) -> None:
    (tmp_path / "receipt.json").write_text(json.dumps({"verify": {"status": "pass"}}))
    row = workspace_row(tmp_path)
    assert (row["verify"], row["verified"]) == ("pass", None)
    report = Layout(tmp_path).verify_report
    report.parent.mkdir()
    report.touch()
    os.utime(report, (5.0, 7.0))
    assert workspace_row(tmp_path)["verified"] == 7.0
