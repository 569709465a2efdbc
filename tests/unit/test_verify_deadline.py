"""A check's deadline counts the time in which it could run, and ends one that does not end."""

from __future__ import annotations

from xpubuild.verify.child import Deadline


class Machine:
    """A clock, and how long a process has waited for a processor."""

    def __init__(self) -> None:
        self.now, self.waited = 100.0, {7: 40.0}

    def deadline(self, seconds: float) -> Deadline:
        made = Deadline(None, lambda: self.now, lambda process: self.waited.get(process, 0.0))
        made.extend(seconds, 7)
        return made

    def passes(self, seconds: float, waiting: float = 0.0) -> None:
        self.now += seconds
        self.waited[7] += waiting


def test_a_check_that_runs_is_ended_at_its_deadline() -> None:
    machine = Machine()
    deadline = machine.deadline(60)
    machine.passes(59.9)
    assert not deadline
    machine.passes(0.1)
    assert deadline
    assert deadline.expired


def test_what_others_were_given_does_not_count() -> None:
    machine = Machine()
    deadline = machine.deadline(60)
    machine.passes(200, waiting=150)
    assert not deadline
    machine.passes(9.9)
    assert not deadline
    machine.passes(0.1)
    assert deadline


def test_there_is_an_end_to_waiting() -> None:
    machine = Machine()
    deadline = machine.deadline(60)
    machine.passes(599, waiting=599)
    assert not deadline
    machine.passes(1, waiting=1)
    assert deadline
