"""What is gathered for a plan beside its compilers: pip's settings, earlier builds, sizes, who is asked."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.plan_files import _LOCK, context_for
from unit.test_plan_resolved import request

from xpubuild.engine.edges import History
from xpubuild.errors import UnsatisfiableError
from xpubuild.install import facts, prepare
from xpubuild.install.choose import choose
from xpubuild.install.downloads import _pip
from xpubuild.install.earlier import _edges, _has_pin, histories_of, known_of
from xpubuild.install.jobserver import inherited_jobserver
from xpubuild.install.newest_release import Chosen, choose_release
from xpubuild.install.options import PlanOptions
from xpubuild.install.site_folders import extended, site_folders
from xpubuild.install.stores import read_only_because
from xpubuild.machine.envdiff import PathChange
from xpubuild.machine.host_report import host_report
from xpubuild.machine.jobs import LargeUnit
from xpubuild.recipe.releases import releases
from xpubuild.recipe.situation import Situation
from xpubuild.resources import recipes_dir
from xpubuild.supply.conda.lockfile import write_lock
from xpubuild.workspace.layout import Layout

GIB = 1 << 30


@pytest.mark.parametrize(
    ("mirror", "offline", "environ", "told"),
    [
        (None, False, {"PIP_FIND_LINKS": "/a"}, {}),
        (None, True, {"PIP_FIND_LINKS": "/a"}, {"PIP_NO_INDEX": "1"}),
        (Path("/a mirror"), False, {}, {"PIP_FIND_LINKS": "file:///a%20mirror/wheels.html"}),
        (Path("/m"), False, {"PIP_FIND_LINKS": "/a /b"}, {"PIP_FIND_LINKS": "/a /b file:///m/wheels.html"}),
        (
            Path("/a mirror"), True, {"PIP_FIND_LINKS": "/a"},
            {
                "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "file:///a%20mirror/wheels.html",
                "PIP_NO_CACHE_DIR": "1",
            },
        ),
    ],
)  # fmt: skip
def test_what_pip_is_told(mirror: Path | None, offline: bool, environ: dict[str, str], told: Any) -> None:
    found = _pip(mirror, offline=offline, environ=environ)
    assert {name: found[name] for name in told} == told
    assert offline or found == told


LOG = "# ninja log v6\n0\t2000\t0\ta.o\t1\n1000\t3000\t0\tb.o\t2\n500\t1500\t0\tc.o\t3\n"


def logged(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / ".ninja_log").write_text(text)


def test_edges_of_the_largest_build_of_a_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    other = tmp_path / "data" / "xpubuild" / "other"
    logged(other / "build" / "ops", LOG)
    (other / "journal.db").touch()
    own = tmp_path / "ws"
    logged(own / "src" / "ops" / "build", LOG[: LOG.index("1000")])
    logged(own / "build" / "ops" / "x", "something else")
    context = context_for("quickstart", workspace=str(own))
    # The second run of ninja begins where the first one ended.
    edges = [("a.o", 0.0, 2.0), ("b.o", 1.0, 3.0), ("c.o", 3.5, 4.5)]
    assert _edges(Layout(other), "ops") == edges
    assert histories_of(context, ["ops.wheel", "ops.install", "ops.source", "torch.wheel", "verify"]) == {
        "ops.wheel": History.of(edges), "ops.install": History.of(edges),
    }  # fmt: skip


def test_commits_that_are_cached_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    known = known_of(context_for("2.13", workspace=str(tmp_path / "ws"), facts={"cache": tmp_path}))
    assert (known.earlier, known.cached) == ([], {"ops"})
    (tmp_path / "packed-refs").write_text("abc refs/pins/1\n")
    (tmp_path / "refs" / "pins").mkdir(parents=True)
    (tmp_path / "refs" / "pins" / "2").touch()
    pins = [name for name in ("1", "2", "3") if _has_pin(tmp_path, f"refs/pins/{name}")]
    assert pins == ["1", "2"]
    assert not _has_pin(tmp_path / "nothing", "refs/pins/1")


def test_the_largest_units_are_those_of_the_target_and_the_compiler() -> None:
    both = ["cpu", "xpu"]
    units = [
        {"what": "for the GPU", "gib_each": 1.5, "gib_largest": 9, "targets": ["xpu"]},
        {"what": "with an old GCC", "gib_each": 1, "gib_largest": 7, "gcc": "<12", "targets": both},
        {"what": "one", "gib_each": 0.5, "gib_largest": 2.5, "targets": both},
        {"what": "another", "gib_each": 3, "gib_largest": 2, "targets": both},
    ]
    pinned = {"url": "https://host/torch.git", "commit": "1" * 40}
    build = {"memory_gib_per_job": 3.5, "large_units": units}
    torch = {"kind": "source", "dist": "torch", "source": pinned, "build": build}
    asked = request(components={"torch": torch}, targets=["cpu", "xpu"])
    recipe, choice = asked.loaded.recipe, choose(asked)
    expected = {("cpu", "13.2"): (2, 0.5, 2.5), ("cpu", "11.4"): (1, 1, 7), ("xpu", "13.2"): (0, 1.5, 9)}
    for (target, gcc), (index, each, largest) in expected.items():
        found = facts._largest_units(recipe, replace(choice, target=target), gcc)  # type: ignore[arg-type]
        assert found == LargeUnit(str(units[index]["what"]), int(each * GIB), int(largest * GIB))
    assert facts._bytes_per_job(recipe, choice) == int(3.5 * GIB)
    assert facts._largest_units(recipe, replace(choice, components=()), "13.2") is None
    assert facts._bytes_per_job(recipe, replace(choice, components=())) == 2 * GIB


@pytest.mark.parametrize(
    ("flags", "usable"),
    [(f"-j2 --jobserver-auth=fifo:/{'x' * 5000}", False), ("-j0 --jobserver-auth=fifo:{}", False),
     ("-j1 --jobserver-auth=fifo:{}", True), ("-j9 -j1 --jobserver-auth=3,4 --jobserver-auth=fifo:{}", True)],
)  # fmt: skip
def test_which_jobserver_can_be_used(tmp_path: Path, flags: str, usable: bool) -> None:
    os.mkfifo(tmp_path / "f")
    found = inherited_jobserver({"MAKEFLAGS": flags.format(tmp_path / "f")})
    assert (found is not None) == usable
    assert found is None or (found.jobs, found.makeflags) == (1, f" -j1 --jobserver-auth=fifo:{tmp_path}/f")


def test_why_no_store_is_written() -> None:
    merge, tag = (
        {"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "1"},
        {"GITLAB_CI": "true", "CI_COMMIT_TAG": "v"},
    )
    told = {
        "--store-read-only": (True, {}),
        "this is a CI job of a pull request": (None, {"GITHUB_EVENT_NAME": "pull_request"}),
        "this is a CI job of a pull request target": (None, {"GITHUB_EVENT_NAME": "pull_request_target"}),
        "this is a CI job of a release": (
            None,
            {"GITHUB_EVENT_NAME": "release", "GITHUB_REF_TYPE": "branch"},
        ),
        "this is a CI job of a tag": (None, {"GITHUB_EVENT_NAME": "push", "GITHUB_REF_TYPE": "tag"}),
        "this is a CI job of a merge request": (None, merge),
        "": (False, {"GITHUB_REF_TYPE": "tag"}),
    }
    for why, (asked, environ) in told.items():
        assert read_only_because(asked, environ) == why
    assert read_only_because(None, tag) == "this is a CI job of a tag"
    for environ in ({}, {"GITHUB_EVENT_NAME": "push"}, {"CI_COMMIT_TAG": "v"}, {"GITLAB_CI": "true"}):
        assert read_only_because(None, environ) == ""


def test_folders_of_a_site_stand_behind_those_in_front(tmp_path: Path) -> None:
    options = PlanOptions(None, extra_path=(tmp_path,), extra_library_path=(tmp_path, Path("/")))
    folders = {"PATH": (str(tmp_path),), "LD_LIBRARY_PATH": (str(tmp_path), "/")}
    assert site_folders(options, "xpu") == folders
    assert site_folders(options, "cpu") == {}
    assert site_folders(PlanOptions(None), "xpu") == {}
    before = {"PATH": PathChange(("/a", str(tmp_path)), ("/b",), ("/c",)), "X": PathChange(("/d",))}
    assert extended(before.items(), folders) == {
        **before, "LD_LIBRARY_PATH": PathChange((str(tmp_path), "/"), (), ()),
    }  # fmt: skip
    assert extended([("PATH", PathChange(("/a",)))], {"PATH": ("/e",)}) == {"PATH": PathChange(("/a", "/e"))}


def test_the_release_that_is_taken_is_the_newest_that_can_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Situation(
        gpu="max", gpu_targets=("pvc",), driver="rolling", oneapi=("2025.3",), python=("3.11.9",),
        gcc="13.2.0", host_compiler="GNU",
    )  # fmt: skip
    bare = host_report(tmp_path)
    known = [item for item in releases(recipes_dir()) if item.version in ("2.13.0", "2.12.1")]
    why = "2.13.0 is the newest release that this host can build for xpu"
    assert choose_release(known, bare, None, here) == Chosen("2.13", "xpu", why)
    assert choose_release(known, bare, "cpu", here).why == why.replace("xpu", "cpu")
    newest = [item for item in releases(recipes_dir()) if item.version in ("2.15.0", "2.13.0")]
    assert choose_release(newest, bare, "cpu", here) == Chosen(
        "2.13", "cpu", "2.13.0 is the newest release that this host can build for cpu; not chosen: 2.15.0:"
        " its commit is not in the recipe ('xpubuild install 2.15' looks it up)",
    )  # fmt: skip
    seen: list[Situation] = []

    def solved(*arguments: Any) -> Chosen:
        seen.append(arguments[3])
        return Chosen("2.13", "cpu", "why", tmp_path)

    monkeypatch.setattr(prepare, "choose_release", solved)
    monkeypatch.setattr(prepare, "situation_for", lambda *_: here)
    host: Any = SimpleNamespace(report=bare)
    for abi in (None, "0"):
        options, told = prepare._named(PlanOptions(None, cxx11_abi=abi), host)
        assert (options.recipe, options.target, options.workspace, told) == ("2.13", "cpu", tmp_path, "why")
    assert [item.cxx11_abi for item in seen] == [None, 0]
    kept = PlanOptions("a recipe", tmp_path / "x", target="xpu")
    assert prepare._named(kept, host) == (kept, "")
    named, _ = prepare._named(replace(kept, recipe=None), host)
    assert (named.target, named.workspace) == ("xpu", tmp_path / "x")


def test_the_python_of_a_conda_lock_is_what_the_recipe_needs(monkeypatch: pytest.MonkeyPatch) -> None:

    lock, host = write_lock(_LOCK), SimpleNamespace()
    asked = request(needs={"python": ">=3.12"})
    assert facts._python(PlanOptions(None), asked, host, lock) == ("/ws/env/bin/python", "3.12.4")  # type: ignore[arg-type]
    with pytest.raises(UnsatisfiableError):
        facts._python(PlanOptions(None), request(needs={"python": "<3.12"}), host, lock)  # type: ignore[arg-type]
