"""``xpubuild explain``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.explain.document import Circumstances


@click.command(name="explain", short_help="Find the first error in a build log, its cause and a fix.")
@click.argument("log", required=False, type=click.Path(path_type=Path, allow_dash=True), metavar="LOG")
@options.option("--list", "list_", is_flag=True, envvar=None, help="List the known failures.")
@options.path_option(
    "--doctor",
    default=None,
    metavar="FILE",
    help="Report of 'doctor --json' from the same host, to distinguish between causes.",
)
@options.option(
    "--here",
    is_flag=True,
    envvar=None,
    help="The log is of this host: run the checks of doctor that confirm or refute the findings.",
)
@options.json_option
@options.speech()
def command(log: Path | None, list_: bool, doctor: Path | None, here: bool, as_json: bool) -> int:
    """Find the first error in LOG (- for standard input), its cause and the command to run next.

    The exit code is 0 even if no known failure is found.
    """
    from xpubuild.engine.redact import Redactor
    from xpubuild.errors import UsageError
    from xpubuild.explain.document import conclude, list_document
    from xpubuild.explain.scan import scan, scan_file
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.diagnosis_views import explain_view, signatures_view

    if list_:
        document = list_document()
        view = signatures_view
    elif log is None:
        raise UsageError(
            "no log was specified",
            fix="pass a log file, or - for standard input",
            commands=("xpubuild explain LOG", "xpubuild explain --list"),
        )
    else:
        known = _circumstances(doctor)
        outcome = scan(sys.stdin.buffer) if str(log) == "-" else scan_file(log)
        found = conclude(outcome, known)
        if here:
            probes = {probe for finding in found.findings for probe in finding.probes}
            found = conclude(outcome, _asked_here(known, sorted(probes)))
        document = Redactor.from_environment(os.environ).tree(found.to_json())
        view = explain_view
    if as_json:
        print_json(document)
    else:
        show(view(document))
    return 0


def _circumstances(doctor: Path | None) -> Circumstances:
    from xpubuild.explain.checks import read_checks
    from xpubuild.explain.document import Circumstances
    from xpubuild.machine.packages import system_of
    from xpubuild.machine.system import os_facts

    return Circumstances(system=system_of(os_facts()), checks=read_checks(doctor) if doctor else None)


def _asked_here(known: Circumstances, probes: list[str]) -> Circumstances:
    """Run these checks of doctor on this host."""
    import dataclasses
    import os

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
        checks={**{item.id: item.status for item in results}, **(known.checks or {})},
        details={item.id: item.detail for item in results},
    )
