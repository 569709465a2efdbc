"""Decides from the journal and the files whether a step is up to date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.journal import Journal, StepRecord
from xpubuild.engine.model import Plan, Step
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen

#: The witness that stands for a step's ``outputs_stamp``.
OUTPUTS = "*"
#: The key of the evidence that holds path -> sha256 of what a step published.
PUBLISHED = "published_sha256"
#: The proof under which the evidence of a step holds what its watcher had to say.
WATCHED = "watched while it ran"
#: The reason of a step that was done with another fingerprint.
CHANGED = "its inputs changed"


@frozen
class StepState:
    """``done`` or ``to-do``, and why."""

    done: bool
    reason: str = ""
    changed: tuple[str, ...] = ()


def _stamp(path: Path) -> list[int] | None:
    """Return size (bytes), modification and change time (ns) of a witness, None where it is gone.

    Any program can set the modification time, none the change time. Folders count for their existence only.
    """
    try:
        status = path.lstat()
    except OSError:
        return None
    return [0, 0] if path.is_dir() else [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def witnesses_of(step: Step, names: Sequence[str]) -> dict[str, list[int]]:
    """Return the stamps of named witnesses that exist and of everything else a step put in place."""
    stamps = {name: _stamp(Path(name)) for name in names if name != OUTPUTS}
    found = {name: mark for name, mark in stamps.items() if mark is not None}
    return found if step.outputs_stamp is None else {**found, OUTPUTS: [0, step.outputs_stamp()]}


def published_hashes(record: StepRecord) -> dict[str, str]:
    """Return path -> sha256 of what a step published."""
    return {path: sha256 for item in record.evidence for path, sha256 in item.get(PUBLISHED, {}).items()}


def warnings_in(evidence: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the warnings of a watcher in the evidence of a step, as documents have them."""
    told = [warning for item in evidence if item["proof"] == WATCHED for warning in item["warnings"]]
    return [{key: warning[key] for key in ("id", "text", "lines")} for warning in told]


def from_journal(step: Step, fingerprint: str, journal: Journal | None) -> StepState:
    """Return the state of a step as journal and witnesses show it; proofs are not run."""
    record = journal.record(step.id) if journal is not None else None
    if record is None:
        return StepState(done=False, reason="not run here before")
    if record.status != "done":
        reason = "was interrupted" if record.status == "running" else "failed the last time"
        return StepState(done=False, reason=reason)
    if record.fingerprint != fingerprint:
        return StepState(done=False, reason=CHANGED)
    now = witnesses_of(step, list(record.witnesses))
    # Of a guarded step it is the stamp of the guard, which settle takes, unless a lock has removed that.
    looked_at = [name for name in record.witnesses if name != OUTPUTS or step.outputs_stamp is not None]
    changed = [name for name in looked_at if now.get(name) != record.witnesses[name]]
    if changed:
        what = "an installed file" if changed[0] == OUTPUTS else changed[0]
        return StepState(done=False, reason=f"{what} was changed or removed", changed=tuple(changed))
    return StepState(done=True)


def settle(
    step: Step, fingerprint: str, journal: Journal, *, write: bool = True, known: StepState | None = None,
) -> StepState:  # fmt: skip
    """Return the state of a step just before it would run; touched files are judged by the proofs.

    Without ``write`` nothing of that is noted in the journal. ``known`` is what ``from_journal`` found a
    moment ago: the files of an environment are many to look at twice.

    Raises:
        XpuBuildError: from a proof marked ``always_prove``, which guards the user's own edits.
    """
    state = known or from_journal(step, fingerprint, journal)
    guarded = state.done and step.always_prove
    record = journal.record(step.id) if guarded or state.changed else None
    if guarded and record is not None:
        try:
            _prove_unless_untouched(step, record, journal if write else None)
        except XpuBuildError as error:
            if error.mend is None:
                raise
            return StepState(done=False, reason=error.what)
    gone = any(_stamp(Path(name)) is None for name in state.changed if name != OUTPUTS)
    if record is None or not state.changed or not step.proofs or gone:
        return state
    hashes = published_hashes(record)
    # Files with the content that they were published with need no proof.
    same = (Path(name).is_file() and file_sha256(Path(name)) == hashes.get(name) for name in state.changed)
    if not all(same):
        try:
            _prove(step)
            require_still(step, record)
        except XpuBuildError as error:
            if step.always_prove and error.mend is None:
                raise
            return StepState(done=False, reason=error.what, changed=state.changed)
    if write:
        journal.refresh_witnesses(step.id, witnesses_of(step, list(record.witnesses)))
    return StepState(done=True, reason="touched, but unchanged")


def _prove_unless_untouched(step: Step, record: StepRecord, journal: Journal | None) -> None:
    """Run the proofs, unless every size and time is as it was before they passed the last time.

    The stamp is taken before, not after: what is edited meanwhile is proved the next time.
    """
    mark = step.guard_stamp() if step.guard_stamp is not None else None
    if mark is not None and record.witnesses.get(OUTPUTS) == [0, mark]:
        return
    _prove(step)
    if journal is not None and mark is not None:
        journal.refresh_witnesses(step.id, {**record.witnesses, OUTPUTS: [0, mark]})


def require_still(step: Step, record: StepRecord) -> None:
    """Let those proofs that can (``still``) compare what is there with the evidence that they gave before.

    Raises:
        XpuBuildError: it is another; ``mend`` removes it, so that the commands make it again.
    """
    for proof in step.proofs:
        if (still := getattr(proof, "still", None)) is not None:
            for item in record.evidence:
                if item.get("proof") == proof.describe():
                    still(item)


def _prove(step: Step) -> None:
    for proof in step.proofs:
        proof.check()


def plan_states(plan: Plan, journal: Journal | None) -> Mapping[str, StepState]:
    """Return the state of every step for a table; what follows a step that must run may still be done."""
    return {step.id: from_journal(step, plan.fingerprints[step.id], journal) for step in plan.steps}
