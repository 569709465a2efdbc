"""``xpubuild doctor``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import names, options

if TYPE_CHECKING:
    from xpubuild.doctor.identity import Words
    from xpubuild.doctor.kit import Profile
    from xpubuild.doctor.report import Report
    from xpubuild.doctor.runner import Result
    from xpubuild.recipe.values import Target


@click.command(name="doctor", short_help="Check whether this host can build and run PyTorch for XPU.")
@options.option(
    "--profile",
    type=click.Choice(["build", "run", "all"]),
    default="all",
    show_default=True,
    help="What the host is for: building, running, or both.",
)
@options.option(
    "--recipe",
    default=None,
    metavar="RECIPE",
    shell_complete=names.recipes,
    help="Check the requirements of this recipe too.",
)
@options.option(
    "--target",
    type=click.Choice(["xpu", "cpu"]),
    default=None,
    help="With --recipe: the target device (default: the recipe's).",
)
@options.path_option(
    "--root",
    default=None,
    help="Check the files of an image or another machine in this folder, instead of /.",
    envvar=None,
)
@options.option(
    "--python", "python", default=None, metavar="EXE", help="Interpreter with the torch to check."
)
@options.workspace_option(
    "Workspace whose torch and file system are checked (default: the active one, else the current folder)."
)
@options.names_option(
    "--only",
    shell_complete=names.doctor_checks,
    help="Run only these checks: ids, groups or patterns.",
    envvar=None,
)
@options.names_option(
    "--skip",
    shell_complete=names.doctor_checks,
    help="Skip these checks: ids, groups or patterns.",
    envvar=None,
)
@options.option(
    "--list", "list_", is_flag=True, help="List the checks and exit; -v explains them.", envvar=None
)
@options.path_option(
    "--junit", metavar="FILE", default=None, help="Write a JUnit report to this file.", envvar=None
)
@options.path_option(
    "--bundle",
    metavar="FILE",
    default=None,
    help="Write results, and plan, logs, audits and verify of the workspace, to one file without secrets.",
    envvar=None,
)
@options.option(
    "--redact",
    multiple=True,
    metavar="WORD",
    help="Also remove this word from the bundle, such as a project's name; may be repeated.",
    envvar=None,
)
@options.json_option
@options.speech("log_format", "quiet", "verbose", verbose="Also list passed and skipped checks.")
def command(
    profile: str,
    recipe: str | None,
    target: Target | None,
    root: Path | None,
    python: str | None,
    workspace: Path | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    list_: bool,
    junit: Path | None,
    bundle: Path | None,
    redact: tuple[str, ...],
    as_json: bool,
    log_format: str | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Check whether this host can build and run PyTorch for XPU; explain failures and how to fix them.

    Needs no root, no torch and no oneAPI. Exits with code 10 if a check failed or could not complete.
    """
    from xpubuild.doctor.report import doctor_document, junit_report
    from xpubuild.engine.redact import Redactor
    from xpubuild.errors import UnfitHostError

    _require_names(only)
    words = _words(redact, bundle)
    mask = Redactor.from_environment(os.environ)
    if list_:
        _list(_profiles(profile), only, skip, as_json=as_json, verbose=verbose)
        return 0
    report = _examined(
        profile, only, skip, mask, log_format,
        root=root or Path("/"), recipe=recipe, target=target, python=python, workspace=workspace,
    )  # fmt: skip
    document = doctor_document(report, mask)
    # Files first: the reader of our output may go away.
    if junit is not None:
        _write(junit, junit_report(report))
    if bundle is not None:
        from xpubuild.doctor.bundle import write_bundle

        write_bundle(document, os.environ, bundle, words, _evidence(workspace, root, document))
    if as_json or report.bad or not quiet:
        _show(document, as_json=as_json, log_format=log_format, verbose=verbose)
    return UnfitHostError.exit_code if report.bad else 0


