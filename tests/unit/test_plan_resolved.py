"""A commit that was looked up is what the planner plans with; what is not known stays an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.plans import FIRST, SECOND, chosen, plan_of, resolved, target_of

from xpubuild.errors import FetchError, RecipeError, XpuBuildError
from xpubuild.install import resolve as supplies
from xpubuild.install.options import Resolved
from xpubuild.install.release import Chosen, built_in
from xpubuild.install.resolve import ignored_variables, keep_resolved, read_resolved, resolve_commits
from xpubuild.workspace.activation import ENTERED


def test_without_a_commit_there_is_no_plan() -> None:
    with pytest.raises(RecipeError, match="has no commit"):
        plan_of()


def test_the_commit_that_was_found_decides() -> None:
    one, same, other = (plan_of(facts=resolved(commit)) for commit in (FIRST, FIRST, SECOND))
    assert one.lock_digest == same.lock_digest != other.lock_digest
    prints = [plan.fingerprints["torch.source"] for plan in (one, same, other)]
    assert prints[0] == prints[1] != prints[2]
    (line,) = one.summary["resolved"]
    assert line == f"torch: main is {FIRST} (looked up 2026-01-31T12:00:00+0000)"
    step = one.step("torch.source")
    assert FIRST in step.commands[0].argv
    assert "recipe-tree" in [(proof.key() or {})["proof"] for proof in step.proofs]
    later = {"resolved": {"torch": replace(resolved(FIRST)["resolved"]["torch"], when="later")}}
    assert plan_of(facts=later).lock_digest == one.lock_digest
    older = plan_of(facts=resolved(FIRST), patches={"1.0.0": {"title": "older"}})
    assert older.lock_digest == one.lock_digest


@pytest.mark.parametrize(("with_", "commit"), [((), None), (("triton",), SECOND)])
def test_a_pin_of_triton_counts_where_triton_is_built(with_: tuple[str, ...], commit: str | None) -> None:
    proofs = plan_of({"with_": with_}, resolved(FIRST)).step("torch.source").proofs
    (proof,) = (proof for proof in proofs if (proof.key() or {})["proof"] == "recipe-tree")
    assert proof.wanted.triton_commit == commit  # type: ignore[attr-defined]


def test_the_shell_is_heard_where_it_would_have_mattered() -> None:
    shell = {"USE_XPU": "0", "PYTORCH_DEBUG_XPU_FALLBACK": "1", "TRITON_OFFLINE_BUILD": "1"}
    shell |= {"ZE_AFFINITY_MASK": "1"}  # this one is passed on: which devices a job may use
    choice = chosen()
    (text,) = ignored_variables(choice, shell)
    assert text.endswith(": TRITON_OFFLINE_BUILD, USE_XPU")
    (text,) = ignored_variables(replace(choice, device="xpu"), shell)
    assert text.endswith(": PYTORCH_DEBUG_XPU_FALLBACK, TRITON_OFFLINE_BUILD, USE_XPU")
    assert ignored_variables(replace(choice, components=()), shell) == ()
    assert ignored_variables(choice, {"HOME": "/h"}) == ()


def test_commits_are_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def named(_: object, url: str, ref: str) -> str:
        asked.append((url, ref))
        return FIRST

    monkeypatch.setattr(supplies, "named_commit", named)
    choice, store = chosen({"workspace": tmp_path}), Any
    layout = choice.layout
    found = resolve_commits(choice, store)  # type: ignore[arg-type]
    (item,) = found.values()
    assert (list(found), item) == (["torch"], Resolved("main", FIRST, "https://host/torch.git", item.when))
    keep_resolved(layout, {})
    assert not layout.resolved.exists()
    other = Resolved("r", SECOND, "u", "w")
    keep_resolved(layout, {"other": other})
    keep_resolved(layout, found)
    assert read_resolved(layout.resolved) == {"other": other, **found}
    assert resolve_commits(choice, store) == found  # type: ignore[arg-type]
    assert len(asked) == 1
    resolve_commits(chosen({"workspace": tmp_path, "update": True}), store)  # type: ignore[arg-type]
    for change in ({"ref": "old"}, {"url": "old"}):
        keep_resolved(layout, {"torch": replace(item, **change)})
        resolve_commits(choice, store)  # type: ignore[arg-type]
    assert len(asked) == 4
    keep_resolved(layout, {"torch": replace(item, commit="main")})
    assert list(read_resolved(layout.resolved)) == ["other"]
    for text in ("{", "[]", "{}", '{"resolved": []}', '{"resolved": {"a": {"b": 1}}}'):
        layout.resolved.write_text(text)
        assert read_resolved(layout.resolved) == {}

    def fails(*_: object) -> str:
        raise FetchError("no answer", why="it is down", fix="try again", commands=("c",), evidence={"a": 1})

    monkeypatch.setattr(supplies, "named_commit", fails)
    with pytest.raises(FetchError) as caught:
        resolve_commits(choice, store)  # type: ignore[arg-type]
    assert caught.value.why == (
        "recipe 'mine' follows main, whose commit must be looked up upstream: it is down"
    )


def test_a_workspace_says_what_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENTERED, raising=False)
    assert built_in(None) is built_in(tmp_path) is None
    for target, expected in (("cpu", "cpu"), ("xpu", "xpu"), (None, "xpu")):
        summary = {} if target is None else {"summary": {"target": target}}
        (tmp_path / "receipt.json").write_text(json.dumps({"recipe": "mine", **summary}))
        assert built_in(tmp_path) == Chosen("mine", expected, "the recipe of this workspace", tmp_path)  # type: ignore[arg-type]
    monkeypatch.setenv(ENTERED, str(tmp_path))
    assert built_in(None) == Chosen("mine", "xpu", "the active workspace", tmp_path)
    (tmp_path / "receipt.json").unlink()
    with pytest.raises(XpuBuildError, match="is not a finished workspace"):
        built_in(None)


def test_edits_count_where_they_are_asked_for() -> None:
    edited = target_of({"allow_dirty": True}, {**resolved(FIRST), "dirty": {"torch": "edits"}})
    assert edited.dirty == {"torch": "edits"}
    assert plan_of({"allow_dirty": True}, {**resolved(FIRST), "dirty": {"torch": "edits"}}).step(
        "torch.source"
    ).relevant["edits"] == "edits"  # fmt: skip
