"""The facts of a plan, whole: which question gets which answer, and commits that are looked up once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from unit.test_plan_resolved import FIRST, SECOND, request

from xpubuild.errors import FetchError, XpuBuildError
from xpubuild.install import facts, open_commits
from xpubuild.install.choose import choose
from xpubuild.install.jobserver import Jobserver
from xpubuild.install.newest_release import Chosen, built_in, entered
from xpubuild.install.open_commits import keep_resolved, read_resolved, resolve
from xpubuild.install.options import PlanOptions
from xpubuild.install.request import Admission, Compilers, Downloads, Facts, Installer, OneapiFacts, Resolved
from xpubuild.machine.jobs import JobPlan
from xpubuild.recipe.situation import Situation
from xpubuild.workspace.activation import ENTERED
from xpubuild.workspace.layout import Layout

GIB = 1 << 30
ADMISSION = Admission(1, own_group=False, other_jobs=2, program="p")
COMPILERS, ONEAPI = Compilers("cc", "c++", "13"), OneapiFacts(digest="d")
INSTALLER, DOWNLOADS = Installer(why="so"), Downloads(offline=True)
HOST: Any = SimpleNamespace(
    os="the system", compilers="known compilers", cpu=SimpleNamespace(usable=7),
    memory=SimpleNamespace(usable_bytes=9 * GIB), python=SimpleNamespace(selected="known python"),
)  # fmt: skip


class Answers:
    """Takes the place of what looks at the machine: notes each question, gives a fixed answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **other: Any) -> None:
        self.asked: dict[str, tuple[Any, ...]] = {}
        chosen = SimpleNamespace(cxx=SimpleNamespace(version="13.2"))
        given: dict[str, Any] = {
            "resolve_python": "an executable", "choose_compilers": chosen, "can_wait": True,
            "require_python": SimpleNamespace(executable="/python", version="3.12.1"),
            "inherited_jobserver": None, "plan_jobs": JobPlan(5, "a reason", 3, 2), "oneapi_facts": ONEAPI,
            "build_compilers": COMPILERS, "compile_cache": "no cache", "downloads_from": DOWNLOADS,
            "ignored_variables": ("a warning",), "of_host": Situation(gpu="max"), "ocloc_lacks": ("dg2",),
            "installer_for": INSTALLER, "admission_of": ADMISSION, "base_environment": "the base", **other,
        }  # fmt: skip
        for name, answer in given.items():
            monkeypatch.setattr(facts, name, self._asking(name, answer))
        folders = SimpleNamespace(user_cache_path=Path("/cache").joinpath)
        monkeypatch.setattr(facts, "platformdirs", folders)
        monkeypatch.setattr(facts, "os", SimpleNamespace(environ="the environment"))

    def _asking(self, name: str, answer: Any) -> Any:
        def ask(*arguments: Any, **named: Any) -> Any:
            self.asked[name] = (*arguments, *([named] if named else []))
            return answer

        return ask


def test_each_question_gets_what_it_is_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(monkeypatch)
    asked = replace(request(needs={"gcc": ">=11"}), workspace=tmp_path)
    choice, recipe = choose(asked), asked.loaded.recipe
    options = PlanOptions(
        None, python="python3.12", jobs="6", compile_cache="ccache", compile_cache_remote="redis://h",
        mirror=tmp_path, offline=True,
    )  # fmt: skip
    found = facts.facts_of(options, asked, choice, HOST)
    assert found == Facts(
        "/python", "3.12.1", COMPILERS, 5, "a reason", Path("/cache/xpubuild"), {}, oneapi=ONEAPI,
        warnings=("a warning",), situation=Situation(gpu="max", ocloc_lacks=("dg2",)), downloads=DOWNLOADS,
        installer=INSTALLER, compile_cache_why="no cache", admission=ADMISSION, cores=7,
    )  # fmt: skip
    compilers = answers.asked["build_compilers"][0]
    assert answers.asked == {
        "base_environment": (), "resolve_python": ("python3.12", "the base"),
        "require_python": ("an executable", ">=3.10", {"system": "the system", "known": "known python"}),
        "choose_compilers": (
            ">=11", {"caller": "the environment", "system": "the system", "known": "known compilers"},
        ),
        "can_wait": (asked, choice), "plan_jobs": (7, 9 * GIB, 6, 2 * GIB, None, {"can_wait": True}),
        "oneapi_facts": (options, recipe, choice), "build_compilers": (compilers, ONEAPI),
        "compile_cache": ("ccache", "redis://h", COMPILERS, ONEAPI),
        "downloads_from": (tmp_path, {"offline": True}),
        "ignored_variables": (recipe, choice, "the environment"), "of_host": (HOST, "cpu"),
        "ocloc_lacks": (recipe, choice, "13.2", ONEAPI, "the system"),
        "installer_for": (options, tmp_path, DOWNLOADS),
        "admission_of": (JobPlan(5, "a reason", 3, 2), HOST.memory),
    }  # fmt: skip


