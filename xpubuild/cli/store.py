"""``xpubuild store list|size|push|pull|gc``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.cli import options
from xpubuild.supply.depot.location import Location
from xpubuild.ui.supply_views import store_copy_view, store_size_view, store_view

if TYPE_CHECKING:
    from xpubuild.install.kept import Copies

Places = tuple[Path | Location, ...]


def _store() -> None:
    """List, copy and remove wheels of earlier builds.

    Every wheel that is built is kept in your own store, named by everything that decided it. 'install' takes
    it from there, or from a store of --store, instead of building it again.
    """


store = options.group("store", _store)


@options.command("store list", parent=store)
def list_(store: Places) -> int:
    """List the wheels in your own store and in those of --store."""
    from xpubuild.documents import plain
    from xpubuild.install.kept import folder_stores
    from xpubuild.supply.depot.keeping import contents_of

    rows = [plain(contents_of(item)) for item in folder_stores(store)]
    return options.answer({"schema": "xpubuild.store/1", "stores": rows}, store_view)


@options.command("store size", parent=store)
def size(store: Places) -> int:
    """Show how many wheels, repositories, files and sets your own store and those of --store have."""
    from xpubuild.documents import plain
    from xpubuild.install.kept import folder_stores
    from xpubuild.supply.depot.keeping import size_of

    rows = [plain(size_of(item)) for item in folder_stores(store)]
    return options.answer({"schema": "xpubuild.store-size/1", "stores": rows}, store_size_view)


@options.command("store push", parent=store)
def push(store: Places) -> int:
    """Copy the wheels of your own store to the store of --store."""
    from xpubuild.install import kept

    return _copied(kept.push(store))


@options.command("store pull", parent=store)
def pull(**build: Any) -> int:
    """Copy the wheels that an install of RECIPE would build from a store of --store to your own."""
    from xpubuild.install import kept
    from xpubuild.install.options import Options
    from xpubuild.install.resolve import prepare

    return _copied(kept.pull(prepare(Options(**build, telling=options.new_sink))))


def _copied(copies: Copies) -> int:
    """Print what was copied; a wheel that was not, other than because one is there, is an error."""
    document = {"schema": "xpubuild.store-copy/1", "wheels": copies.rows}
    return options.answer(document, store_copy_view, copies.failure())


@options.command("store gc", parent=store)
def gc(store: Places, older: str, dry_run: bool, yes: bool) -> int:
    """Remove wheels of your own that no install took for some time.

    Shows what would go, and asks; where nobody can be asked, --yes is required.
    """
    import shlex

    from xpubuild.documents import plain
    from xpubuild.install.kept import folder_stores, require_there
    from xpubuild.supply.depot.keeping import collectable, remove
    from xpubuild.workspace.overview import age_of

    seconds = age_of(older).total_seconds()
    stores = folder_stores(store)
    require_there(stores)
    rubbish = [item for one in stores for item in collectable(one, seconds)]

    def document(found: Sequence[Any], kept: Sequence[str], *, dry: bool = False) -> dict[str, Any]:
        removed = plain(tuple(found))
        return {"schema": "xpubuild.store-gc/1", "dry_run": dry, "removed": removed, "kept": list(kept)}

    words = [word for place in store for word in ("--store", str(place))]
    return options.remove_asked(
        document(rubbish, (), dry=True), lambda: document(*remove(rubbish)),
        f"{len(rubbish)} files from the store",
        shlex.join(["xpubuild", "store", "gc", "--older", older, *words]), dry_run=dry_run, yes=yes,
    )  # fmt: skip
