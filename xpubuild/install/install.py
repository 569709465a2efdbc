"""``install`` as a library: options -> target -> plan -> apply -> receipt.

``prepare_as_asked`` takes the options of the command line (``options``), or a lock. ``choose``
holds them against the recipe, ``resolve`` adds what this machine says, once; the result is the ``Target``.
``planner`` makes its plan, and ``apply`` here locks the workspace, runs the plan and writes the receipt.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild import __version__
from xpubuild.engine import files
from xpubuild.engine.events import Sink, notify
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import workspace_lock
from xpubuild.engine.model import Plan
from xpubuild.engine.places import existing_quoted
from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import Redactor
from xpubuild.engine.runner import needed_for, run_plan
from xpubuild.engine.state import StepState, plan_states
from xpubuild.engine.temporary import DRAFT
from xpubuild.errors import FetchError, NoSpaceError, SourceIntegrityError, UsageError, XpuBuildError
from xpubuild.install.estimate import forecasting
from xpubuild.install.kept import unanswered, with_stores
from xpubuild.install.options import Options, is_lock
from xpubuild.install.receipt import make_receipt
from xpubuild.install.resolve import keep_resolved, prepare
from xpubuild.install.results import Results
from xpubuild.install.target import Prepared
from xpubuild.machine.envmark import MARK as ENV_MARK
from xpubuild.recipe.load import load
from xpubuild.workspace.layout import RUN_FILES, Layout
from xpubuild.workspace.moved import require_in_place
from xpubuild.workspace.status import plan_document

_GIB = 1 << 30


def prepare_as_asked(options: Options, *, cancel: Cancel | None = None) -> Prepared:
    """Return the plan of recipe and options, or of a lock if one is requested or passed as the recipe.

    Raises:
        RecipeError: the lock is missing or is no lock.
        LockMismatchError: lock, recipe, options or machine do not agree; everything that differs is named.
        XpuBuildError: see ``prepare``.
    """
    given = options.recipe if options.recipe is not None and is_lock(options.recipe) else None
    if given is None and not options.locked and options.lock_file is None:
        return prepare(options, cancel=cancel)
    if given is not None and options.lock_file is not None:
        raise UsageError("two locks were passed", fix="pass the lock as RECIPE or with --lock, not both")
    # What only a lock takes is not imported without one.
    from xpubuild.install.locked import prepare_locked

    path = options.lock_file or (Path(given) if given else _lock_beside(options))
    return prepare_locked(replace(options, recipe=None) if given else options, path, cancel=cancel)


def _lock_beside(options: Options) -> Path:
    if options.recipe is None:
        fix = "pass a recipe, to use RECIPE.lock.yaml in the current folder, or a lock with --lock FILE"
        raise UsageError("--locked needs a recipe or a lock", fix=fix)
    return Path(f"{load(options.recipe).recipe.name}.lock.yaml").absolute()


def open_workspace(root: Path) -> None:
    """Create the workspace folder, or accept an empty one or an existing workspace.

    Raises:
        UsageError: the folder has other files; they are not touched.
        NoSpaceError, ToolchainError: it cannot be made.
    """
    with files.explained(root, "making the workspace"):
        try:
            root.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, FileNotFoundError) as error:  # a file; the file system of /proc
            why = str(error.strerror)
            fix = "use another folder with --workspace"
            raise UsageError(f"the workspace {root} cannot be created", why=why, fix=fix) from error
        present = {entry.name for entry in root.iterdir() if not entry.name.startswith(DRAFT)}
    others = sorted(present.difference(RUN_FILES))
    if "journal.db" not in present and others and not _was_ours(root):
        why = f"it has {', '.join(others[:5])}; installing there could overwrite them"
        fix = "use an empty or new folder with --workspace"
        raise UsageError(f"the folder {root} is not empty and not a workspace of xpubuild", why=why, fix=fix)


def _was_ours(root: Path) -> bool:
    """Whether a folder without a journal was made by xpubuild all the same."""
    return (root / "receipt.json").is_file() or (root / "env" / ENV_MARK).is_file()


_IN_THE_WORKSPACE = Results()


def apply(
    prepared: Prepared, *, sink: Sink, cancel: Cancel, until: str | None = None,
    results: Results = _IN_THE_WORKSPACE, lost: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:  # fmt: skip
    """Run a plan in its workspace and return the receipt; ``lost`` gets it where what follows a build fails.

    Raises:
        XpuBuildError: the first failure; the receipt of what was done is written all the same.
    """
    check_until(prepared.plan, until)
    plan = prepared.plan
    results.require_possible(prepared)
    with entered(prepared, "install", sink=sink, cancel=cancel, until=until) as (lock, journal, states):
        prepared = with_stores(prepared, [name for name, state in states.items() if state.done])
        plan = prepared.plan
        for text in unanswered(plan):
            notify(sink, text, level="warning")
        telling = forecasting(prepared, states, sink, until)
        outcome = run_plan(
            plan, journal, sink=telling, cancel=cancel, lock_fd=lock, until=until, states=states
        )
        receipt = make_receipt(prepared, journal)
        receipt |= {"ran": outcome.ran, "up_to_date": outcome.up_to_date}
        layout = Layout(Path(plan.workspace))
        if outcome.errors:
            # After a full disk the receipt may not fit either; the failure itself matters to the user.
            with contextlib.suppress(NoSpaceError):
                files.write_json(layout.receipt, receipt)
            raise outcome.errors[0]
        files.write_json(layout.receipt, receipt)
        try:
            # What reads locks and policies is not imported for a plan.
            from xpubuild.install.attest import write_documents

            made = write_documents(receipt, layout.sbom, results.sign_key)
            journal.add_made("install", [str(path) for path in made])
            if len(receipt["wheels"]) > 1:
                from xpubuild.artifacts.audit_checks import check_documents

                check_documents(receipt["wheels"])
            receipt |= results.publish(prepared, receipt, cancel)
        except XpuBuildError:
            lost(receipt)
            raise
    return receipt


@contextlib.contextmanager
def entered(
    prepared: Prepared, command: str, *, sink: Sink, cancel: Cancel, until: str | None = None
) -> Iterator[tuple[int, Journal, Mapping[str, StepState]]]:
    """Lock and prepare the workspace of a plan, and begin a run in its journal, which ``run_plan`` ends.

    Yields the state of each step, too, as the journal and one look at the files show it.

    Raises:
        XpuBuildError: the workspace is busy, has other files, or lacks what an offline build needs.
    """
    root, words = Path(prepared.plan.workspace), f"xpubuild {command} {prepared.plan.recipe}"
    open_workspace(root)
    with (
        workspace_lock(root, command=words, cancel=cancel, on_wait=lambda text: notify(sink, text)) as lock,
        Journal(Layout(root).journal) as journal,
    ):
        if journal.set_aside is not None:
            notify(sink, f"the journal was damaged; it is kept as {journal.set_aside.name}", level="warning")
        require_in_place(root, journal)
        journal.settle_at(str(root))
        if not journal.runs() and _was_ours(root):
            # The journal that recorded this is lost; sources are judged by git.
            layout = Layout(root)
            journal.add_made("adopted", [str(layout.build), str(layout.env)])
        states = plan_states(prepared.plan, journal)
        todo = [step.id for step in needed_for(prepared.plan, until) if not states[step.id].done]
        if full := no_room(prepared, todo):
            raise full
        _warn(prepared, sink)
        redact = Redactor.from_environment(os.environ)
        journal.start_run(prepared.plan.recipe, [redact(item) for item in sys.argv], __version__)
        try:
            _before_the_steps(prepared, journal, states, sink, cancel)
        except BaseException:
            # Before the first step nobody else closes the run, and status would call it interrupted.
            with contextlib.suppress(XpuBuildError):  # a full disk: the first error is the one that matters
                journal.end_run("cancelled" if cancel else "failed")
            raise
        yield lock, journal, states


def _before_the_steps(
    prepared: Prepared, journal: Journal, states: Mapping[str, StepState], sink: Sink, cancel: Cancel
) -> None:
    """Write the plan's files, and check what the build will take from outside."""
    plan, layout, downloads = prepared.plan, prepared.target.layout, prepared.target.downloads
    journal.add_made("install", [*plan.files, str(layout.plan)])
    # For a report of this install: what would be planned later may differ.
    text = json.dumps(plan_document(plan, states), indent=1)
    files.write_changed(layout.plan, Redactor.from_environment(os.environ)(text).encode())
    keep_resolved(layout, prepared.target.resolved)
    for path, text in plan.files.items():
        files.write_changed(Path(path), text.encode())
        if text.startswith("#!"):
            Path(path).chmod(0o755)
    # pip writes its reports there, also where a recipe has no requirement file.
    with files.explained(layout.root, "making the workspace"):
        layout.pip_report("", "").parent.mkdir(parents=True, exist_ok=True)
    if downloads.mirror is not None or downloads.offline:
        # What reads mirrors and package indexes takes a quarter of a second to import.
        from xpubuild.install.offline import take_stock

        done = [step.id for step in plan.steps if states[step.id].done]
        take_stock(prepared, done, report=lambda text: notify(sink, text), cancel=cancel)


