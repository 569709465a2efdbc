"""What venv is told, what its failures come to, and interpreters and folders that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.said import Program, program, sleeper

from xpubuild.errors import XpuBuildError
from xpubuild.machine import make_env
from xpubuild.machine.envmark import MARK, read_mark, require_ours, write_mark
from xpubuild.machine.pythons import PythonFacts, require_python
from xpubuild.machine.system import OsFacts

DEBIAN = OsFacts(id="debian")


def refuses(action: Callable[[], object]) -> None:
    with pytest.raises(XpuBuildError):
        action()


FACTS = PythonFacts("/p", version="3.12.1")


def interpreter(tmp_path: Path, says: str) -> Program:
    folder = tmp_path / "bin"
    return sleeper(folder, "python") if says == "sleep" else program(folder, "python", says)


@pytest.mark.parametrize(
    ("version", "more"), [("3.9.2", []), ("3.12.1", []), ("3.13.0rc1", ["--without-scm-ignore-files"])]
)
def test_venv_is_run_apart_from_the_users_modules(tmp_path: Path, version: str, more: list[str]) -> None:
    env = tmp_path / "my env"
    env.mkdir()
    tool = interpreter(tmp_path, f": >'{env}/pyvenv.cfg'")
    make_env._run_venv(env, Path(tool.path), PythonFacts("/p", version=version))
    (call,) = tool.calls()
    assert call["argv"] == ["-I", "-m", "venv", "--without-pip", *more, str(env)]


@pytest.mark.parametrize(
    "says",
    [
        "true", "exit 3", "echo first; echo; echo last >&2; exit 1",
        "echo x; echo ' No space left on device'; exit 1",
        "for i in $(seq 30); do echo line $i; done; exit 1", "sleep",
    ],
    ids=range(6),
)  # fmt: skip
def test_a_venv_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    tool = interpreter(tmp_path, says)
    if says == "sleep":
        monkeypatch.setattr(make_env, "_DEADLINE_S", 0.3)
    (tmp_path / "env").mkdir()
    refuses(lambda: make_env._run_venv(tmp_path / "env", Path(tool.path), FACTS))


def test_a_python_that_no_pip_is_known_for(tmp_path: Path) -> None:
    refuses(lambda: make_env._put_pip(tmp_path / "env", PythonFacts("/p", version="3.99.0")))


def test_marks_and_what_is_not_ours(tmp_path: Path) -> None:
    env = tmp_path / "env"
    require_ours(env)
    env.mkdir()
    require_ours(env)
    assert read_mark(env) is None
    write_mark(env, {"state": "making", "base": "é"})
    assert (env / MARK).read_text() == '{\n "base": "\\u00e9",\n "state": "making"\n}\n'
    (env / "more").write_text("")
    require_ours(env)
    for text in ("[]", "{", ""):
        (env / MARK).write_text(text)
        assert read_mark(env) is None
        refuses(lambda: require_ours(env))
    (tmp_path / "file").write_text("")
    refuses(lambda: require_ours(tmp_path / "file"))
    (tmp_path / "link").symlink_to("nowhere")
    refuses(lambda: require_ours(tmp_path / "link"))
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    (drafts / f".{MARK}.x").write_text("")
    require_ours(drafts)


GOOD = PythonFacts(
    "/usr/bin/python3", version="3.12.4", implementation="CPython", bits=64, headers=True, include="/i",
    base_executable="/usr/bin/python3.12",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"error": "it crashed"}, ">=3.10"), ({"implementation": "PyPy"}, ">=3.10"), ({"bits": 32}, ">=3.10"),
        ({"version": "3.9.1"}, ">=3.10"), ({"version": "what"}, ">=3.10"), ({}, "<3.12"),
        ({"headers": False}, ">=3.10"), ({"headers": False, "version": "3.13.0rc1"}, ">=3.10"),
    ],
    ids=range(8),
)  # fmt: skip
def test_interpreters_that_cannot_be_used(changes: dict[str, object], needs: str) -> None:
    facts = PythonFacts(**{**vars(GOOD), **changes})  # type: ignore[arg-type]
    if facts.error:
        from xpubuild.machine.pythons import _require_kind

        refuses(lambda: _require_kind(facts))
        return
    refuses(lambda: require_python(Path(GOOD.executable), needs, system=DEBIAN, known=facts))


@pytest.mark.parametrize("version", ["3.12.4", "3.13.0+", "3.14.0rc1"])
def test_one_that_is_known_is_not_asked(version: str) -> None:
    facts = PythonFacts(**{**vars(GOOD), "version": version})
    assert require_python(Path(GOOD.executable), ">=3.10", system=DEBIAN, known=facts) is facts
