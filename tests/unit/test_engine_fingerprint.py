"""Fingerprints: the same for the same thing however it is written down, another for any other thing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from xpubuild.engine.fingerprint import canonical_json, fingerprints
from xpubuild.engine.model import Command, Publish, Step, Watcher


def test_the_canonical_form_is_fixed() -> None:
    """Journals on people's disks hold these; a change needs a new FORMAT."""
    assert canonical_json({"b": [1, 2.5, None, True], "a": "\u00fc \u6f22"}) == (
        '{"a":"\\u00fc \\u6f22","b":[1,2.5,null,true]}'
    )


@dataclass(frozen=True)
class KeyProof:
    value: str

    def describe(self) -> str:
        return "nothing"

    def key(self) -> dict[str, Any]:
        return {"proof": "key", "value": self.value}

    def check(self) -> dict[str, Any]:
        return {}


def chain() -> list[Step]:
    """Return a, and b and c that need it, and d that needs both; e stands alone."""
    command = Command(
        argv=("make", "all"),
        env={"CC": "gcc", "CXX": "g++"},
        cwd="/src",
        path_prefix=("/opt/bin",),
        alternatives=(("make", "some"),),
    )
    a = Step(
        id="a",
        title="first",
        commands=(command, Command(("true",))),
        proofs=(KeyProof("one"),),
        relevant={"pin": "abc"},
        publish=Publish("/stage", "/wheels", "*.whl"),
    )
    b = Step(id="b", title="second", needs=("a",), commands=(Command(("b",)),))
    c = Step(id="c", title="third", needs=("a",))
    d = Step(id="d", title="fourth", needs=("b", "c"))
    return [a, b, c, d, Step(id="e", title="alone", commands=(command,))]


def with_command(step: Step, **changes: Any) -> Step:
    return replace(step, commands=(replace(step.commands[0], **changes), *step.commands[1:]))


CHANGES: dict[str, Callable[[Step], Step]] = {
    "argv": lambda s: with_command(s, argv=("make", "all", "-k")),
    "argv-split": lambda s: with_command(s, argv=("make all",)),
    "env-value": lambda s: with_command(s, env={"CC": "clang", "CXX": "g++"}),
    "env-more": lambda s: with_command(s, env={"CC": "gcc", "CXX": "g++", "CFLAGS": ""}),
    "env-less": lambda s: with_command(s, env={"CC": "gcc"}),
    "cwd": lambda s: with_command(s, cwd="/src2"),
    "no-cwd": lambda s: with_command(s, cwd=None),
    "path": lambda s: with_command(s, path_prefix=("/opt2/bin",)),
    "alternatives": lambda s: with_command(s, alternatives=()),
    "command-more": lambda s: replace(s, commands=(*s.commands, Command(("true",)))),
    "command-less": lambda s: replace(s, commands=s.commands[:1]),
    "command-order": lambda s: replace(s, commands=s.commands[::-1]),
    "proof": lambda s: replace(s, proofs=(KeyProof("two"),)),
    "no-proof": lambda s: replace(s, proofs=()),
    "relevant": lambda s: replace(s, relevant={"pin": "abd"}),
    "publish": lambda s: replace(s, publish=Publish("/stage", "/wheels", "*")),
    "no-publish": lambda s: replace(s, publish=None),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_reaches_the_step_and_all_that_need_it(change: Callable[[Step], Step]) -> None:
    steps = chain()
    before = fingerprints(steps)
    after = fingerprints([change(steps[0]), *steps[1:]])
    assert {name for name in before if before[name] != after[name]} == {"a", "b", "c", "d"}


SAME: dict[str, Callable[[Step], Step]] = {
    "title": lambda s: replace(s, title="another title"),
    "tuning": lambda s: with_command(s, tuning={"MAX_JOBS": "64"}),
    "deadline": lambda s: with_command(s, deadline_s=5.0),
    "portable": lambda s: with_command(s, portable=("make all",)),
    "shortcut": lambda s: with_command(s, shortcut=("make", "quickly")),
    "memory": lambda s: replace(s, memory_bytes=1 << 40),
    "outputs": lambda s: replace(s, outputs=("/x",), inputs=("/y",), witnesses=("/z",)),
    "env-order": lambda s: with_command(s, env={"CXX": "g++", "CC": "gcc"}),
    "explain": lambda s: replace(s, explain=lambda _lines: None),
    "watch": lambda s: replace(s, watch=lambda: cast(Watcher, object())),
    "after": lambda s: replace(s, after=("another",)),
    "tools": lambda s: replace(s, tools=("another",)),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME.keys())
def test_what_changes_nothing_that_is_made_is_left_out(change: Callable[[Step], Step]) -> None:
    steps = chain()
    assert fingerprints([change(steps[0]), *steps[1:]]) == fingerprints(steps)


def test_every_field_of_a_command_and_a_step_was_thought_of() -> None:
    """A new field must be put into the fingerprint, or into the list of what is left out on purpose."""
    hashed_of_command = {"argv", "env", "cwd", "path_prefix", "alternatives"}
    left_out_of_command = {"tuning", "portable", "deadline_s", "shortcut"}
    assert {f.name for f in dataclasses.fields(Command)} == hashed_of_command | left_out_of_command
    assert Command(("x",)).key().keys() == hashed_of_command
    hashed_of_step = {"id", "commands", "proofs", "relevant", "publish", "needs"}
    left_out_of_step = {
        "title", "inputs", "outputs", "witnesses", "witness_globs", "outputs_stamp", "guard_stamp", "fresh",
        "memory_bytes", "always_prove",
        "explain", "watch", "after", "tools", "keeper",
    }  # fmt: skip
    assert {f.name for f in dataclasses.fields(Step)} == hashed_of_step | left_out_of_step
