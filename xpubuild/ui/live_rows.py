"""Chooses what of a run fits into the rows of a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from xpubuild.frozen import frozen
from xpubuild.ui.live_state import CANCELLED, FAILED, PENDING, RUNNING, StepView


@frozen
class Row:
    """One row: a step, its second line (``below``), or words for steps left out (``step`` is None).

    ``alone`` marks a step that has no room for its second line.
    """

    step: StepView | None = None
    below: bool = False
    alone: bool = False
    words: str = ""
    state: str = ""


def choose_rows(steps: Sequence[StepView], room: int) -> list[Row]:
    """Return at most ``room`` rows (at least 1), in the plan's order.

    Running and failed steps come first, then their second lines, then what was done last and
    what comes next; the rest is counted in one row each.
    """
    room = max(1, room)
    if _height(steps, below=True) <= room:
        return _rows(steps, steps, below=True)
    active = [step for step in steps if step.state in (RUNNING, FAILED, CANCELLED)]
    # Two rows are set aside for "n more" above and below.
    below = _height(active, below=True) + 2 <= room
    keep = max(0, room - 2)
    chosen = active[:keep]
    left = keep - _height(chosen, below)
    before = [step for step in steps if step.finished_well]
    after = [step for step in steps if step.state == PENDING]
    following = after[: min(len(after), max(left // 2, left - len(before)))]
    left -= len(following)
    chosen_ids = {step.id for step in (*chosen, *following, *(before[-left:] if left > 0 else ()))}
    return _rows(steps, [step for step in steps if step.id in chosen_ids], below)[:room]


def _height(steps: Sequence[StepView], below: bool) -> int:
    return sum(2 if below and step.two_lines else 1 for step in steps)


def _rows(steps: Sequence[StepView], chosen: Sequence[StepView], below: bool) -> list[Row]:
    shown = {step.id for step in chosen}
    hidden = [step for step in steps if step.id not in shown]
    done = sum(step.finished_well for step in hidden)
    rows = [Row(words=f"{done} more done", state="done")] if done else []
    for step in chosen:
        rows.append(Row(step, alone=not below))
        if below and step.two_lines:
            rows.append(Row(step, below=True))
    parts = []
    for state, words in (
        (FAILED, "failed"),
        (RUNNING, "running"),
        (CANCELLED, "interrupted"),
        (PENDING, "to do"),
    ):
        count = sum(step.state == state for step in hidden)
        parts += [f"{count} more {words}"] if count else []
    return [*rows, Row(words=", ".join(parts), state=PENDING)] if parts else rows