def test_a_jobserver_gives_the_jobs_where_compilers_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Jobserver("the flags", 3)
    for jobs, waits, used in (("auto", True, True), ("auto", False, False), ("2", True, False)):
        answers = Answers(monkeypatch, inherited_jobserver=server, can_wait=waits, compile_cache="")
        options = PlanOptions(None, jobs=jobs, compile_cache="none")
        found = facts.facts_of(options, request(), choose(request()), HOST)
        assert found.makeflags == ("the flags" if used else "")
        assert found.jobs_reason == ("slots of the jobserver; a reason" if used else "a reason")
        assert answers.asked["plan_jobs"][0] == (3 if used else 7)
        assert (found.compile_cache_off, found.compile_cache_why, found.compile_cache) == (True, "", None)


def test_edits_count_where_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(request(), workspace=tmp_path)
    (tmp_path / "src" / "torch" / ".git").mkdir(parents=True)
    seen: list[tuple[Path, Any]] = []
    monkeypatch.setattr(facts, "dirty_digest", lambda path, skip: seen.append((path, skip)) or "edits")
    assert facts._dirty(asked, choose(asked)) == {}
    edited = replace(asked, allow_dirty=True, with_=("triton",))
    assert facts._dirty(edited, choose(edited)) == {"torch": "edits"}
    assert seen == [(tmp_path / "src" / "torch", [])]
    monkeypatch.setattr(facts, "dirty_digest", lambda *_, **__: None)
    assert facts._dirty(edited, choose(edited)) == {}


def test_commits_are_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, recipe = Layout(tmp_path), request().loaded.recipe
    asked: list[tuple[str, str]] = []

    def named(_: object, url: str, ref: str) -> str:
        asked.append((url, ref))
        return FIRST

    monkeypatch.setattr(open_commits, "named_commit", named)
    store: Any = object()
    found = resolve(recipe, ["torch", "triton"], layout, store=store)
    (item,) = found.values()
    assert (list(found), item) == (["torch"], Resolved("main", FIRST, "https://host/torch.git", item.when))
    assert (item.when[4], item.when[10]) == ("-", "T")
    assert asked == [("https://host/torch.git", "main")]
    keep_resolved(layout, {})
    assert not layout.resolved.exists()
    other = Resolved("r", SECOND, "u", "w")
    keep_resolved(layout, {"other": other})
    keep_resolved(layout, found)
    assert read_resolved(layout.resolved) == {"other": other, **found}
    written = json.loads(layout.resolved.read_text())
    assert (written["version"], list(written["resolved"])) == (1, ["other", "torch"])
    assert layout.resolved.read_text().startswith('{\n "resolved"')
    assert resolve(recipe, ["torch"], layout, store=store) == found
    assert len(asked) == 1
    resolve(recipe, ["torch"], layout, store=store, update=True)
    keep_resolved(layout, {"torch": replace(item, ref="old")})
    resolve(recipe, ["torch"], layout, store=store)
    keep_resolved(layout, {"torch": replace(item, url="old")})
    resolve(recipe, ["torch"], layout, store=store)
    assert len(asked) == 4
    keep_resolved(layout, {"torch": replace(item, commit="main")})
    assert list(read_resolved(layout.resolved)) == ["other"]
    for text in ("{", "[]", "{}", '{"resolved": []}', '{"resolved": {"a": {"b": 1}}}'):
        layout.resolved.write_text(text)
        assert read_resolved(layout.resolved) == {}

    def fails(*_: object) -> str:
        raise FetchError("no answer", why="it is down", fix="try again", commands=("c",), evidence={"a": 1})

    monkeypatch.setattr(open_commits, "named_commit", fails)
    with pytest.raises(FetchError) as caught:
        resolve(recipe, ["torch"], layout, store=store)
    assert caught.value.why == (
        "recipe 'mine' follows main, whose commit must be looked up upstream: it is down"
    )


def test_a_workspace_says_what_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENTERED, raising=False)
    assert entered() is None
    assert built_in(tmp_path) is None
    for target, expected in (("cpu", "cpu"), ("xpu", "xpu"), (None, "xpu")):
        summary = {} if target is None else {"summary": {"target": target}}
        (tmp_path / "receipt.json").write_text(json.dumps({"recipe": "mine", **summary}))
        assert built_in(tmp_path) == Chosen("mine", expected, "the recipe of this workspace", tmp_path)
    monkeypatch.setenv(ENTERED, str(tmp_path))
    assert entered() == Chosen("mine", "xpu", "the active workspace", tmp_path)
    (tmp_path / "receipt.json").unlink()
    with pytest.raises(XpuBuildError):
        entered()
