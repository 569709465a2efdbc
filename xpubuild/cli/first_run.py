"""``install --bundle``: after the build, verify on the device, and one file for whoever asks how it went."""

from __future__ import annotations

from pathlib import Path

from xpubuild.cli.diagnose import examined, write_bundle
from xpubuild.cli.verify import run_told
from xpubuild.engine.process import Cancel
from xpubuild.errors import XpuBuildError
from xpubuild.workspace.layout import Layout

SUITES = ("full", "speed")


def forget(root: Path) -> None:
    """Remove what the suites reported of an earlier build."""
    for suite in SUITES:
        Layout(root).verify_suite(suite).unlink(missing_ok=True)


def verified(root: Path, cancel: Cancel, *, quiet: bool) -> XpuBuildError | None:
    """Run the suites in a workspace, on the device that it was built for, and keep their documents there.

    Returns the error of the first suite that failed.
    """
    from xpubuild.verify.reports import failure, write_reports
    from xpubuild.verify.target import resolve_target

    target, errors = resolve_target(None, root, None), []
    for suite in SUITES:
        report = run_told(target, suite, cancel, quiet=quiet)
        write_reports(report, json_file=Layout(root).verify_suite(suite), junit_file=None)
        errors.append(failure(report, ("--workspace", str(root))))
    return next(filter(None, errors), None)


def write(bundle: Path, root: Path) -> None:
    """Examine the host as ``doctor`` does, and write the bundle of a workspace, finished or not."""
    _, document = examined(("run", "build"), workspace=root)
    write_bundle(bundle, document, root)
