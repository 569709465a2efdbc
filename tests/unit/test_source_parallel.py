"""A tree of work: parents before children, the first failure stops the rest and is the one that is raised."""

from __future__ import annotations

import threading
import time

import pytest

from xpubuild.engine.process import Cancel
from xpubuild.supply.git.parallel import LinkedCancel, visit_all


def test_children_come_after_their_parent_and_everything_is_visited() -> None:
    tree = {"top": ["a", "b"], "a": ["a1", "a2"], "b": [], "a1": [], "a2": []}
    started: list[str] = []
    counted: list[tuple[int, int]] = []

    def visit(name: str) -> list[str]:
        started.append(name)
        return tree[name]

    ended = visit_all(
        "top",
        visit,
        jobs=2,
        cancel=Cancel(),
        on_progress=lambda done, known, _: counted.append((done, known)),
    )
    assert sorted(ended) == sorted(tree)
    for parent, children in tree.items():
        assert all(started.index(parent) < started.index(child) for child in children)
    assert counted[-1] == (5, 5)
    assert all(done <= known for done, known in counted)


def test_siblings_run_side_by_side() -> None:
    meet = threading.Barrier(2, timeout=5)

    def visit(name: str) -> list[str]:
        if name == "top":
            return ["a", "b"]
        meet.wait()  # breaks, and fails the test, where the two do not run at once
        return []

    assert len(visit_all("top", visit, jobs=2, cancel=Cancel(), on_progress=lambda *_: None)) == 3


def test_the_first_failure_stops_the_others() -> None:
    cancel = LinkedCancel(None)
    stopped_by_cancel: list[bool] = []

    def visit(name: str) -> list[str]:
        if name == "top":
            return ["bad", "long"]
        if name == "bad":
            time.sleep(0.05)
            raise LookupError("the real reason")
        until = time.monotonic() + 5
        while not cancel and time.monotonic() < until:
            time.sleep(0.01)
        stopped_by_cancel.append(bool(cancel))
        return []

    with pytest.raises(LookupError, match="the real reason"):
        visit_all("top", visit, jobs=2, cancel=cancel, on_progress=lambda *_: None)
    assert stopped_by_cancel == [True]


def test_a_linked_cancel_follows_its_outer_one_and_leaves_it_alone() -> None:
    outer = Cancel()
    inner = LinkedCancel(outer)
    assert not inner
    inner.set("a sibling failed")
    assert inner
    assert not outer
    other = LinkedCancel(outer)
    outer.set("Ctrl-C")
    assert other
