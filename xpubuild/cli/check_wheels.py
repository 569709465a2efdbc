"""``xpubuild check WHEEL``: audits wheels, and repairs them for other machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TORCH_LIBRARIES = ("libtorch.so", "libtorch_*.so", "libc10.so", "libc10_*.so")


def check_wheels(given: Sequence[str], more: Mapping[str, Any], *, repair: bool, as_json: bool) -> int:
    """Audit wheels, or write wheels for other machines; ``more`` are the options of check by name."""
    from xpubuild.errors import UsageError

    wheels = [Path(item) for item in given]
    for wheel in wheels:
        if not wheel.is_file():
            raise UsageError(f"{wheel} does not exist", fix="pass the paths of wheels, such as dist/*.whl")
    return (_repaired if repair else _audited)(wheels, more, as_json)


def _audited(wheels: Sequence[Path], more: Mapping[str, Any], as_json: bool) -> int:
    from xpubuild.artifacts.audit import audit_wheel
    from xpubuild.artifacts.audit_report import AuditPolicy, raise_for_findings
    from xpubuild.documents import plain
    from xpubuild.errors import AuditError
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.supply_views import audit_view

    policy = AuditPolicy(
        cxx11_abi=None if more["cxx11_abi"] is None else int(more["cxx11_abi"]),
        forbid_needed=more["forbid_needed"],
        # An extension finds these in the torch that is loaded before it; --search names a real one.
        allow_missing=(*more["allow_missing"], *(() if more["search"] else TORCH_LIBRARIES)),
        device_targets=more["arch"] or None,
    )
    reports = [
        audit_wheel(wheel, policy, search=more["search"], installed_in=more["installed_in"])
        for wheel in wheels
    ]
    found = [plain(report) for report in reports]
    document: dict[str, Any] = {"schema": "xpubuild.audit/1", "wheels": found}
    if not as_json:
        show(audit_view(found))
    try:
        for report in reports:
            raise_for_findings(report)
    except AuditError as error:
        error.document = document
        raise
    if as_json:
        print_json(document)
    return 0


def _repaired(wheels: Sequence[Path], more: Mapping[str, Any], as_json: bool) -> int:
    from xpubuild.artifacts.repair_decide import RepairRequest
    from xpubuild.artifacts.site_packages import runtime_folder
    from xpubuild.artifacts.wheel_repair import repair_wheel
    from xpubuild.errors import UsageError
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.supply_views import repair_view

    if more["kind"] == "site" and more["bundle"]:
        raise UsageError("--bundle is for portable wheels", fix="omit --bundle, or --kind site")
    site_packages = None if more["runtime"] is None else runtime_folder(more["runtime"])
    if more["lock_file"] is not None and site_packages is not None:
        from xpubuild.install.lock_check import require_locked
        from xpubuild.install.lock_file import read_lock

        require_locked(site_packages, read_lock(more["lock_file"]))
    request = RepairRequest(
        kind="site" if more["kind"] == "site" else "portable",
        bundle=more["bundle"],
        runtime=site_packages,
        search=tuple(folder.absolute() for folder in more["search"]),
        builder=tuple(folder.absolute() for folder in more["builder"]),
    )
    done = [repair_wheel(wheel, request, more["output"]) for wheel in wheels]
    if as_json:
        print_json({"schema": "xpubuild.wheel-repair/1", "wheels": done})
    else:
        show(repair_view(done))
    return 0
