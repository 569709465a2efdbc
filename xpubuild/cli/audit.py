"""``xpubuild audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xpubuild.cli import options

TORCH_LIBRARIES = ("libtorch.so", "libtorch_*.so", "libc10.so", "libc10_*.so")


@click.command(name="audit", short_help="Check wheels: C++ ABI, linkage, RECORD.")
@options.wheels_argument
@options.option(
    "--cxx11-abi", type=click.Choice(["0", "1"]), default=None, help="C++11 ABI that the wheels must have."
)
@click.option(
    "--forbid-needed",
    multiple=True,
    metavar="PATTERN",
    help="Library that must not be in NEEDED; may be repeated.",
)
@click.option(
    "--allow-missing",
    multiple=True,
    metavar="PATTERN",
    help="Library that the target machine provides; may be repeated.",
)
@options.search_option
@options.path_option(
    "--installed-in",
    default=None,
    help="Follow RPATHs as if the wheels lay in this site-packages folder, or that of pip install --target.",
)
@options.names_option(
    "--arch",
    envvar=None,
    help="AOT targets, such as pvc, that the wheels' SYCL kernels must have native code for.",
)
@options.json_option
@options.speech()
def command(
    wheels: tuple[Path, ...],
    cxx11_abi: str | None,
    forbid_needed: tuple[str, ...],
    allow_missing: tuple[str, ...],
    search: tuple[Path, ...],
    installed_in: Path | None,
    arch: tuple[str, ...] | None,
    as_json: bool,
) -> int:
    """Check WHEELS: C++ ABI, linkage, RECORD. Exits with code 60 if a check fails."""
    from xpubuild.artifacts.audit import AuditPolicy, audit_wheel, raise_for_findings
    from xpubuild.errors import AuditError, UsageError
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.supply_views import audit_view

    for wheel in wheels:
        if not wheel.exists():
            raise UsageError(f"{wheel} does not exist", fix="pass the paths of wheels, such as dist/*.whl")
    policy = AuditPolicy(
        cxx11_abi=None if cxx11_abi is None else int(cxx11_abi),
        forbid_needed=forbid_needed,
        # An extension finds these in the torch that is loaded before it; --search names a real one.
        allow_missing=(*allow_missing, *(() if search else TORCH_LIBRARIES)),
        device_targets=arch or None,
    )
    reports = [audit_wheel(wheel, policy, search=search, installed_in=installed_in) for wheel in wheels]
    document: dict[str, Any] = {
        "schema": "xpubuild.audit/1",
        "wheels": [report.to_json() for report in reports],
    }
    try:
        for report in reports:
            raise_for_findings(report)
    except AuditError as error:
        error.document = document
        if not as_json:
            show(audit_view(document["wheels"]))
        raise
    print_json(document) if as_json else show(audit_view(document["wheels"]))
    return 0
