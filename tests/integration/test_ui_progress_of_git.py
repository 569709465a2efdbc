"""What git really prints, read through the process layer, becomes counted progress."""

from __future__ import annotations

import itertools
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.events import StepProgress
from xpubuild.engine.process import query, run
from xpubuild.engine.progress import ProgressMeter


def test_a_clone_is_counted_phase_by_phase(tmp_path: Path) -> None:
    origin = tmp_path / "über origin"
    origin.mkdir()
    env = {**base_environment(), "GIT_CONFIG_GLOBAL": "/dev/null"}
    for number in range(400):
        (origin / f"file {number}.txt").write_text(f"{number}\n" * (number + 1))
    names = ["-c", "user.name=T", "-c", "user.email=t@localhost"]
    for argv in (["init", "-q"], ["add", "."], [*names, "commit", "-q", "-m", "files"]):
        assert query(["git", *argv], env=env, cwd=origin).ok
    ticks = itertools.count()
    meter, seen = ProgressMeter("src", lambda: next(ticks)), list[StepProgress]()

    def on_line(line: str) -> None:
        if (found := meter.feed(line)) is not None:
            seen.append(found)

    argv = ["git", "clone", "--progress", "--no-local", str(origin), str(tmp_path / "copy")]
    assert run(argv, env=env, on_line=on_line).ok
    received = [item.done for item in seen if item.detail.startswith("receiving objects")]
    assert received == sorted(received)
    assert len(received) > 50
    assert received[-1] == max(item.total for item in seen if item.unit == "objects")
    assert received[-1] >= 402
