"""Reads the signature files and holds them against each other."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml
from pydantic import ValidationError

from xpubuild.errors import RecipeError
from xpubuild.explain.entities import BELIEVED, Row, places
from xpubuild.explain.matcher import Index
from xpubuild.explain.signature import Fact, Nearby, Signature, SignatureFile
from xpubuild.frozen import frozen
from xpubuild.resources import docs_page
from xpubuild.safe_yaml import read_yaml

#: What ships with xpubuild.
FOLDERS = tuple(Path(__file__).with_name(name) for name in ("signatures", "kinds", "tables"))


@frozen
class Rules:
    """All signatures and facts, checked."""

    signatures: tuple[Signature, ...]
    facts: tuple[Fact, ...]

    @functools.cached_property
    def index(self) -> Index:
        """What the lines of logs are looked up in."""
        return Index(self.signatures, self.facts)

    def by_id(self, name: str) -> Signature:
        """Return one signature.

        Raises:
            KeyError: there is none of this id.
        """
        return {signature.id: signature for signature in self.signatures}[name]


@functools.cache
def shipped_rules() -> Rules:
    """Return the signatures that ship with xpubuild."""
    return load_rules(*FOLDERS, believed=True)


def load_rules(*folders: Path, believed: bool = False) -> Rules:
    """Read every ``*.yaml`` of the folders; the patterns of ``believed`` ones are not tried.

    Raises:
        RecipeError: a file cannot be read or breaks the schema, or two signatures have one id.
    """
    files = [_read(path, believed=believed) for folder in folders for path in sorted(folder.glob("*.yaml"))]
    facts = tuple(fact for file in files for fact in file.facts)
    tables = {name: rows for file in files for name, rows in file.tables.items()}
    tables |= {name: index.rows() for file in files for name, index in file.indices.items()}
    entries = [
        entry.model_copy(update={"family": entry.family or file.family, "general": entry in file.kinds})
        for file in files
        for entry in (*file.signatures, *file.kinds)
    ]
    _check(entries, {fact.name for fact in facts}, set(tables))
    around = {name: lines for file in files for name, lines in file.around.items()}
    return Rules(tuple(_with_around(_with_rows(entry, tables), around) for entry in entries), facts)


def _with_rows(entry: Signature, tables: Mapping[str, tuple[Row, ...]]) -> Signature:
    if not entry.lookup:
        return entry
    lookup = tuple(item.model_copy(update={"rows": tables[item.table]}) for item in entry.lookup)
    return entry.model_copy(update={"lookup": lookup})


def _with_around(entry: Signature, around: Mapping[str, tuple[Nearby, ...]]) -> Signature:
    if not entry.general:
        return entry
    wanted = {name for text in entry.texts() for name in places(text)}
    shared = [line for name, lines in around.items() if name in wanted for line in lines]
    return entry.model_copy(update={"also": (*entry.also, *shared)})


def _read(path: Path, *, believed: bool) -> SignatureFile:
    fix = f"see {docs_page('how-to/add-a-signature.md')} for the format of signature files"
    try:
        document = read_yaml(path.read_text("utf-8"))
        return SignatureFile.model_validate(document, context=BELIEVED if believed else None)
    except (OSError, yaml.YAMLError, ValidationError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path.name} is not a signature file", why=str(error), fix=fix) from error


def _check(signatures: Iterable[Signature], facts: set[str], tables: set[str]) -> None:
    known: set[str] = set()
    entries = list(signatures)
    ids = {entry.id for entry in entries}
    for entry in entries:
        named = {name for matcher in entry.match for name in (*matcher.needs, *matcher.unless_fact)}
        problem = (
            "has the id of another signature"
            if entry.id in known
            else "has no family"
            if not entry.family
            else f"refers to unknown facts: {', '.join(sorted(named - facts))}"
            if named - facts
            else f"supersedes unknown signatures: {', '.join(sorted(set(entry.supersedes) - ids))}"
            if set(entry.supersedes) - ids
            else "looks up in an unknown table"
            if {item.table for item in entry.lookup} - tables
            else ""
        )
        if problem:
            raise RecipeError(f"signature {entry.id} {problem}", fix="correct its signature file")
        known.add(entry.id)
