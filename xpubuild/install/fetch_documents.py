"""The ``xpubuild.fetch/1`` document: what was downloaded, and what is present, damaged or missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.documents import plain
from xpubuild.engine.fingerprint import digest
from xpubuild.install.fetch_packages import Need
from xpubuild.install.planner import Inputs
from xpubuild.supply.index.files import RemoteFile
from xpubuild.supply.mirror.entries import Entry
from xpubuild.supply.mirror.naming import described
from xpubuild.supply.mirror.sets import RepositoryUse

SCHEMA = "xpubuild.fetch/1"


def document(
    action: str, mirror: Path, *, recipe: str | None = None, pythons: Sequence[str] = (), **parts: Any
) -> dict[str, Any]:
    """Return the document of one command; ``parts`` are the fields that it fills."""
    return {
        "schema": SCHEMA,
        "action": action,
        "mirror": str(mirror),
        "recipe": recipe,
        "pythons": list(pythons),
        "set": None,
        "repositories": [],
        "files": [],
        "unknown": [],
        "damaged": [],
        "missing": [],
        **parts,
    }


def inputs_digest(inputs: Inputs, conda_lock: str | None = None) -> str:
    """Return a digest of the external inputs of a build."""
    return digest(
        {
            "repositories": [
                {
                    "component": item.component,
                    "url": item.pin.url,
                    **item.pin.key(),
                    "configure_time": [entry.model_dump() for entry in item.configure_time],
                }
                for item in inputs.repositories
            ],
            "requirements": [[item.name, item.text] for item in inputs.requirements],
            "wheels": [[item.component, item.dist, item.version] for item in inputs.wheels],
            # Not the hash: a recipe often has none where a lock of it does.
            **({"archives": [[item.key, item.url] for item in inputs.archives]} if inputs.archives else {}),
            "conda": conda_lock,
        }
    )


def repository_row(use: RepositoryUse, fetched: Collection[str]) -> dict[str, Any]:
    """Return a repository that is needed; ``new`` where the network was asked for it."""
    return {**plain(use), "new": use.url in fetched}


def file_row(entry: Entry, before: Mapping[str, Entry]) -> dict[str, Any]:
    """Return a file that is needed; ``new`` where it was not among the entries ``before``."""
    return {
        "kind": entry.kind,
        "name": entry.name,
        "dist": entry.dist,
        "version": entry.version,
        "sha256": entry.sha256,
        "size": entry.size,
        "url": entry.url,
        "new": entry.id not in before,
    }


def missing_repository(use: RepositoryUse) -> dict[str, Any]:
    """Return a missing repository; its size is unknown."""
    return {
        "kind": "git",
        "name": use.url,
        "url": use.url,
        "commit": use.commit or None,
        "ref": use.ref,
        "component": use.component,
        "path": use.path,
        "sha256": None,
        "size": None,
    }


def missing_file(file: RemoteFile) -> dict[str, Any]:
    """Return a missing file; ``size`` is None if the index does not state it."""
    return {
        "kind": "archive" if file.is_archive else described(file.filename)[0],
        "name": file.filename,
        "url": file.url,
        "commit": None,
        "ref": None,
        "component": None,
        "path": None,
        "sha256": file.sha256,
        "size": file.size,
    }


def missing_wheel(need: Need) -> dict[str, Any]:
    """Return a Python package that is missing; which file of it pip will choose is not known."""
    return {
        "kind": "wheel",
        "name": f"{need.pin.name}=={need.pin.version} for Python {need.python}",
        "url": "",
        "commit": None,
        "ref": None,
        "component": None,
        "path": None,
        "sha256": None,
        "size": None,
    }


def totals(entries: Iterable[Entry], before: Mapping[str, Entry], missing_bytes: int = 0) -> dict[str, int]:
    """Return how much there is, and how much of it was not among the entries ``before``."""
    every = [entry for entry in entries if entry.kind != "set"]
    new = [entry for entry in every if before.get(entry.id) != entry]
    new_bytes = sum(entry.size - (before[entry.id].size if entry.id in before else 0) for entry in new)
    return {
        "repositories": sum(entry.kind == "git" for entry in every),
        "files": sum(entry.is_file for entry in every),
        "bytes": sum(entry.size for entry in every),
        "new_repositories": sum(entry.kind == "git" for entry in new),
        "new_files": sum(entry.is_file for entry in new),
        "new_bytes": max(0, new_bytes),
        "missing_bytes": missing_bytes,
    }
