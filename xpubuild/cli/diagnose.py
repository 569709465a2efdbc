"""``xpubuild doctor`` and ``xpubuild explain``."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.doctor.kit import Profile
    from xpubuild.doctor.runner import Result
    from xpubuild.explain.document import Circumstances

_PROFILES: Mapping[str, tuple[Profile, ...]] = {"build": ("build",), "run": ("run",), "all": ("run", "build")}


@options.command("doctor")
def doctor(
    profile: str, only: tuple[str, ...], skip: tuple[str, ...], list_: bool, bundle: Path | None,
    root: Path | None, workspace: Path | None, **situation: Any,
) -> int:  # fmt: skip
    """Check whether this host can build and run PyTorch for XPU; explain failures and how to fix them.

    Needs no root, no torch and no oneAPI. Exits with code 10 if a check failed or could not complete.
    """
    from dataclasses import replace

    from xpubuild.doctor.report import doctor_document, make_report
    from xpubuild.engine.redact import Redactor
    from xpubuild.errors import UnfitHostError

    speech, profiles = options.speech(), _PROFILES[profile]
    # An empty value, as from an unset variable of a script, would mean all checks.
    options.refuse({} if only else {"only": "is empty; pass an id, a group or a pattern, or omit the option"})
    mask = Redactor.from_environment(os.environ)
    if list_:
        return _list(profiles, only, skip)
    # The machine is examined while the checks are imported.
    from xpubuild.doctor.start import begin

    wait = begin(os.environ, profiles=profiles, root=root or Path("/"), workspace=workspace, **situation)
    from xpubuild.doctor.registry import all_checks, select
    from xpubuild.doctor.runner import run_checks

    selection = select(all_checks(), profiles=profiles, only=only, skip=skip)
    look = replace(wait(), asked=selection.shown if only else frozenset())
    listener = _listener(mask) if speech.log_format == "jsonl" else None
    results = run_checks(look, selection, listener=listener)
    report = make_report(look, selection, results, profiles, mask)
    document = doctor_document(report, mask)
    # The bundle first: the reader of standard output may close it.
    if bundle is not None:
        from xpubuild.doctor.bundle import write_bundle

        write_bundle(document, os.environ, bundle, {} if root else _evidence(workspace, document))
    if speech.as_json or report.bad or not speech.quiet:
        _show(document, speech)
    return UnfitHostError.exit_code if report.bad else 0


def _evidence(workspace: Path | None, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the bundle has beside doctor's results: evidence of the workspace, internal errors."""
    from xpubuild.doctor.bundle import internal_errors, workspace_evidence
    from xpubuild.doctor.start import entered

    meant = workspace or entered(os.environ) or Path.cwd()
    checks = {check["id"]: check["status"] for check in document["checks"]}
    found = workspace_evidence(meant, checks) if (meant / "journal.db").is_file() else {}
    return {**found, "bugs": internal_errors()}


def _listener(redact: Callable[[str], str]) -> Callable[[Result], None]:
    """Return what writes a line of JSON for each check as it ends."""
    from xpubuild.documents import plain
    from xpubuild.ui.terminal import Terminal

    terminal = Terminal.detect(sys.stderr, os.environ)

    def write(result: Result) -> None:
        event = {"event": "check", "time": time.time(), **plain(result.clean(redact))}
        terminal.try_write(json.dumps(event) + "\n")

    return write


def _list(profiles: tuple[Profile, ...], only: tuple[str, ...], skip: tuple[str, ...]) -> int:
    from xpubuild.doctor.registry import all_checks, select
    from xpubuild.doctor.report import checks_document
    from xpubuild.ui.diagnosis_views import doctor_checks_view, doctor_explanations
    from xpubuild.ui.terminal import Terminal

    selection = select(all_checks(), profiles=profiles, only=only, skip=skip)
    document = checks_document([check for check in selection.checks if check.id in selection.shown])
    speech = options.speech()
    if speech.verbose and not speech.as_json:
        Terminal.detect(sys.stdout, os.environ).try_write(doctor_explanations(document))
        return 0
    return options.answer(document, doctor_checks_view)


def _show(document: Mapping[str, Any], speech: options.Speech) -> None:
    """Write the result to standard output, annotations for GitHub beside it."""
    from xpubuild.errors import NoSpaceError, ToolchainError
    from xpubuild.ui.console import json_text, summarise, write_out
    from xpubuild.ui.diagnosis_views import doctor_annotations, doctor_summary_view, doctor_text
    from xpubuild.ui.terminal import Terminal

    summarise(f"xpubuild doctor: {document['status']}", doctor_summary_view(document))
    terminal, errors = (Terminal.detect(stream, os.environ) for stream in (sys.stdout, sys.stderr))
    text = terminal.printable(doctor_text(document, terminal, verbose=speech.verbose))
    try:
        write_out(json_text(document) if speech.as_json else text)
    except (NoSpaceError, ToolchainError) as error:
        # The exit code still reports the result.
        errors.try_write(f"error: the report could not be written: {error.why}\n")
    if (speech.log_format or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "")) == "github":
        errors.try_write(doctor_annotations(document))


@options.command("explain")
def explain(log: str | None, list_: bool, here: bool) -> int:
    """Find the first error in LOG, its cause and the command to run next.

    LOG is a file, - for standard input, or the workspace (its folder, or the recipe that was built
    there) whose failed step is meant. The exit code is 0 even if no known failure is found.
    """
    from xpubuild.engine.redact import Redactor
    from xpubuild.errors import UsageError
    from xpubuild.explain.document import Circumstances, conclude, list_document
    from xpubuild.explain.scan import scan, scan_file
    from xpubuild.machine.system import os_facts, system_of
    from xpubuild.ui.diagnosis_views import explain_view, rules_view

    if list_:
        return options.answer(list_document(), rules_view)
    if log is None:
        raise UsageError(
            "no log was specified",
            fix="pass a log file, or - for standard input",
            commands=("xpubuild explain LOG", "xpubuild explain --list"),
        )
    known = Circumstances(system=system_of(os_facts()))
    outcome = scan(sys.stdin.buffer) if log == "-" else scan_file(_log(log))
    found = conclude(outcome, known)
    if here:
        probes = {probe for finding in found.findings for probe in finding.probes}
        found = conclude(outcome, _checked_here(known, sorted(probes)))
    return options.answer(Redactor.from_environment(os.environ).tree(found.to_json()), explain_view)


def _log(given: str) -> Path:
    """Return the log that is meant: a file, or that of the step that failed last in a workspace."""
    if not (path := Path(given)).is_dir() and (path.exists() or given.endswith((".log", ".txt", ".gz"))):
        return path
    from xpubuild.cli.workspace import workspace_of
    from xpubuild.engine.journal import Journal
    from xpubuild.errors import UsageError
    from xpubuild.workspace.layout import Layout

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


def _checked_here(known: Circumstances, probes: list[str]) -> Circumstances:
    """Run these checks of doctor on this host."""
    import dataclasses

    from xpubuild.doctor.start import begin

    if not probes:
        return known
    wait = begin(
        os.environ, profiles=("run", "build"), root=Path("/"), recipe=None, python=None, workspace=None
    )
    from xpubuild.doctor.registry import all_checks, select
    from xpubuild.doctor.runner import run_checks

    results = run_checks(wait(), select(all_checks(), profiles=("run", "build"), only=probes, skip=()))
    return dataclasses.replace(
        known,
        checks={item.id: item.status for item in results},
        details={item.id: item.detail for item in results},
    )