def _warn(prepared: Prepared, sink: Sink) -> None:
    """Warn about surprising results before the build."""
    summary, oneapi = prepared.plan.summary, prepared.target.oneapi
    texts = [*(oneapi.warnings if oneapi else ()), *prepared.target.warnings]
    if any(character.isspace() for character in prepared.plan.workspace):
        # Seen with torch 2.13: Inductor writes its compiler command as one text and splits it at blanks.
        texts.insert(0, "the path of the workspace has a space: torch.compile for the CPU cannot link there, "
                        "everything else works")  # fmt: skip
    texts += [f"the build will lack: {text}" for text in summary.get("loses", ())]
    for text in (*texts, *summary.get("notes", ())):
        notify(sink, text, level="warning")
    if summary.get("chosen"):
        notify(sink, str(summary["chosen"]))


def check_until(plan: Plan, until: str | None) -> None:
    """Reject the name of a step that the plan does not have.

    Raises:
        UsageError: naming the steps.
    """
    names = [step.id for step in plan.steps]
    if until is not None and until not in names:
        why = f"its steps are: {', '.join(names)}"
        raise UsageError(f"the plan has no step '{until}'", why=why, fix="use one of them with --until")


def no_room(prepared: Prepared, todo: Collection[str]) -> NoSpaceError | None:
    """Return the error of a disk that has too little space for the steps ``todo`` from the first one on."""
    target, root = prepared.target, Path(prepared.plan.workspace)
    free, needs = target.host["disk"]["free_bytes"], prepared.disk_gib
    if prepared.plan.steps[0].id not in todo or free is None or free >= needs * _GIB:
        return None
    what = f"{root} has {free / _GIB:.1f} GiB free, recipe '{prepared.plan.recipe}' needs about {needs:g} GiB"
    why = "sources, build trees, the Python environment and wheels are all kept in the workspace"
    fix = "free some space, or use a folder on a larger disk with --workspace"
    return NoSpaceError(what, why=why, fix=fix, commands=(f"df -h {existing_quoted(root)}",))


def foreseen(prepared: Prepared, todo: Collection[str], cancel: Cancel) -> tuple[XpuBuildError, ...]:
    """Return what would stop an install that runs the steps ``todo``; nothing is written.

    Whether the content of a mirror is intact is left to the install: that takes minutes.
    """
    full = no_room(prepared, todo)
    found: list[XpuBuildError] = [full] if full else []
    if prepared.target.downloads.offline:
        # What reads mirrors and package indexes takes a quarter of a second to import.
        from xpubuild.install.offline import require_all

        done = [step.id for step in prepared.plan.steps if step.id not in todo]
        try:
            require_all(prepared, done, cancel=cancel, fetch=False)
        except (FetchError, SourceIntegrityError) as error:
            found.append(error)
    return tuple(found)
