"""``xpubuild check``: asks bytes, of whatever it is given: workspaces, wheels, locks, mirrors and stores."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options
from xpubuild.cli.commands import sections
from xpubuild.documents import plain
from xpubuild.engine.places import share, sharing, within
from xpubuild.errors import AuditError, SourceIntegrityError, UsageError, XpuBuildError
from xpubuild.ui import supply_views as views
from xpubuild.ui.console import warn
from xpubuild.ui.views import workspace_check_view

if TYPE_CHECKING:
    from xpubuild.workspace.accounted import Damage

#: Kind of thing -> what the headings of its options begin with.
_ABOUT = {"wheels": "Wheels", "lock": "Locks"}
_PLURAL = {"wheels": "wheels", "lock": "locks", "workspace": "workspaces", "depot": "mirrors and stores"}
_TORCH_LIBRARIES = ("libtorch.so", "libtorch_*.so", "libc10.so", "libc10_*.so")


@options.command("check")
def check(given: tuple[str, ...], workspace: Path | None, repair: bool, **more: Any) -> int:
    """Check the bytes of a workspace, of wheels, a lock, a mirror or a store; nothing is run on a device.

    \b
    WORKSPACE  a folder, or the recipe that was built there (default: the active or the only one): installed
               files against RECORD and the wheels, wheels against the journal, checkouts against commits
    WHEEL      C++ ABI, linked libraries, device code, RECORD, platform tag
    LOCK       created again from recipe and sources, and compared with the file and this machine
    DEPOT      every repository, file and wheel of a mirror or store

    Exit codes: 60 if what was installed or built is damaged or a wheel fails its audit, 31 if kept sources or
    packages are damaged or do not match, 21 if a lock was edited or differs, 20 if a file is no lock.
    """
    kind = _kind_of(given, workspace)
    if workspace is not None and kind != "workspace":
        raise click.UsageError(f"--workspace is about workspaces, and this checks {_PLURAL[kind]}")
    _refuse_foreign(kind, repair=repair)
    if kind == "wheels":
        for item in given:
            if not Path(item).is_file():
                raise UsageError(f"{item} does not exist", fix="pass the paths of wheels, such as dist/*.whl")
        return (_repair_wheels if repair else _audit)([Path(item) for item in given], more)
    if kind == "lock":
        return _lock(Path(given[0]), more)
    if kind == "depot":
        return _depot(Path(given[0]).absolute(), repair=repair)
    return _workspace(next(iter(given), None), workspace, repair=repair)


def _kind_of(given: tuple[str, ...], workspace: Path | None) -> str:
    from xpubuild.install.options import is_lock
    from xpubuild.supply.depot.examine import is_depot

    if any(item.endswith(".whl") for item in given):
        return "wheels"
    if len(given) > 1:
        raise click.UsageError("pass one workspace, lock or depot; only of wheels there may be several")
    if workspace is not None or not given:
        return "workspace"
    path = Path(given[0])
    if is_depot(path):
        return "depot"
    if path.name.endswith((".lock.yaml", ".lock.yml")) or is_lock(given[0]):
        return "lock"
    # The file of a recipe names the workspace that was built from it.
    return "lock" if path.is_file() and path.suffix not in (".yaml", ".yml") else "workspace"


def _refuse_foreign(kind: str, *, repair: bool) -> None:
    """Refuse options that have no effect on what is checked."""
    why: dict[str, str] = {}
    for heading, found in sections("check").items():
        about = heading.partition(" ")[0]
        if about in ("Wheels", "Locks") and about != _ABOUT.get(kind):
            why |= dict.fromkeys(found, f"is about {about.lower()}, and this checks {_PLURAL[kind]}")
        elif heading.endswith("--repair") and not repair:
            why |= dict.fromkeys(found, "is for --repair")
    options.refuse(why)
    if repair and kind == "lock":
        raise click.UsageError("a lock is not repaired; create it again with 'xpubuild lock RECIPE'")


def _audit(wheels: list[Path], more: dict[str, Any]) -> int:
    from xpubuild.artifacts.audit import audit_wheel
    from xpubuild.artifacts.audit_report import AuditPolicy, raise_for_findings
    from xpubuild.install.attest import read_policy, violations

    policy = AuditPolicy(
        cxx11_abi=None if more["cxx11_abi"] is None else int(more["cxx11_abi"]),
        # An extension finds these in the torch that is loaded before it; --search names a real one.
        allow_missing=(*more["allow_missing"], *(() if more["search"] else _TORCH_LIBRARIES)),
        device_targets=more["arch"] or None,
        elsewhere="error",
    )
    folders = {"search": more["search"], "installed_in": more["installed_in"]}
    asked = more["policy"]
    users = None if asked is None else read_policy(asked)
    reports = [
        audit_wheel(wheel, policy, **folders, more=violations(wheel, users, asked.parent) if users else ())
        for wheel in wheels
    ]
    failed: AuditError | None = None
    for report in reports:
        try:
            raise_for_findings(report)
        except AuditError as error:
            failed = failed or error
    document = {"schema": "xpubuild.audit/1", "wheels": [plain(report) for report in reports]}
    return options.answer(document, lambda found: views.audit_view(found["wheels"]), failed)


def _repair_wheels(wheels: list[Path], more: dict[str, Any]) -> int:
    from xpubuild.artifacts.site_packages import runtime_folder
    from xpubuild.artifacts.wheel_repair import repair_wheel

    runtime = None if more["runtime"] is None else runtime_folder(more["runtime"])
    done = [repair_wheel(item, more["output"], runtime=runtime, search=more["search"]) for item in wheels]
    document = {"schema": "xpubuild.wheel-repair/1", "wheels": done}
    return options.answer(document, lambda found: views.repair_view(found["wheels"]))


def _lock(path: Path, more: dict[str, Any]) -> int:
    from xpubuild.install.lock_file import read_lock
    from xpubuild.install.locked import check_lock
    from xpubuild.install.options import Options

    quiet, lock = options.speech().quiet, read_lock(path)
    report = views.fetch_progress(quiet=quiet)
    named = ("python", "oneapi_root", "extra_path", "extra_library_path", "conda_lock", "mirror", "offline")
    over = {name: more[name] for name in named if more[name] is not None}
    asked = Options(more["recipe"], **over, report=report, telling=options.new_sink)
    with options.interruptible() as cancel:
        document, error = check_lock(lock, asked, more["lock_policy"], report=report, cancel=cancel)
    return options.answer(document, views.lock_verified_view, error, silent=quiet and error is None)


def _depot(path: Path, *, repair: bool) -> int:
    from xpubuild.supply.depot.examine import check_depot
    from xpubuild.workspace.shared import why_closed

    with options.interruptible() as cancel:
        found = check_depot(path, repair=repair, cancel=cancel)
    stores = [{"store": str(path), "damaged": plain(tuple(found))}]
    own = path.is_relative_to(options.cache_folder().parent)  # nobody else's
    if repair and not own:
        # Without [share] nobody but its owner says that a folder which is closed is for others.
        share(item for item in within(path) if item != path or sharing().is_set)
    error: XpuBuildError | None = None
    repairing = f"xpubuild check {shlex.quote(str(path))} --repair"
    closed = "" if own else why_closed(within(path))
    if closed and sharing().is_set:
        fix = "open what is yours with --repair; folders above it are opened by whoever owns them"
        error = AuditError(f"the depot {path} is closed", why=closed, fix=fix, commands=(repairing,))
    elif closed:
        warn(f"{path}: {closed}")
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        error = SourceIntegrityError(
            f"the depot {path} is damaged: {found[0].path}{more}",
            why=found[0].why,
            fix="relist what is sound, then fetch what is lost; damaged wheels are not used and are rebuilt",
            commands=(repairing,),
        )
    document = {"schema": "xpubuild.store-check/1", "stores": stores}
    return options.answer(document, views.store_check_view, error, silent=options.speech().quiet)


def _workspace(given: str | None, folder: Path | None, *, repair: bool) -> int:
    from xpubuild.cli.build import install
    from xpubuild.cli.workspace import workspace_of
    from xpubuild.workspace.check import check_workspace, failure
    from xpubuild.workspace.check_repair import BY_INSTALL, install_words
    from xpubuild.workspace.check_repair import repair as repair_workspace

    root, cache = workspace_of(given, folder), options.cache_folder()
    repaired: tuple[Damage, ...] = ()
    with options.interruptible() as cancel, options.new_sink() as sink:
        found = check_workspace(root, cache, sink, cancel, opens=repair)
        if repair and found.damaged:
            repaired = repair_workspace(root, found, cancel)
    if BY_INSTALL & {item.kind for item in repaired}:
        # The last install again. Standard output is for the one document of this command.
        with contextlib.redirect_stdout(sys.stderr):
            install.main(args=install_words(root), prog_name="xpubuild install", standalone_mode=False)
    if repaired:
        with options.interruptible() as cancel, options.new_sink() as sink:
            found = check_workspace(root, cache, sink, cancel)
    error = failure(found, root, repaired=repair)
    document = found.document(str(root), repaired)
    return options.answer(document, workspace_check_view, error, silent=options.speech().quiet)
