"""A plan as text: its summary and a table of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xpubuild.engine.estimate import Estimate, total
from xpubuild.engine.model import Plan, Step
from xpubuild.errors import XpuBuildError
from xpubuild.ui.format import memory, roughly, size
from xpubuild.ui.parts import Column, Commands, Facts, Part, Sentences, TableBuilder

_LABELS = {"abi": "C++ ABI", "cxx11_abi": "C++ ABI", "python": "Python", "lock_digest": "lock digest"}
_DIGEST_CHARACTERS = 12

#: Words such as ``done``, ``to do`` or ``stale``, alone or with a reason.
State = str | tuple[str, str]


def plan_view(
    plan: Plan,
    states: Mapping[str, State],
    obstacles: Sequence[XpuBuildError] = (),
    estimates: Mapping[str, Estimate] = MappingProxyType({}),
) -> tuple[Part, ...]:
    """Return the summary of a plan, the table of its steps, what they will take, and what would stop an
    install.

    ``states`` maps step ids to their state; a step that is not in it is still to do.
    """
    guessed = (_guesses(plan, estimates),) if estimates else ()
    told = (part for error in obstacles for part in _obstacle(error))
    return (_summary(plan), _table(plan, states), *guessed, *told)


def _guesses(plan: Plan, estimates: Mapping[str, Estimate]) -> Part:
    right = [Column(name, right=True) for name in ("time", "download", "disk")]
    builder = TableBuilder(["step", *right, "from"])
    for step, guess in estimates.items():
        builder.add(step, *_amounts(guess.seconds, guess.download_bytes, guess.disk_bytes), guess.source)
    whole = total(plan.steps, estimates)
    builder.add(
        "together",
        *_amounts(whole.seconds, whole.download_bytes, whole.disk_bytes),
        f"without {', '.join(whole.unknown)}: nothing tells" if whole.unknown else "",
    )
    return builder.build("What the steps to do will take, about")


def _amounts(seconds: float | None, download: int | None, disk: int | None) -> tuple[str, str, str]:
    sizes = ["?" if item is None else size(item) if item > 0 else "" for item in (download, disk)]
    return ("?" if seconds is None else roughly(seconds), sizes[0], sizes[1])


def _obstacle(error: XpuBuildError) -> tuple[Part, ...]:
    told = (error.what, f"why: {error.why}" if error.why else "", f"fix: {error.fix}" if error.fix else "")
    title = f"Install would stop before the first step, with exit code {error.exit_code}"
    sentences = Sentences(tuple(line for line in told if line), title)
    return (sentences, Commands(error.commands)) if error.commands else (sentences,)


def _summary(plan: Plan) -> Facts:
    items: dict[str, object] = {"recipe": plan.recipe, **plan.summary}
    items.setdefault("workspace", plan.workspace)
    if plan.lock_digest:
        items.setdefault("lock_digest", plan.lock_digest[:_DIGEST_CHARACTERS])
    pairs = [(_LABELS.get(name, name.replace("_", " ")), _words(value)) for name, value in items.items()]
    return Facts(tuple((name, value) for name, value in pairs if value))


def _table(plan: Plan, states: Mapping[str, State]) -> Part:
    builder = TableBuilder(
        ["step", "title", "state", "needs", Column("commands", right=True), Column("memory", right=True)]
    )
    for step in plan.steps:
        builder.add(*_row(step, states.get(step.id, "to do")))
    return builder.build()


def _row(step: Step, state: State) -> tuple[object, ...]:
    return (
        step.id,
        step.title,
        _told(state),
        ", ".join((*step.needs, *step.tools)),
        len(step.commands),
        memory(step.memory_bytes),
    )


def _told(state: State) -> str:
    word, reason = (state, "") if isinstance(state, str) else state
    return f"{word}: {reason}" if reason else word


def _words(value: object) -> str:
    """Return a value of the summary in words; a mapping with a ``reason`` gives it in brackets."""
    if isinstance(value, Mapping):
        rest = {name: item for name, item in value.items() if name != "reason"}
        words = ", ".join(
            _words(item) if len(rest) == 1 else f"{name} {_words(item)}" for name, item in rest.items()
        )
        return f"{words} ({value['reason']})" if value.get("reason") else words
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_words(item) for item in value)
    return "" if value is None else str(value)