def _evidence(workspace: Path | None, root: Path | None, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the bundle tells beside doctor's results: the workspace that is meant, internal errors."""
    from xpubuild.doctor.bundle import internal_errors, workspace_evidence
    from xpubuild.doctor.start import entered

    if root is not None:
        return {}
    meant = workspace or entered(os.environ) or Path.cwd()
    checks = {check["id"]: check["status"] for check in document["checks"]}
    found = workspace_evidence(meant, checks) if (meant / "journal.db").is_file() else {}
    return {**found, "bugs": internal_errors()}


def _words(given: Sequence[str], bundle: Path | None) -> Words:
    """Return the words to remove from the bundle; a wrong option is reported before any check runs."""
    from xpubuild.doctor.identity import Words
    from xpubuild.errors import UsageError

    if given and bundle is None:
        raise UsageError(
            "--redact needs --bundle", why="it only removes words from the bundle", fix="add --bundle FILE"
        )
    return Words(given)


def _require_names(only: Sequence[str]) -> None:
    """Reject ``--only`` without a name, as from a script with an empty variable: that would mean all."""
    from click.core import ParameterSource

    from xpubuild.errors import UsageError

    given = click.get_current_context().get_parameter_source("only")
    if not only and given is ParameterSource.COMMANDLINE:
        raise UsageError(
            "--only is empty",
            fix="pass an id, a group or a pattern, or omit the option",
            commands=("xpubuild doctor --list",),
        )


def _profiles(name: str) -> tuple[Profile, ...]:
    return ("build",) if name == "build" else ("run",) if name == "run" else ("run", "build")


def _examined(
    profile: str,
    only: Sequence[str],
    skip: Sequence[str],
    redact: Callable[[str], str],
    log_format: str | None,
    **situation: Any,
) -> Report:
    """Examine the machine while the checks are imported, then run them."""
    from dataclasses import replace

    from xpubuild.doctor.start import begin

    profiles = _profiles(profile)
    wait = begin(os.environ, profiles=profiles, **situation)
    from xpubuild.doctor.registry import all_checks, select
    from xpubuild.doctor.report import make_report
    from xpubuild.doctor.runner import run_checks

    selection = select(all_checks(), profiles=profiles, only=only, skip=skip)
    look = replace(wait(), asked=selection.shown if only else frozenset())
    results = run_checks(look, selection, listener=_listener(log_format, redact))
    return make_report(look, selection, results, profiles, redact)


def _listener(log_format: str | None, redact: Callable[[str], str]) -> Callable[[Result], None] | None:
    """Return what writes a line of JSON for each check as it ends, where that was asked for."""
    if log_format != "jsonl":
        return None
    import json
    import time

    from xpubuild.documents import plain
    from xpubuild.ui.terminal import Terminal

    terminal = Terminal.detect(sys.stderr, os.environ)

    def tell(result: Result) -> None:
        event = {"event": "check", "time": time.time(), **plain(result.clean(redact))}
        terminal.try_write(json.dumps(event) + "\n")

    return tell


def _list(
    profiles: tuple[Profile, ...], only: Sequence[str], skip: Sequence[str], *, as_json: bool, verbose: bool
) -> None:
    from xpubuild.doctor.registry import all_checks, select
    from xpubuild.doctor.report import checks_document
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.diagnosis_views import doctor_checks_view, doctor_explanations
    from xpubuild.ui.terminal import Terminal

    selection = select(all_checks(), profiles=profiles, only=only, skip=skip)
    document = checks_document([check for check in selection.checks if check.id in selection.shown])
    if as_json:
        print_json(document)
    elif verbose:
        Terminal.detect(sys.stdout, os.environ).try_write(doctor_explanations(document))
    else:
        show(doctor_checks_view(document))


def _show(document: Mapping[str, Any], *, as_json: bool, log_format: str | None, verbose: bool) -> None:
    """Write the result to standard output, annotations for GitHub beside it."""
    from xpubuild.ui.console import json_text
    from xpubuild.ui.diagnosis_views import doctor_annotations, doctor_summary_view, doctor_text
    from xpubuild.ui.step_summary import summarise
    from xpubuild.ui.terminal import Terminal

    summarise(f"xpubuild doctor: {document['status']}", doctor_summary_view(document))
    terminal = Terminal.detect(sys.stdout, os.environ)
    if as_json:
        _said(json_text(document))
    else:
        _said(terminal.printable(doctor_text(document, terminal, verbose=verbose)))
    if (log_format or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "")) == "github":
        Terminal.detect(sys.stderr, os.environ).try_write(doctor_annotations(document))


def _said(text: str) -> None:
    """Write to standard output; if that fails, the exit code still reports the result."""
    from xpubuild.errors import NoSpaceError, ToolchainError
    from xpubuild.ui.console import write_out
    from xpubuild.ui.terminal import Terminal

    try:
        write_out(text)
    except (NoSpaceError, ToolchainError) as error:
        told = f"error: the report could not be written: {error.why}\n"
        Terminal.detect(sys.stderr, os.environ).try_write(told)


def _write(path: Path, data: bytes) -> None:
    from xpubuild.errors import UsageError

    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {path}",
            why=error.strerror or str(error),
            fix="use a file in a folder that you can write to",
        ) from error
