"""``xpubuild doctor`` and ``xpubuild explain``."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.cli import options
from xpubuild.cli.workspace import workspace_of
from xpubuild.doctor.kit import Profile
from xpubuild.doctor.registry import all_checks, select
from xpubuild.doctor.runner import Result, run_checks
from xpubuild.doctor.start import begin, entered
from xpubuild.documents import plain
from xpubuild.engine.redact import Redactor
from xpubuild.errors import NoSpaceError, ToolchainError, UnfitHostError, UsageError
from xpubuild.ui import diagnosis_views as views
from xpubuild.ui.console import json_text, summarise, write_out
from xpubuild.ui.terminal import Terminal
from xpubuild.workspace.layout import Layout

if TYPE_CHECKING:
    from xpubuild.doctor.report import Report

_PROFILES: Mapping[str, tuple[Profile, ...]] = {"build": ("build",), "run": ("run",), "all": ("run", "build")}


@options.command("doctor")
def doctor(
    profile: str, only: tuple[str, ...], skip: tuple[str, ...], list_: bool, bundle: Path | None,
    root: Path | None, workspace: Path | None, **situation: Any,
) -> int:  # fmt: skip
    """Check whether this host can build and run PyTorch for XPU; explain failures and how to fix them.

    Needs no root, no torch and no oneAPI. Exits with code 10 if a check failed or could not complete.
    """
    speech, profiles = options.speech(), _PROFILES[profile]
    # An empty value, as from an unset variable of a script, would mean all checks.
    options.refuse({} if only else {"only": "is empty; pass an id, a group or a pattern, or omit the option"})
    if list_:
        return _list(profiles, only, skip)
    listener = _listener() if speech.log_format == "jsonl" else None
    where: dict[str, Any] = {"root": root or Path("/"), "workspace": workspace, **situation}
    report, document = examined(profiles, only, skip, listener, **where)
    # The bundle first: the reader of standard output may close it.
    if bundle is not None:
        write_bundle(bundle, document, None if root else workspace or entered(os.environ) or Path.cwd())
    if speech.as_json or report.bad or not speech.quiet:
        _show(document, speech)
    return UnfitHostError.exit_code if report.bad else 0


def examined(
    profiles: tuple[Profile, ...], only: Sequence[str] = (), skip: Sequence[str] = (),
    listener: Callable[[Result], None] | None = None, **where: Any,
) -> tuple[Report, dict[str, Any]]:  # fmt: skip
    """Run checks on a host, which ``where`` describes as ``begin`` takes it; return report and document."""
    # The machine is examined while the checks are imported.
    wait = begin(os.environ, profiles=profiles, **where)
    from xpubuild.doctor.report import doctor_document, make_report

    selection = select(all_checks(), profiles=profiles, only=only, skip=skip)
    look = replace(wait(), asked=selection.shown if only else frozenset())
    results = run_checks(look, selection, listener=listener)
    mask = Redactor.from_environment(os.environ)
    report = make_report(look, selection, results, profiles, mask)
    return report, doctor_document(report, mask)


def write_bundle(file: Path, document: Mapping[str, Any], workspace: Path | None) -> None:
    """Write doctor's results with evidence of a workspace, if there is one, and of internal errors.

    Without a folder, as for an image, neither is of the host that was examined.
    """
    from xpubuild.doctor import bundle

    evidence: dict[str, Any] = {}
    if workspace is not None:
        checks = {check["id"]: check["status"] for check in document["checks"]}
        found = bundle.workspace_evidence(workspace, checks) if Layout(workspace).journal.is_file() else {}
        evidence = {**found, "bugs": bundle.internal_errors()}
    bundle.write_bundle(document, os.environ, file, evidence)


def _listener() -> Callable[[Result], None]:
    """Return what writes a line of JSON for each check as it ends."""
    redact, terminal = Redactor.from_environment(os.environ), Terminal.detect(sys.stderr, os.environ)

    def write(result: Result) -> None:
        event = {"event": "check", "time": time.time(), **plain(result.clean(redact))}
        terminal.try_write(json.dumps(event) + "\n")

    return write


def _list(profiles: tuple[Profile, ...], only: tuple[str, ...], skip: tuple[str, ...]) -> int:
    from xpubuild.doctor.report import checks_document

    selection = select(all_checks(), profiles=profiles, only=only, skip=skip)
    document = checks_document([check for check in selection.checks if check.id in selection.shown])
    speech = options.speech()
    if speech.verbose and not speech.as_json:
        Terminal.detect(sys.stdout, os.environ).try_write(views.doctor_explanations(document))
        return 0
    return options.answer(document, views.doctor_checks_view)


def _show(document: Mapping[str, Any], speech: options.Speech) -> None:
    """Write the result to standard output, annotations for GitHub beside it."""
    summarise(f"xpubuild doctor: {document['status']}", views.doctor_summary_view(document))
    terminal, errors = (Terminal.detect(stream, os.environ) for stream in (sys.stdout, sys.stderr))
    text = terminal.printable(views.doctor_text(document, terminal, verbose=speech.verbose))
    try:
        write_out(json_text(document) if speech.as_json else text)
    except (NoSpaceError, ToolchainError) as error:
        # The exit code still reports the result.
        errors.try_write(f"error: the report could not be written: {error.why}\n")
    if (speech.log_format or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "")) == "github":
        errors.try_write(views.doctor_annotations(document))


@options.command("explain")
def explain(log: str | None, list_: bool, here: bool) -> int:
    """Find the first error in LOG, its cause and the command to run next.

    LOG is a file, - for standard input, or the workspace (its folder, or the recipe that was built
    there) whose failed step is meant. The exit code is 0 even if no known failure is found.
    """
    from xpubuild.explain.document import Circumstances, conclude, list_document
    from xpubuild.explain.scan import scan, scan_file
    from xpubuild.machine.system import os_facts, system_of

    if list_:
        return options.answer(list_document(), views.rules_view)
    if log is None:
        raise UsageError(
            "no log was specified",
            fix="pass a log file, or - for standard input",
            commands=("xpubuild explain LOG", "xpubuild explain --list"),
        )
    known = Circumstances(system=system_of(os_facts()))
    outcome = scan(sys.stdin.buffer) if log == "-" else scan_file(_log(log))
    found = conclude(outcome, known)
    probes = sorted({probe for finding in found.findings for probe in finding.probes})
    if here and probes:
        report, _ = examined(("run", "build"), probes)
        states = {item.id: item.status for item in report.results}
        details = {item.id: item.detail for item in report.results}
        found = conclude(outcome, replace(known, checks=states, details=details))
    return options.answer(Redactor.from_environment(os.environ).tree(found.to_json()), views.explain_view)


def _log(given: str) -> Path:
    """Return the log that is meant: a file, or that of the step that failed last in a workspace."""
    if not (path := Path(given)).is_dir() and (path.exists() or given.endswith((".log", ".txt", ".gz"))):
        return path
    from xpubuild.engine.journal import Journal

    layout = Layout(workspace_of(str(path.absolute()) if path.is_dir() else given))
    with Journal(layout.journal, read_only=True) as journal:
        failed = [record.step for record in journal.records() if record.status == "failed"]
    logs = [log for log in (layout.logs / f"{step}.log" for step in failed) if log.is_file()]
    if not logs:
        raise UsageError(
            f"no step of {layout.root} failed",
            why="a workspace is explained by the log of its failed step, and its journal has none",
            fix="pass a log file; the logs of this workspace are in the folder logs",
            commands=(f"ls {shlex.quote(str(layout.logs))}",),
        )
    return max(logs, key=lambda log: log.stat().st_mtime)
