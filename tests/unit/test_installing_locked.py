"""What a lock does not allow: options that contradict it, and sources that are not those of the lock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.locks import example, oid
from support.plan_files import prepared_for

from xpubuild.errors import LockMismatchError
from xpubuild.install import locked_install
from xpubuild.install.locked_install import (
    LockedProof,
    _conda_lock_beside,
    _proved,
    _require_no_contradiction,
    _require_served,
)
from xpubuild.install.locked_options import options_of, resolved_of
from xpubuild.install.options import Options
from xpubuild.recipe.load import load

LOCK = example()
SAID = LOCK.options
FITS: dict[str, Any] = {
    "target": "xpu", "cxx11_abi": "1", "arch": ("pvc", "bmg"), "with_": ("ops", "triton"),
    "without": ("vision",),
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "cpu"}, {"variant": "full"}, {"cxx11_abi": "0"}, {"arch": ("pvc",)},
        {"with_": ("vision",)}, {"without": ("ops", "torch")}, {"editable": True}, {"allow_dirty": True},
        {"target": "cpu", "variant": "full", "with_": ("vision", "audio"), "editable": True},
    ],
)  # fmt: skip
def test_options_that_contradict_a_lock(changes: dict[str, Any]) -> None:
    with pytest.raises(LockMismatchError):
        _require_no_contradiction(LOCK, Options(None, **{**FITS, **changes}))


def test_options_that_say_what_a_lock_says(tmp_path: Path) -> None:
    _require_no_contradiction(LOCK, Options(None, **FITS))
    _require_no_contradiction(LOCK, Options(None))
    path = tmp_path / "some.lock.yaml"
    assert _conda_lock_beside(path, LOCK) is None
    (tmp_path / "2.8.conda-lock.yml").touch()
    assert _conda_lock_beside(path, LOCK) == tmp_path / "2.8.conda-lock.yml"
    other = LOCK.model_copy(update={"options": SAID.model_copy(update={"env": "venv"})})
    assert _conda_lock_beside(path, other) is None


def test_a_locked_install_asks_for_all_that_the_lock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asked(Exception):  # noqa: N818 - carries the options out
        pass

    def prepare(options: Options, **_: Any) -> None:
        raise Asked(options)

    monkeypatch.setattr(locked_install, "prepare", prepare)
    monkeypatch.setattr(locked_install, "read_lock", lambda _: LOCK)
    (tmp_path / "2.8.conda-lock.yml").touch()
    with pytest.raises(Asked) as raised:
        locked_install.prepare_locked(Options(None, jobs="3"), tmp_path / "2.8.lock.yaml", "exact")
    (asked,) = raised.value.args
    wanted = options_of(LOCK)
    resolved = resolved_of(LOCK, load(LOCK.recipe.name).recipe)
    conda = tmp_path / "2.8.conda-lock.yml"
    assert asked == replace(wanted, jobs="3", conda_lock=conda, resolved=resolved)
    assert (asked.target, asked.cxx11_abi, asked.arch) == ("xpu", "1", ("pvc", "bmg"))


def served() -> list[dict[str, str]]:
    known = LOCK.repositories["torch"].configure_time
    found = [{"url": i.url, "commit": i.commit, "tree": i.tree, "asked_for": i.asked_for} for i in known]
    below = [sub for item in known for sub in item.submodules]
    return found + [{"url": i.url, "commit": i.commit, "tree": i.tree, "asked_for": i.commit} for i in below]


@pytest.mark.parametrize("change", ["commit", "tree", "asked_for", "gone", "more"])
def test_what_a_build_would_clone_is_what_the_lock_says(change: str) -> None:
    found = served()
    _require_served(LOCK, "torch", found)
    if change == "gone":
        del found[-1]
    elif change == "more":
        found.append({"url": "https://host/new.git", "commit": oid(1), "tree": oid(2), "asked_for": "main"})
    else:
        found[0] = {**found[0], change: oid(3)}
    with pytest.raises(LockMismatchError):
        _require_served(LOCK, "torch", found)


class _Proof:
    def describe(self) -> str:
        return "what is served"

    def key(self) -> dict[str, Any]:
        return {"proof": "x"}

    def check(self) -> dict[str, Any]:
        return {"served": served()}


def test_the_proof_of_a_lock_is_that_which_it_extends() -> None:
    proof = LockedProof(_Proof(), LOCK, "torch")
    assert (proof.describe(), proof.key()) == ("what is served, as locked", {"proof": "x"})
    assert proof.check() == {"served": served()}


def test_a_lock_is_asked_also_where_nothing_was_touched() -> None:
    """The stamp of a checkout says that it passed the proofs of an install without the lock."""
    prepared = prepared_for("quickstart")
    guarded = [step for step in prepared.plan.steps if step.guard_stamp is not None]
    assert [step.id for step in guarded] == ["ops.source"]
    for step in guarded:
        locked = _proved(step, LOCK, prepared)
        assert locked.guard_stamp is None
        assert locked.always_prove
        assert isinstance(locked.proofs[0], LockedProof)
