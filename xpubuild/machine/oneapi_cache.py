"""Caches captures by the content of the scripts, not by time.

Only the difference is kept on disk, never the environment itself: proxies may carry passwords.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from xpubuild.engine.files import write_atomic
from xpubuild.engine.fingerprint import digest, file_sha256
from xpubuild.errors import XpuBuildError
from xpubuild.machine import envdiff
from xpubuild.machine.oneapi_capture import PROXIES, Capture, Request, is_entry, status_warnings
from xpubuild.machine.oneapi_components import Component
from xpubuild.machine.oneapi_finding import Finding
from xpubuild.machine.oneapi_paths import folders, is_file
from xpubuild.machine.oneapi_statuses import ScriptStatus

SCHEMA = "xpubuild.oneapi-capture/1"
# Scripts may build values from these; the others of the clean environment are proxies and TERM.
_RELEVANT = ("HOME", "USER", "PATH")


def _counting(script: Path) -> Iterable[Path]:
    """Return the files that count: a component's script may source what lies beside it."""
    beside = () if is_entry(script) else folders(script.parent)
    return dict.fromkeys((script, *filter(is_file, beside)))


def _content(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        # What cannot be read cannot be sourced either; the capture says so where it matters.
        return f"unreadable: {error.strerror}"


def cache_key(request: Request, components: Iterable[Component]) -> str:
    """Return the identity of a capture: scripts by path and content, versions, mode, base PATH."""
    scripts = [path for script in (*request.scripts, *request.hashed) for path in _counting(script)]
    return digest(
        {
            "schema": SCHEMA,
            "mode": request.mode,
            "arguments": list(request.arguments),
            "sourced": [str(script) for script in request.scripts],
            "scripts": {str(path): _content(path) for path in scripts},
            "components": [[item.name, item.version, str(item.path)] for item in components],
            "environment": {name: request.environment.get(name, "") for name in _RELEVANT},
        }
    )


def _path(folder: Path, key: str) -> Path:
    return folder / "oneapi" / f"{key}.json"


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("expected a list of strings")
    return tuple(value)


def _read(document: Any, key: str, request: Request) -> Capture:
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or document.get("key") != key:
        raise ValueError("not a capture of this key")
    difference = envdiff.from_json(document.get("diff"))
    if document.get("digest") != difference.digest():
        raise ValueError("the content does not match its digest")
    codes = document.get("statuses")
    if (
        not isinstance(codes, list)
        or len(codes) != len(request.scripts)
        or not all(isinstance(c, int) for c in codes)
    ):
        raise ValueError("expected one status per script")
    statuses = tuple(
        ScriptStatus(script, code, entry=is_entry(script))
        for script, code in zip(request.scripts, codes, strict=True)
    )
    before = dict(request.environment)
    return Capture(
        before=before,
        after=envdiff.apply(difference, before),
        diff=difference,
        statuses=statuses,
        warnings=status_warnings(statuses),
        noise=_texts(document.get("noise")),
    )


def load(folder: Path, key: str, request: Request) -> Capture | None:
    """Return a remembered capture; None where there is none, or the file is damaged or of another format."""
    try:
        return _read(json.loads(_path(folder, key).read_bytes()), key, request)
    except (OSError, ValueError, RecursionError):
        return None


def _copies_a_proxy(capture: Capture) -> bool:
    """Whether a script put a proxy's address, with its password, into a variable of another name."""
    addresses = [value for name in PROXIES if (value := capture.before.get(name))]
    return any(address in value for value in capture.diff.set.values() for address in addresses)


def store(folder: Path, key: str, capture: Capture) -> tuple[Finding, ...]:
    """Remember a capture; a cache that cannot be written is worth a finding, not a failure."""
    if _copies_a_proxy(capture):
        return ()
    document = {
        "schema": SCHEMA,
        "key": key,
        "diff": capture.diff.to_json(),
        "digest": capture.diff.digest(),
        "statuses": [status.status for status in capture.statuses],
        "noise": list(capture.noise),
    }
    text = json.dumps(document, indent=1, ensure_ascii=True) + "\n"
    try:
        write_atomic(_path(folder, key), text.encode("ascii"))
    except (OSError, XpuBuildError) as error:
        return (Finding("oneapi-cache-unwritable", f"the oneAPI environment could not be cached: {error}"),)
    return ()
