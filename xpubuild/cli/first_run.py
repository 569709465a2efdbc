"""``install --bundle``: after the build, verify on the device, and one file for whoever asks how it went."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xpubuild.doctor.kit import Profile
    from xpubuild.engine.process import Cancel
    from xpubuild.errors import XpuBuildError

SUITES = ("full", "speed")


def forget(root: Path) -> None:
    """Remove what the suites reported of an earlier build."""
    from xpubuild.workspace.layout import Layout

    for suite in SUITES:
        Layout(root).verify_suite(suite).unlink(missing_ok=True)


def verified(root: Path, cancel: Cancel, *, quiet: bool) -> XpuBuildError | None:
    """Run the suites in a workspace, on the device that it was built for, and keep their documents there.

    Returns the error of the first suite that failed.
    """
    from xpubuild.cli.verify import run_told
    from xpubuild.verify.reports import failure, write_reports
    from xpubuild.verify.target import resolve_target
    from xpubuild.workspace.layout import Layout

    target, errors = resolve_target(None, root, None), []
    for suite in SUITES:
        report = run_told(target, suite, cancel, quiet=quiet)
        write_reports(report, json_file=Layout(root).verify_suite(suite), junit_file=None)
        errors.append(failure(report, ("--workspace", str(root))))
    return next(filter(None, errors), None)


def write(bundle: Path, root: Path) -> None:
    """Examine the host as ``doctor`` does, and write the bundle of a workspace, finished or not."""
    from xpubuild.doctor.bundle import internal_errors, workspace_evidence, write_bundle
    from xpubuild.doctor.registry import all_checks, select
    from xpubuild.doctor.report import doctor_document, make_report
    from xpubuild.doctor.runner import run_checks
    from xpubuild.doctor.start import begin
    from xpubuild.engine.redact import Redactor

    profiles: tuple[Profile, ...] = ("run", "build")
    mask = Redactor.from_environment(os.environ)
    look = begin(os.environ, workspace=root)()
    selection = select(all_checks(), profiles=profiles)
    report = make_report(look, selection, run_checks(look, selection), profiles, mask)
    document = doctor_document(report, mask)
    evidence = workspace_evidence(root, {check["id"]: check["status"] for check in document["checks"]})
    write_bundle(document, os.environ, bundle, {**evidence, "bugs": internal_errors()})
