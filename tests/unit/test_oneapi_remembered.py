"""Captures of oneAPI that are remembered, what is odd about them, and those that cannot be made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from unit.test_oneapi_whole import whole

from xpubuild.errors import XpuBuildError
from xpubuild.machine import oneapi_cache as cache
from xpubuild.machine import oneapi_trust as trust
from xpubuild.machine.envdiff import EnvDiff, PathChange
from xpubuild.machine.oneapi_capture import Capture, Request, capture
from xpubuild.machine.oneapi_components import Component
from xpubuild.machine.oneapi_statuses import ScriptStatus
from xpubuild.machine.oneapi_validate import _missing_entries, _relative_entries


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api"


def request(place: Path, **changes: Any) -> Request:
    given: dict[str, Any] = {
        "root": place, "mode": "components", "scripts": (place / "a.sh", place / "b.sh"),
        "environment": {"HOME": "/h", "USER": "u", "PATH": "/p", "TERM": "x"},
    }  # fmt: skip
    return Request(**{**given, **changes})


def captured(place: Path, **changes: Any) -> Capture:
    difference = EnvDiff(set={"A": "b"}, paths={"PATH": PathChange(prepend=("/x",))})
    statuses = tuple(
        ScriptStatus(place / name, code, entry=False) for name, code in (("a.sh", 0), ("b.sh", 2))
    )
    before = {"HOME": "/h", "USER": "u", "PATH": "/p", "TERM": "x"}
    after = {**before, "A": "b", "PATH": "/x:/p"}
    given: dict[str, Any] = {
        "before": before,
        "after": after,
        "diff": difference,
        "statuses": statuses,
        "noise": ("n",),
    }
    return Capture(**{**given, **changes})


def test_a_remembered_capture_is_the_same_one(place: Path) -> None:
    assert cache.store(place, "k", captured(place)) == ()
    again = cache.load(place, "k", request(place))
    assert again is not None
    told = f"{place / 'b.sh'} exited with code 2: unknown exit code; only the variables that were set matter"
    assert whole(again.warnings) == [
        (
            "oneapi-script-status",
            told,
            {"script": str(place / "b.sh"), "status": 2, "meaning": told.split(": ")[1]},
        )
    ]
    assert replace(again, warnings=()) == captured(place)
    assert cache.load(place, "other", request(place)) is None
    assert cache.load(place, "k", request(place, scripts=(place / "a.sh",))) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [("schema", "x/1"), ("key", "other"), ("digest", "0"), ("diff", {}), ("statuses", ["0", 1]),
     ("statuses", None),     ("statuses", [0]), ("noise", None), ("noise", [1])],
)  # fmt: skip
def test_a_damaged_memory_is_none(place: Path, key: str, value: object) -> None:
    cache.store(place, "k", captured(place))
    file = place / "oneapi" / "k.json"
    document = cache.json.loads(file.read_text())
    file.write_text(cache.json.dumps({**document, key: value}))
    assert cache.load(place, "k", request(place)) is None


def test_a_memory_without_secrets_and_one_that_cannot_be_written(place: Path) -> None:
    secret = {"https_proxy": "http://me:pw@p:1"}
    copied = captured(place, before=secret, diff=EnvDiff(set={"A": "x http://me:pw@p:1/"}))
    assert cache.store(place, "k", copied) == ()
    assert not place.exists()
    place.touch()
    ((code, told, evidence),) = whole(cache.store(place, "k", captured(place)))
    assert (code, evidence) == ("oneapi-cache-unwritable", {})
    assert told.startswith("the oneAPI environment could not be cached: ")


def test_what_a_memory_depends_on(place: Path) -> None:
    for name in ("a.sh", "b.sh", "c.sh", "d/setvars.sh", "d/beside"):
        standin.write(place / name, name)
    component = Component("a", "1", place, place / "a.sh", "component", is_latest=True)
    wished = request(place)

    def key(asked: Request = wished, *components: Component) -> str:
        return cache.cache_key(asked, components or (component,))

    usual = key()
    environment = dict(wished.environment)
    changes: list[Request] = [
        replace(wished, mode="setvars"), replace(wished, arguments=("x",)),
        replace(wished, scripts=wished.scripts[::-1]), replace(wished, hashed=(place / "d/setvars.sh",)),
        *(replace(wished, environment={**environment, name: "other"}) for name in ("HOME", "USER", "PATH")),
    ]  # fmt: skip
    others = [
        replace(component, name="b"),
        replace(component, version="2"),
        replace(component, path=place / "x"),
    ]
    keys = {usual, *map(key, changes), *(key(wished, other) for other in others)}
    assert len(keys) == 1 + len(changes) + len(others)
    assert key(replace(wished, environment={**environment, "TERM": "y"})) == usual
    (place / "c.sh").write_text("beside a script")
    assert key() != usual
    entry = replace(wished, scripts=(place / "d/setvars.sh",))
    before = key(entry)
    (place / "d/beside").write_text("not read by it")
    assert key(entry) == before


def test_paths_that_do_not_exist_or_are_relative_are_told(tmp_path: Path) -> None:
    paths = {
        "PATH": PathChange(prepend=("/none/a", str(tmp_path)), append=("rel", "%x")),
        "CPATH": PathChange(prepend=("include",)),
        "OTHER": PathChange(prepend=("relative",)),
    }
    taken = captured(tmp_path, diff=EnvDiff(paths=paths))
    missing = [f"the scripts put {name} on PATH, which does not exist" for name in ("/none/a", "rel", "%x")]
    assert whole(_missing_entries(taken)) == [("oneapi-path-missing", told, {}) for told in missing]
    assert _missing_entries(captured(tmp_path, diff=EnvDiff())) == ()
    assert whole(_relative_entries(taken)) == [
        ("oneapi-path-relative", "the scripts put the relative path 'include' into CPATH", {}),
        ("oneapi-path-relative", "the scripts put the relative path 'rel' into PATH", {}),
    ]


def test_a_script_that_cannot_be_looked_at(tmp_path: Path) -> None:
    with pytest.raises(XpuBuildError):
        trust.require_trusted([tmp_path / "gone.sh"], tmp_path)


def test_a_machine_without_bash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xpubuild.machine.oneapi_capture.shutil.which", lambda *_names, **_more: None)
    script = standin.write(tmp_path / "vars.sh", "")
    with pytest.raises(XpuBuildError):
        capture(request(tmp_path, scripts=(script,)))


def test_a_list_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = standin.write(tmp_path / "capture.sh", '#!/bin/sh\n[ "$PATH" ] && exit 7\n', mode=0o755)
    monkeypatch.setattr("xpubuild.machine.oneapi_capture.resources.setvars_dir", lambda: odd.parent)
    script = standin.write(tmp_path / "vars.sh", "")
    environment = {"PATH": "/usr/bin:/bin"}
    said: list[XpuBuildError] = []
    for text in ("exit 7", "for i in $(seq 50); do echo line $i; done; exit 8"):
        odd.write_text(f"{text}\n")
        with pytest.raises(XpuBuildError, match="could not be read") as caught:
            capture(request(tmp_path, scripts=(script,), environment=environment))
        said.append(caught.value)
        caught.value.commands = ()
    assert said[0].why == "capture.sh exited with code 7"
    assert said[1].evidence == {"output": [f"line {number}" for number in range(11, 51)], "status": 8}
    assert said[1].why == "line 50"
