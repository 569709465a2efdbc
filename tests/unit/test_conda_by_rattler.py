"""What py-rattler's process is told and what becomes of its answers: every kind of failure, whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.said import answer, program, sleeper

from xpubuild.errors import XpuBuildError
from xpubuild.supply.conda import by_rattler
from xpubuild.supply.conda.channels import Channel
from xpubuild.supply.conda.engines import Engines
from xpubuild.supply.conda.solve import Wanted, make_lock, spec_name

CHANNEL = Channel("https://me:secret-word@host.invalid/forge")
SPECS = ("cmake >=3.27", "ninja")
ENV = {"PATH": "/usr/bin:/bin", "A": "b"}


def record(name: str = "cmake", version: str = "3.31", **changes: Any) -> dict[str, Any]:
    filename = f"{name}-{version}-h0.conda"
    return {
        "name": name, "version": version, "filename": filename, "size": 5,
        "sha256": "1" * 64, "md5": "2" * 32,
        "url": f"https://me:secret-word@host.invalid/forge/linux-64/{filename}",
        "depends": ["libstdcxx-ng >=13", "python 3.12.* *_cp312", "zlib ==1.3", "bare"], **changes,
    }  # fmt: skip


def engine(folder: Path, says: str) -> Engines:
    return Engines(rattler=program(folder, "python", says).path)


def solved(engines: Engines, folder: Path) -> Any:
    scratch = folder / "cache" / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    return by_rattler.solve(SPECS, [CHANNEL], engines, ENV, scratch)


def test_the_job_goes_through_standard_input_and_packages_come_back(tmp_path: Path) -> None:
    child = program(tmp_path, "python", answer(json.dumps({"ok": [record(), record(name="a", size=None)]})))
    packages = solved(Engines(rattler=child.path), tmp_path)
    (call,) = child.calls()
    assert call["argv"] == ["-I", str(Path(by_rattler.__file__).with_name("rattler_child.py"))]
    assert call["env"].items() >= ENV.items()
    assert json.loads(call["stdin"]) == {
        "action": "solve", "channels": [CHANNEL.address], "specs": list(SPECS), "platform": "linux-64",
        "virtual": [["__unix", "0", "0"], ["__linux", "5.10", "0"], ["__glibc", "2.28", "0"],
                    ["__archspec", "1", "x86_64"]],
        "cache": str(tmp_path / "cache" / "repodata"),
    }  # fmt: skip
    first, second = packages
    assert (second.name, second.size) == ("a", None)
    assert vars(first) == {
        "name": "cmake", "version": "3.31", "build": "h0", "filename": "cmake-3.31-h0.conda", "size": 5,
        "url": "https://host.invalid/forge/linux-64/cmake-3.31-h0.conda", "sha256": "1" * 64, "md5": "2" * 32,
        "dependencies": {"libstdcxx-ng": ">=13", "python": "3.12.*", "zlib": "1.3", "bare": ""},
    }  # fmt: skip


@pytest.mark.parametrize(
    "says",
    [
        *(answer(json.dumps({"error": kind, "message": f" secret-word: {kind}\n"}))
          for kind in ("missing", "unsatisfiable", "unreachable", "invalid", "failed")),
        answer(json.dumps({"ok": [record(sha256="")]})), answer(json.dumps({"ok": [record(md5="")]})),
        "echo '[]'", "echo no JSON; printf 'first\\n\\nlast\\n \\n' >&2", "exit 7",
    ],
    ids=range(10),
)  # fmt: skip
def test_no_solution_says_why_and_shows_no_login(tmp_path: Path, says: str) -> None:
    with pytest.raises(XpuBuildError) as caught:
        solved(engine(tmp_path, says), tmp_path)
    assert "secret-word" not in json.dumps(caught.value.to_json())


@pytest.mark.parametrize(
    "says",
    [
        *(answer(json.dumps({"error": kind, "message": kind})) for kind in ("missing", "failed")),
        answer(json.dumps({"error": "failed", "message": "a file: No space left on device (os error 28)"})),
        "exit 7",
    ],
    ids=range(4),
)  # fmt: skip
def test_what_cannot_be_installed_says_why(tmp_path: Path, says: str) -> None:
    with pytest.raises(XpuBuildError):
        by_rattler.install(tmp_path / "c", tmp_path / "my env", {}, engine(tmp_path, says), ENV)


def test_an_installation_is_told_the_hashes(tmp_path: Path) -> None:
    child = program(tmp_path, "python", """echo '{"ok": []}'""")
    engines = Engines(rattler=child.path)
    by_rattler.install(tmp_path / "s" / "channel", tmp_path / "env", {"a.conda": "1" * 64}, engines, ENV)
    assert json.loads(child.calls()[0]["stdin"]) == {
        "action": "install", "folder": str(tmp_path / "s" / "channel"), "prefix": str(tmp_path / "env"),
        "sha256": {"a.conda": "1" * 64}, "cache": str(tmp_path / "s" / "unpacked"),
    }  # fmt: skip


def test_one_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_rattler, "_SOLVE_S", 0.3)
    monkeypatch.setattr(by_rattler, "_INSTALL_S", 0.3)
    engines = Engines(rattler=sleeper(tmp_path, "python").path)
    with pytest.raises(XpuBuildError):
        solved(engines, tmp_path)
    with pytest.raises(XpuBuildError):
        by_rattler.install(tmp_path / "c", tmp_path / "env", {}, engines, ENV)
    assert by_rattler._install_failed("x").why == "x"


def test_without_rattler_nothing_is_run(tmp_path: Path) -> None:
    with pytest.raises(XpuBuildError):
        solved(Engines(conda="/c/conda"), tmp_path)
    with pytest.raises(XpuBuildError):
        by_rattler.install(tmp_path, tmp_path, {}, Engines(conda="/c/conda"), ENV)


WANTED = Wanted(SPECS, (CHANNEL,))


def locked(wanted: Wanted, engines: Engines, cache: Path) -> tuple[str, list[str]]:
    said: list[str] = []
    return make_lock(wanted, engines, environment=ENV, cache=cache, report=said.append), said


def test_a_lock_of_what_was_solved(tmp_path: Path) -> None:
    says = answer(json.dumps({"ok": [record(), record("ninja", "1.13", depends=[])]}))
    text, said = locked(WANTED, engine(tmp_path / "bin", says), tmp_path / "cache")
    assert said == ["py-rattler solves"]
    assert WANTED.content_hash() in text
    assert "secret-word" not in text
    assert WANTED.content_hash() == replace(WANTED, specs=SPECS[::-1]).content_hash()
    other = replace(WANTED, channels=(Channel("conda-forge"),))
    assert len({WANTED.content_hash(), other.content_hash(), Wanted(("a",), (CHANNEL,)).content_hash()}) == 3
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_older_libstdcxx_is_asked_for_once_more(tmp_path: Path) -> None:
    old, new = ([record("libstdcxx-ng", version, depends=[])] for version in ("11.2.0", "13.2.0"))
    wanted = Wanted(("libstdcxx-ng",), (CHANNEL,), "GLIBCXX_3.4.30")
    flag = tmp_path / "again"
    first = answer(json.dumps({"ok": old}))
    for second in ({"ok": new}, {"error": "unsatisfiable", "message": "there is none"}):
        flag.unlink(missing_ok=True)
        child = program(
            tmp_path / "bin", "python",
            f"if [ -e '{flag}' ]; then\n{answer(json.dumps(second))}\nelse\n{first}\nfi\n: >'{flag}'",
        )  # fmt: skip
        child.notes.unlink(missing_ok=True)
        if "ok" in second:
            text, said = locked(wanted, Engines(rattler=child.path), tmp_path / "cache")
            assert "libstdcxx-ng-13.2.0" in text
            assert wanted.content_hash() in text
            assert said[1] == (
                "libstdcxx-ng 11.2.0 is older than this machine's GPU driver needs: requesting 12.1"
            )
        else:
            with pytest.raises(XpuBuildError):
                locked(wanted, Engines(rattler=child.path), tmp_path / "cache")
        specs = [json.loads(call["stdin"])["specs"] for call in child.calls()]
        assert specs == [["libstdcxx-ng"], ["libstdcxx-ng", "libstdcxx-ng >=12.1"]]


@pytest.mark.parametrize(
    "wanted", [Wanted((), (CHANNEL,)), Wanted(SPECS, ()), WANTED, Wanted((">=1",), (CHANNEL,))]
)
def test_nothing_to_solve_and_nothing_that_solves(tmp_path: Path, wanted: Wanted) -> None:
    with pytest.raises(XpuBuildError):
        locked(wanted, Engines(conda="/c/conda"), tmp_path)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("cmake", "cmake"), ("conda-forge::cmake >=3.27,<4", "cmake"), ("python=3.12", "python"),
        ("a<2", "a"), ("a>2", "a"), ("a!=2", "a"), ("a~=2", "a"), ("a[build=x]", "a"), (" a 1", "a"),
    ],
)  # fmt: skip
def test_the_name_of_a_specification(spec: str, name: str) -> None:
    assert spec_name(spec) == name
