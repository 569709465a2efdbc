"""Decides from the journal and the files whether a step is up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.journal import MADE_IN, Journal, StepRecord
from xpubuild.engine.lock import began_under, described
from xpubuild.engine.model import Plan, Step
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen

#: The witness that stands for a step's ``outputs_stamp``.
OUTPUTS = "*"
#: The key of the evidence that holds path -> sha256 of what a step published.
PUBLISHED = "published_sha256"
#: The reason of a step that was done with another fingerprint.
CHANGED = "its inputs changed"


@frozen
class StepState:
    """``done`` or ``to-do``, and why."""

    done: bool
    reason: str
    changed: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The state as documents show it."""
        return "done" if self.done else "to-do"


def stamp(path: Path) -> list[int] | None:
    """Return size (bytes), modification and change time (ns) of a witness, None where it is gone.

    Any program can set the modification time, none the change time.
    """
    try:
        status = path.lstat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def take_witnesses(paths: Sequence[str]) -> dict[str, list[int]]:
    """Return the stamps of all witnesses that exist; folders count for their existence only."""
    found: dict[str, list[int]] = {}
    for name in paths:
        mark = stamp(Path(name))
        if mark is not None:
            found[name] = [0, 0] if Path(name).is_dir() else mark
    return found


def witnesses_of(step: Step, names: Sequence[str]) -> dict[str, list[int]]:
    """Return the stamps of named witnesses and of everything else a step put in place."""
    found = take_witnesses([name for name in names if name != OUTPUTS])
    if step.outputs_stamp is not None:
        found[OUTPUTS] = [0, step.outputs_stamp()]
    return found


def changed_witnesses(step: Step, record: StepRecord) -> list[str]:
    """Return the witnesses that were removed or changed."""
    now = witnesses_of(step, list(record.witnesses))
    # Of a guarded step it is the stamp of the guard, which settle takes, unless a lock has taken that away.
    looked_at = [name for name in record.witnesses if name != OUTPUTS or step.outputs_stamp is not None]
    # A journal of an earlier xpubuild has no change times.
    return [name for name in looked_at if now.get(name, [])[: len(mark := record.witnesses[name])] != mark]


def published_hashes(record: StepRecord) -> dict[str, str]:
    """Return path -> sha256 of what a step published."""
    hashes: dict[str, str] = {}
    for item in record.evidence:
        hashes.update(item.get(PUBLISHED, {}))
    return hashes


def _only_touched(record: StepRecord, changed: Sequence[str]) -> bool:
    """Whether the changed files are all published ones with the content they were published with."""
    hashes = published_hashes(record)
    return all(
        name in hashes and Path(name).is_file() and file_sha256(Path(name)) == hashes[name]
        for name in changed
    )


@frozen
class Elsewhere:
    """What is known besides the journal: who uses the workspace now, and where it was made if not here."""

    owner: Mapping[str, object] = field(default_factory=dict)
    made_in: str = ""


HERE = Elsewhere()


def from_journal(
    step: Step, fingerprint: str, journal: Journal | None, elsewhere: Elsewhere = HERE
) -> StepState:
    """Return the state of a step as journal and witnesses show it; proofs are not run."""
    record = journal.record(step.id) if journal is not None else None
    if record is None:
        return StepState(done=False, reason="not run here before")
    if record.status != "done":
        running = record.status == "running"
        reason = _unfinished(record, fingerprint, elsewhere.owner) if running else "failed the last time"
        return StepState(done=False, reason=reason)
    if record.fingerprint != fingerprint:
        place = record.detail or (f"{MADE_IN}{elsewhere.made_in}" if elsewhere.made_in else "")
        return StepState(done=False, reason=f"was {place}" if place else CHANGED)
    changed = changed_witnesses(step, record)
    if changed:
        what = "an installed file" if changed[0] == OUTPUTS else changed[0]
        return StepState(done=False, reason=f"{what} was changed or removed", changed=tuple(changed))
    return StepState(done=True, reason="")


def _unfinished(record: StepRecord, fingerprint: str, owner: Mapping[str, object]) -> str:
    """Distinguish a step that another process runs now from one that was interrupted."""
    if not owner or not began_under(owner, record.started):
        return "was interrupted"
    other = "" if record.fingerprint == fingerprint else ", with other inputs"
    return f"is running now, by {described(owner)}{other}"


def settle(
    step: Step,
    fingerprint: str,
    journal: Journal,
    *,
    elsewhere: Elsewhere = HERE,
    write: bool = True,
    known: StepState | None = None,
) -> StepState:
    """Return the state of a step just before it would run; touched files are judged by the proofs.

    Without ``write`` nothing of that is noted in the journal. ``known`` is what ``from_journal`` told a
    moment ago: the files of an environment are many to look at twice.

    Raises:
        XpuBuildError: from a proof marked ``always_prove``, which guards the user's own edits.
    """
    state = known or from_journal(step, fingerprint, journal, elsewhere)
    if state.done and step.always_prove:
        try:
            _prove_unless_untouched(step, journal, write=write)
        except XpuBuildError as error:
            if error.mend is None:
                raise
            return StepState(done=False, reason=error.what)
    if not state.changed:
        return state
    record = journal.record(step.id)
    gone = any(stamp(Path(name)) is None for name in state.changed if name != OUTPUTS)
    if record is None or not state.changed or not step.proofs or gone:
        return state
    if not _only_touched(record, state.changed):
        try:
            _prove(step)
        except XpuBuildError as error:
            if step.always_prove and error.mend is None:
                raise
            return StepState(done=False, reason=error.what, changed=state.changed)
    if write:
        journal.refresh_witnesses(step.id, witnesses_of(step, list(record.witnesses)))
    return StepState(done=True, reason="touched, but unchanged")


def _prove_unless_untouched(step: Step, journal: Journal, *, write: bool) -> None:
    """Run the proofs, unless every size and time is as it was before they passed the last time.

    The stamp is taken before, not after: what is edited meanwhile is proved the next time.
    """
    mark = step.guard_stamp() if step.guard_stamp is not None else None
    record = journal.record(step.id)
    known = {} if record is None else record.witnesses
    if mark is not None and known.get(OUTPUTS) == [0, mark]:
        return
    _prove(step)
    if write and mark is not None:
        named = {name: stamp for name, stamp in known.items() if name != OUTPUTS}
        journal.refresh_witnesses(step.id, {**named, OUTPUTS: [0, mark]})


def settled_states(plan: Plan, journal: Journal, elsewhere: Elsewhere = HERE) -> Mapping[str, StepState]:
    """Return for every step what a run would find before it: the same looks, nothing written."""
    states: dict[str, StepState] = {}
    for step in plan.steps:
        try:
            found = settle(step, plan.fingerprints[step.id], journal, elsewhere=elsewhere, write=False)
        except XpuBuildError as error:
            found = StepState(
                done=False, reason=f"install stops here (exit code {error.exit_code}): {error.what}"
            )
        states[step.id] = found
    return states


def _prove(step: Step) -> None:
    for proof in step.proofs:
        proof.check()


def plan_states(plan: Plan, journal: Journal | None, elsewhere: Elsewhere = HERE) -> Mapping[str, StepState]:
    """Return the state of every step for a table; what follows a step that must run may still be done."""
    return {
        step.id: from_journal(step, plan.fingerprints[step.id], journal, elsewhere) for step in plan.steps
    }
