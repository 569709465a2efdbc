"""``xpubuild check``: asks bytes, of whatever it is given: workspaces, wheels, locks, mirrors and stores."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from xpubuild.cli import names, options
from xpubuild.cli.grouped import GroupedCommand, group

if TYPE_CHECKING:
    from collections.abc import Callable

    from xpubuild.ui.sinks import SerialSink
    from xpubuild.workspace.check import Damage

#: Each kind of thing -> the options that are about it; another kind refuses them.
_ABOUT = {
    "wheels": (
        "cxx11_abi", "forbid_needed", "allow_missing", "search", "installed_in", "arch", "kind", "bundle",
        "runtime", "lock_file", "builder", "output",
    ),
    "lock": (
        "lock_policy", "recipe", "python", "oneapi_root", "extra_path", "extra_library_path", "conda_lock",
        "mirror", "offline",
    ),
    "workspace": ("workspace",),
    "depot": (),
}  # fmt: skip
_PLURAL = {"wheels": "wheels", "lock": "locks", "workspace": "workspaces", "depot": "mirrors and stores"}
_OF_REPAIR = ("kind", "bundle", "runtime", "lock_file", "builder", "output")


class _Asked(NamedTuple):
    """What was asked, in how many words, and what is done with it."""

    given: tuple[str, ...]
    repair: bool
    as_json: bool
    quiet: bool
    sink: Callable[[], SerialSink]
    more: dict[str, Any]


def _repeated(*words: str, **settings: Any) -> Any:
    return options.option(*words, multiple=True, envvar=None, **settings)


@click.command(
    name="check",
    cls=GroupedCommand,
    short_help="Hash and audit what was built: workspaces, wheels, locks, mirrors.",
)
@click.argument("given", nargs=-1, shell_complete=names.workspaces, metavar="[WORKSPACE|WHEEL...|LOCK|DEPOT]")
@options.workspace_option("Folder of the workspace (default: that of WORKSPACE, the active or the only one).")
@options.option(
    "--repair",
    is_flag=True,
    envvar=None,
    help="Recreate damaged parts of a workspace or mirror; of wheels, write wheels for other machines.",
)
@group(
    "Wheels",
    options.option(
        "--cxx11-abi", type=click.Choice(["0", "1"]), default=None, help="C++11 ABI they must have."
    ),
    _repeated("--forbid-needed", metavar="PATTERN", help="Library that must not be in NEEDED; repeatable."),
    _repeated("--allow-missing", metavar="PATTERN", help="Library that the target provides; repeatable."),
    _repeated(
        "--search", type=click.Path(path_type=Path), metavar="DIR", help="Folder with libraries; repeatable."
    ),
    options.path_option(
        "--installed-in",
        default=None,
        envvar=None,
        help="Follow RPATHs as if installed in this site-packages folder, or that of pip install --target.",
    ),
    options.names_option(
        "--arch", envvar=None, help="AOT targets, such as pvc, that SYCL kernels must have code for."
    ),
)
@group(
    "Wheels with --repair",
    options.option(
        "--kind",
        type=click.Choice(["portable", "site"]),
        default="portable",
        envvar=None,
        help="portable (default): for any machine of the platform tag; site: for the same oneAPI module.",
    ),
    options.option(
        "--bundle",
        is_flag=True,
        envvar=None,
        help="Put the libraries of Intel's runtime into the wheel instead of requiring them.",
    ),
    options.path_option(
        "--runtime",
        default=None,
        help="Environment with the wheels that the result will require, Intel's and torch.",
    ),
    options.path_option(
        "--lock",
        "lock_file",
        default=None,
        metavar="FILE",
        envvar=None,
        help="Lock that Intel's packages in the environment of --runtime must match.",
    ),
    _repeated(
        "--builder",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Folder whose name must not be in the result, beside the home folder; repeatable.",
    ),
    options.option(
        "--output",
        default="repaired",
        type=click.Path(path_type=Path),
        show_default=True,
        metavar="DIR",
        envvar=None,
        help="Folder for the repaired wheels.",
    ),
)
@group(
    "Locks",
    options.option(
        "--lock-policy", type=click.Choice(["exact", "compatible", "ignore"]), default="compatible",
        help="How strictly this machine is compared with that of the lock (default: compatible).",
    ),
    options.option("--recipe", default=None, metavar="FILE", help="Recipe file, if not in the search path."),
    options.option("--python", "python", default=None, metavar="EXE", help="Interpreter to build for."),
    options.path_option("--oneapi-root", default=None, help="oneAPI installation to compare with."),
    options.folders_option("--extra-path", help=options.EXTRA_PATH),
    options.folders_option("--extra-library-path", help=options.EXTRA_LIBRARY_PATH),
    options.path_option(
        "--conda-lock", default=None, metavar="FILE", help="conda-lock.yml to compare (default: solve one)."
    ),
    options.mirror_option("Mirror to use before the network: a folder, http or https URL."),
    options.option(
        "--offline", is_flag=True, help="Do not use the network; fail if something is not in the mirror."
    ),
)  # fmt: skip
@options.json_option
@options.speech("log_format", "quiet", "verbose")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    given: tuple[str, ...],
    repair: bool,
    as_json: bool,
    log_format: str | None,
    quiet: bool,
    verbose: bool,
    **more: Any,
) -> int:
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
    from xpubuild.ui.sinks import make_sink

    kind = _kind_of(given, more["workspace"])
    _refuse_foreign(ctx, kind, repair=repair)
    asked = _Asked(
        given, repair, as_json, quiet, lambda: make_sink(log_format, quiet=quiet, verbose=verbose), more
    )
    if kind == "wheels":
        from xpubuild.cli.check_wheels import check_wheels

        return check_wheels(given, more, repair=repair, as_json=as_json)
    return {"lock": _lock, "depot": _depot, "workspace": _workspace}[kind](asked)


def _kind_of(given: tuple[str, ...], workspace: Path | None) -> str:
    from xpubuild.install.options import is_lock
    from xpubuild.supply.depot.examine import is_depot

    if any(item.endswith(".whl") for item in given):
        return "wheels"
    if len(given) > 1:
        raise click.UsageError(
            "pass one workspace, one lock or one depot; only of wheels there may be several"
        )
    if workspace is not None or not given:
        return "workspace"
    path = Path(given[0])
    if is_depot(path):
        return "depot"
    if path.name.endswith((".lock.yaml", ".lock.yml")) or is_lock(given[0]):
        return "lock"
    # The file of a recipe names the workspace that was built from it.
    return "lock" if path.is_file() and path.suffix not in (".yaml", ".yml") else "workspace"


def _refuse_foreign(ctx: click.Context, kind: str, *, repair: bool) -> None:
    """Refuse options that have no effect on what is checked; a variable of the environment is no request."""
    allowed = _ABOUT[kind]
    for parameter in ctx.command.params:
        name = str(parameter.name)
        source = ctx.get_parameter_source(name)
        if source is not click.core.ParameterSource.COMMANDLINE:
            continue
        owners = [owner for owner, named in _ABOUT.items() if name in named]
        if owners and name not in allowed:
            raise click.UsageError(
                f"{parameter.opts[0]} is about {_PLURAL[owners[0]]}, and this checks {_PLURAL[kind]}"
            )
        if kind == "wheels" and name in _OF_REPAIR and not repair:
            raise click.UsageError(f"{parameter.opts[0]} is for --repair")
    if repair and kind == "lock":
        raise click.UsageError("a lock is not repaired; create it again with 'xpubuild lock RECIPE'")


def _lock(asked: _Asked) -> int:
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.install.lock_check import check_lock
    from xpubuild.install.lock_file import read_lock
    from xpubuild.install.options import Options
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.supply_views import fetch_progress, lock_verified_view

    quiet = asked.quiet
    lock = read_lock(Path(asked.given[0]))
    cancel, report = Cancel(), fetch_progress(quiet=quiet)
    named = (
        "recipe", "python", "oneapi_root", "extra_path", "extra_library_path", "conda_lock", "mirror",
        "offline",
    )  # fmt: skip
    over = {name: asked.more[name] for name in named if asked.more[name] is not None}
    given = Options(**{"recipe": None, **over}, report=report, telling=options.new_sink)
    with cancel_on_signals(cancel):
        verdict = check_lock(lock, given, asked.more["lock_policy"], report=report, cancel=cancel)
    document, error = verdict.document(), verdict.error()
    if not asked.as_json and not (quiet and error is None):
        show(lock_verified_view(document))
    if error is not None:
        raise error
    if asked.as_json:
        print_json(document)
    return 0


def _depot(asked: _Asked) -> int:
    from xpubuild.documents import plain
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.errors import SourceIntegrityError
    from xpubuild.supply.depot.examine import check_depot
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.supply_views import store_check_view

    path, cancel = Path(asked.given[0]).absolute(), Cancel()
    with cancel_on_signals(cancel):
        found = check_depot(path, repair=asked.repair, cancel=cancel)
    document = {
        "schema": "xpubuild.store-check/1",
        "stores": [{"store": str(path), "damaged": plain(tuple(found))}],
    }
    if not asked.as_json and not asked.quiet:
        show(store_check_view(document))
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        error = SourceIntegrityError(
            f"the depot {path} is damaged: {found[0].path}{more}",
            why=found[0].why,
            fix="relist what is sound, then fetch what is lost; damaged wheels are not used and are rebuilt",
            commands=(f"xpubuild check {shlex.quote(str(path))} --repair",),
        )
        error.document = document
        raise error
    if asked.as_json:
        print_json(document)
    return 0


def _workspace(asked: _Asked) -> int:
    import platformdirs

    from xpubuild.cli.workspace import workspace_of
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import workspace_check_view
    from xpubuild.workspace.check import check_workspace, failure
    from xpubuild.workspace.check_repair import BY_INSTALL, repair

    root = workspace_of(next(iter(asked.given), None), asked.more["workspace"])
    cancel = Cancel()
    repaired: tuple[Damage, ...] = ()
    cache = platformdirs.user_cache_path("xpubuild")
    with cancel_on_signals(cancel), asked.sink() as sink:
        found = check_workspace(root, cache, sink, cancel)
        if asked.repair and found.damaged:
            repaired = repair(root, found, cancel)
    if repaired:
        if BY_INSTALL & {item.kind for item in repaired}:
            _install_again(root)
        with cancel_on_signals(cancel), asked.sink() as sink:
            found = check_workspace(root, cache, sink, cancel)
    document = found.document(str(root), repaired)
    if not asked.as_json and not asked.quiet:
        show(workspace_check_view(document))
    error = failure(found, root, repaired=asked.repair)
    if error is not None:
        error.document = document
        raise error
    if asked.as_json:
        print_json(document)
    return 0


def _install_again(root: Path) -> None:
    """Run the last install of a workspace again."""
    import contextlib
    import sys

    from xpubuild.cli.install import command as install
    from xpubuild.cli.settings import Defaults
    from xpubuild.workspace.check_repair import install_words

    words, defaults = install_words(root), Defaults(("install",))
    # Standard output is for the one document of this command.
    with contextlib.redirect_stdout(sys.stderr):
        install.main(args=words, prog_name="xpubuild install", standalone_mode=False, default_map=defaults)
