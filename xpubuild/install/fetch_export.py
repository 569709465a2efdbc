"""Verifies a mirror, and exports and imports it as one file for air-gapped networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xpubuild.documents import plain
from xpubuild.engine.events import Sink
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.install.fetch import Fetch
from xpubuild.install.fetch_documents import document, totals
from xpubuild.install.fetch_repair import checked
from xpubuild.supply.mirror.entries import INDEX, MARK, PAGE
from xpubuild.supply.mirror.exporting import export
from xpubuild.supply.mirror.failures import damage_error
from xpubuild.supply.mirror.importing import import_file, look_at
from xpubuild.supply.mirror.index import read_manifest
from xpubuild.supply.mirror.store import Mirror


def check_mirror(
    path: Path, *, sink: Sink, cancel: Cancel | None = None, fetch: Fetch | None = None
) -> dict[str, Any]:
    """Verify every file of a mirror, or those that ``fetch`` needs, and return the document.

    Raises:
        SourceIntegrityError: something is damaged; the error carries the document.
        FetchError: there is no mirror, or it lacks the recipe.
    """
    mirror, teller = Mirror.open(path, damaged=True), Teller(sink, cancel=cancel)
    only = None if fetch is None else {MARK, INDEX, PAGE, *fetch.needed_entries(mirror)}
    with teller.run("mirror", str(path), [("check", "all files")]), teller.doing("check", "all files"):
        damages = checked(mirror, teller, only)
        entries = read_manifest(path).entries
        found = document(
            "check",
            path,
            damaged=plain(tuple(damages)),
            summary=totals(entries.values(), entries),
        )
        if damages:
            error = damage_error(path, damages)
            error.document = {**found, "status": "error", "error": error.to_json()}
            raise error
    return {**found, "status": "ok"}


def export_mirror(
    path: Path, target: Path, *, sink: Sink, cancel: Cancel | None = None, fetch: Fetch | None = None
) -> dict[str, Any]:
    """Write a mirror, or what ``fetch`` needs of it, to one file; return the document.

    Raises:
        SourceIntegrityError: the mirror is damaged; no file is left.
        FetchError: there is no mirror, or it lacks the recipe.
        NoSpaceError, ToolchainError: the file cannot be written.
        InterruptedByUserError: ``cancel`` was set; no file is left.
    """
    mirror, teller = Mirror.open(path), Teller(sink, cancel=cancel)
    entries = mirror.entries() if fetch is None else fetch.needed_entries(mirror)
    title = target.name
    with teller.run("mirror", str(path), [("export", title)]), teller.doing("export", title):
        teller.expect(sum(entry.size for entry in entries.values()))
        contents = export(mirror, entries.values(), target, progress=teller.count)
    return document(
        "export",
        path,
        recipe=fetch.inputs.recipe if fetch is not None else None,
        pythons=fetch.wanted.pythons if fetch is not None else (),
        status="ok",
        file=str(target),
        digest=contents.digest,
        summary=totals(entries.values(), entries),
    )


def import_mirror(path: Path, source: Path, *, sink: Sink, cancel: Cancel) -> dict[str, Any]:
    """Merge an export into a mirror and return the document.

    Raises:
        SourceIntegrityError: a byte of the export, or the mirror, is damaged; nothing was put in place.
        FetchError: there is no such file.
        UsageError, NoSpaceError, ToolchainError: the mirror cannot be made or written.
        InterruptedByUserError: ``cancel`` was set; the mirror is as before, or has all of the export.
    """
    teller = Teller(sink, cancel=cancel)
    if not (path / MARK).exists():
        look_at(source, teller.count)  # a file that is refused makes no mirror
    mirror = Mirror.open(path, create=True)
    with (
        teller.run("mirror", str(path), [("import", source.name)]),
        mirror.writing(cancel=cancel, report=teller.notice),
        teller.doing("import", source.name),
    ):
        before = read_manifest(path).entries
        teller.expect(source.stat().st_size if source.is_file() else 0)
        brought = import_file(source, mirror, progress=teller.count, cancel=cancel)
    return document(
        "import",
        path,
        status="ok",
        file=str(source),
        digest=brought.contents.digest,
        summary=totals(mirror.entries().values(), before),
    )
