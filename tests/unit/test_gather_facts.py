"""What is gathered for a plan: jobs, sizes, folders of a site, stores, and which release is taken."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.plan_files import _LOCK
from support.plans import chosen, pinned

from xpubuild.errors import UnsatisfiableError
from xpubuild.install import release, resolve
from xpubuild.install.build_jobs import capacity, inherited_jobserver
from xpubuild.install.kept import read_only_because
from xpubuild.install.options import Options
from xpubuild.install.release import Chosen, choose_release, named
from xpubuild.install.supplies import downloads_from
from xpubuild.install.xpu_toolchain import site_folders
from xpubuild.machine.host_report import host_report
from xpubuild.recipe.releases import releases
from xpubuild.recipe.situation import Situation
from xpubuild.resources import recipes_dir
from xpubuild.supply.conda.lockfile import write_lock
from xpubuild.supply.depot.folder import Depot

GIB = 1 << 30


@pytest.mark.parametrize(
    ("mirror", "offline", "find_links", "told"),
    [
        (False, False, "/a", {}),
        (False, True, "/a", {"PIP_NO_INDEX": "1"}),
        (True, False, "", {"PIP_FIND_LINKS": "{mirror}"}),
        (True, False, "/a /b", {"PIP_FIND_LINKS": "/a /b {mirror}"}),
        (
            True, True, "/a",
            {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "{mirror}",
             "PIP_NO_CACHE_DIR": "1"},
        ),
    ],
)  # fmt: skip
def test_what_pip_is_told(
    mirror: bool, offline: bool, find_links: str, told: dict[str, str], tmp_path: Path, *,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("PIP_FIND_LINKS", find_links)
    monkeypatch.setattr(Depot, "open", lambda _: None)
    found = downloads_from(tmp_path / "a mirror" if mirror else None, offline=offline).pip
    page = (tmp_path / "a mirror" / "wheels.html").as_uri()
    assert {name: found[name].replace(page, "{mirror}") for name in told} == told
    assert offline or set(found) == set(told)


HOST: Any = SimpleNamespace(
    cpu=SimpleNamespace(usable=7),
    memory=SimpleNamespace(usable_bytes=9 * GIB, cgroup_limit_bytes=None, total_bytes=16 * GIB),
)


@pytest.mark.parametrize(
    ("device", "gcc", "words"),
    [
        ("cpu", "13.2", "9 GiB allows 3 at 3 GiB each, the largest 2 GiB (another)"),
        ("cpu", "11.4", "the largest 7 GiB (with an old GCC)"),
        ("xpu", "13.2", "9 GiB allows 1 at 1.5 GiB each, the largest 9 GiB (for the GPU)"),
    ],
)
def test_the_largest_units_are_those_of_the_device_and_the_compiler(
    device: Any, gcc: str, words: str
) -> None:
    both = ["cpu", "xpu"]
    units = [
        {"what": "for the GPU", "gib_each": 1.5, "gib_largest": 9, "targets": ["xpu"]},
        {"what": "with an old GCC", "gib_each": 1, "gib_largest": 7, "gcc": "<12", "targets": both},
        {"what": "one", "gib_each": 0.5, "gib_largest": 1.5, "targets": both},
        {"what": "another", "gib_each": 3, "gib_largest": 2, "targets": both},
    ]
    torch = pinned("torch", more={"build": {"memory_gib_per_job": 3.5, "large_units": units}})
    choice = chosen(components={"torch": torch}, targets=both)
    jobs, admission, makeflags = capacity(replace(choice, device=device), HOST, gcc)
    assert words in jobs.reason
    assert (admission, makeflags) == (None, "")
    assert "9 GiB allows 4 at 2 GiB each" in capacity(replace(choice, components=()), HOST, gcc)[0].reason


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


def test_folders_of_a_site(tmp_path: Path) -> None:
    options = Options(None, extra_path=(tmp_path,), extra_library_path=(tmp_path, Path("/")))
    folders = {"PATH": (str(tmp_path),), "LD_LIBRARY_PATH": (str(tmp_path), "/")}
    assert site_folders(options) == folders
    assert site_folders(Options(None)) == {}


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

    monkeypatch.setattr(release, "choose_release", solved)
    monkeypatch.setattr(release, "situation_for", lambda *_: here)
    for abi in (None, "0"):
        options, told = named(Options(None, cxx11_abi=abi), lambda: bare)
        assert (options.recipe, options.target, options.workspace, told) == ("2.13", "cpu", tmp_path, "why")
    assert [item.cxx11_abi for item in seen] == [None, 0]
    kept = Options("a recipe", tmp_path / "x", target="xpu")
    assert named(kept, lambda: bare) == (kept, "")
    again, _ = named(replace(kept, recipe=None), lambda: bare)
    assert (again.target, again.workspace) == ("xpu", tmp_path / "x")


def test_the_python_of_a_conda_lock_is_what_the_recipe_needs() -> None:
    lock, host = write_lock(_LOCK), SimpleNamespace()
    assert resolve._python(chosen(needs={"python": ">=3.12"}), host, lock) == ("/ws/env/bin/python", "3.12.4")  # type: ignore[arg-type]
    with pytest.raises(UnsatisfiableError, match=r"the conda lock has Python 3\.12\.4"):
        resolve._python(chosen(needs={"python": "<3.12"}), host, lock)  # type: ignore[arg-type]
