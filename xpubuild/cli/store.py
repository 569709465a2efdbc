"""``xpubuild store list|size|push|pull|gc``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import names, options

if TYPE_CHECKING:
    from xpubuild.install.store_work import Copies
    from xpubuild.supply.depot.location import Location

    Places = tuple[Path | Location, ...]


@click.group(name="store", short_help="Show, copy and collect the wheels that builds have kept.")
def command() -> None:
    """Show, copy and collect the wheels that builds have kept.

    Every wheel that is built is kept in your own store, named by everything that decided it. 'install' takes
    it from there, or from a store of --store, instead of building it again.
    """


_stores = options.store_option("Another store than your own: a folder; repeatable.")


def _settings() -> None:
    from xpubuild.cli.settings import apply_settings

    apply_settings()


@command.command(name="list", short_help="List the wheels that are kept.")
@_stores
@options.json_option
@options.speech()
def list_(store: Places, as_json: bool) -> int:
    """List the wheels in your own store and in those of --store."""
    from xpubuild.install.store_work import folder_stores, used_by
    from xpubuild.supply.depot.collect import contents_document
    from xpubuild.ui.console import print_json, show, warn
    from xpubuild.ui.supply_views import store_view

    _settings()
    used = used_by((), unread=lambda error: warn(f"{error.what}: {error.why}"))
    document = {
        "schema": "xpubuild.store/1",
        "stores": [contents_document(item, used) for item in folder_stores(store)],
    }
    if as_json:
        print_json(document)
    else:
        show(store_view(document))
    return 0


@command.command(short_help="Show how large the stores are.")
@_stores
@options.json_option
@options.speech()
def size(store: Places, as_json: bool) -> int:
    """Show how many wheels, repositories, files and sets your own store and those of --store have."""
    from xpubuild.install.store_work import folder_stores
    from xpubuild.supply.depot.collect import size_row
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.supply_views import store_size_view

    _settings()
    document = {
        "schema": "xpubuild.store-size/1",
        "stores": [size_row(item) for item in folder_stores(store)],
    }
    if as_json:
        print_json(document)
    else:
        show(store_size_view(document))
    return 0


@command.command(short_help="Copy kept wheels to another store.")
@click.argument("recipe", required=False, shell_complete=names.workspaces)
@options.workspace_option("Folder of a workspace: only its wheels are copied (default: all of your store).")
@options.store_option("Store to copy to: a folder; repeatable.")
@options.json_option
@options.speech()
def push(recipe: str | None, workspace: Path | None, store: Places, as_json: bool) -> int:
    """Copy the wheels of your own store, or those of the workspace of RECIPE, to the store of --store."""
    from xpubuild.cli.workspace import workspace_of
    from xpubuild.install import store_work

    _settings()
    root = workspace_of(recipe, workspace) if workspace is not None or recipe is not None else None
    return _copied(store_work.push(store, root), as_json=as_json)


@command.command(short_help="Copy the wheels of a recipe from other stores to your own.")
@options.build_options(brief=True, hidden=("--jobs", options.STORE_READ_ONLY))
@options.json_option
@options.speech()
def pull(as_json: bool, **build: Any) -> int:
    """Copy the wheels that an install of RECIPE would build from a store of --store to your own."""
    from xpubuild.install import store_work
    from xpubuild.install.options import Options
    from xpubuild.install.resolve import prepare

    prepared = prepare(Options(**build, telling=options.new_sink))
    return _copied(store_work.pull(prepared), as_json=as_json)


def _copied(copies: Copies, *, as_json: bool) -> int:
    """Print what was copied; a wheel that was not, other than because one is there, is an error."""
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.supply_views import store_copy_view

    document = {"schema": "xpubuild.store-copy/1", "wheels": copies.rows}
    if not as_json:
        show(store_copy_view(document))
    error = copies.failure()
    if error is not None:
        error.document = document
        raise error
    if as_json:
        print_json(document)
    return 0


@command.command(short_help="Remove kept wheels that nothing uses any more.")
@_stores
@options.option(
    "--older", default="30d", show_default=True, metavar="AGE", envvar=None,
    help="Remove what was not used since, such as 30d, 8w or 6m.",
)  # fmt: skip
@options.path_option(
    "--lock", "locks", multiple=True, default=(), metavar="FILE", envvar=None,
    callback=options.absolute_paths, help="Keep the wheels of this lock; repeatable.",
)  # fmt: skip
@options.path_option(
    "--workspace", "workspaces", multiple=True, default=(), envvar=None,
    callback=options.absolute_paths, help="Keep the wheels of this workspace too; repeatable.",
)  # fmt: skip
@options.option("--dry-run", is_flag=True, help="Show what would be removed, remove nothing.", envvar=None)
@options.option("--yes", is_flag=True, help="Do not ask for confirmation.", envvar=None)
@options.json_option
@options.speech()
def gc(
    store: Places,
    older: str,
    locks: tuple[Path, ...],
    workspaces: tuple[Path, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Remove wheels of your own that no workspace and no lock refers to and that were not used for some time.

    Workspaces are those of the default folder and of --workspace. Shows what would go, and asks; where nobody
    can be asked, --yes is required.
    """
    import sys

    from xpubuild.cli.workspace import workspace_of
    from xpubuild.install.store_work import folder_stores, require_there, used_by
    from xpubuild.supply.depot.collect import collectable, remove
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import many_view
    from xpubuild.workspace.overview import age_of

    _settings()
    used = used_by([workspace_of(None, path) for path in workspaces], [_digest(path) for path in locks])
    seconds = age_of(older).total_seconds()
    stores = folder_stores(store)
    require_there(stores)
    rubbish = [item for one in stores for item in collectable(one, used, seconds)]

    def document(*, dry: bool, kept: list[str]) -> dict[str, Any]:
        return {
            "schema": "xpubuild.store-gc/1",
            "dry_run": dry,
            "removed": [item.to_json() for item in rubbish],
            "kept": kept,
        }

    # What would go is shown before anybody is asked; with --json, standard output has the result alone.
    show(many_view(document(dry=True, kept=[])), sys.stderr if as_json else None)
    failed: list[str] = []
    if not dry_run and rubbish:
        if yes or _confirmed(len(rubbish), _again(older, store, locks, workspaces)):
            rubbish, failed = remove(rubbish)
            if not as_json:
                show(many_view(document(dry=False, kept=failed)))
        else:
            rubbish, failed = [], [f"{item.path}: not wanted" for item in rubbish]
    if as_json:
        print_json(document(dry=dry_run, kept=failed))
    return 0


def _digest(path: Path) -> str:
    from xpubuild.install.lock_file import read_lock

    return read_lock(path).plan


def _again(older: str, store: Places, locks: tuple[Path, ...], workspaces: tuple[Path, ...]) -> str:
    """Return the command with the options that decide what is removed."""
    import shlex

    named = (("--store", store), ("--lock", locks), ("--workspace", workspaces))
    words = [word for name, values in named for value in values for word in (name, str(value))]
    return shlex.join(["xpubuild", "store", "gc", "--older", older, *words])


def _confirmed(count: int, again: str) -> bool:
    import sys

    from xpubuild.errors import UsageError

    if sys.stdin.isatty():
        return click.confirm(f"Remove {count} files from the store?", err=True)
    raise UsageError(
        f"store gc would remove {count} files, and there is no terminal to ask for confirmation",
        why="standard input is not a terminal",
        fix="pass --yes to remove them, or --dry-run to list them",
        commands=(f"{again} --dry-run", f"{again} --yes"),
    )
