"""``xpubuild explain``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.explain.document import Circumstances


@options.command("explain")
def command(log: str | None, list_: bool, doctor: Path | None, here: bool) -> int:
    """Find the first error in LOG (- for standard input), its cause and the command to run next.

    The exit code is 0 even if no known failure is found.
    """
    from xpubuild.engine.redact import Redactor
    from xpubuild.errors import UsageError
    from xpubuild.explain.checks import read_checks
    from xpubuild.explain.document import Circumstances, conclude, list_document
    from xpubuild.explain.scan import scan, scan_file
    from xpubuild.machine.system import os_facts, system_of
    from xpubuild.ui.diagnosis_views import explain_view, signatures_view

    if list_:
        return options.answer(list_document(), signatures_view)
    if log is None:
        raise UsageError(
            "no log was specified",
            fix="pass a log file, or - for standard input",
            commands=("xpubuild explain LOG", "xpubuild explain --list"),
        )
    known = Circumstances(system=system_of(os_facts()), checks=read_checks(doctor) if doctor else None)
    outcome = scan(sys.stdin.buffer) if log == "-" else scan_file(Path(log))
    found = conclude(outcome, known)
    if here:
        probes = {probe for finding in found.findings for probe in finding.probes}
        found = conclude(outcome, _checked_here(known, sorted(probes)))
    return options.answer(Redactor.from_environment(os.environ).tree(found.to_json()), explain_view)


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
        checks={**{item.id: item.status for item in results}, **(known.checks or {})},
        details={item.id: item.detail for item in results},
    )
