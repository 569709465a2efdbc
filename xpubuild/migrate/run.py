"""Reads files and folders, rewrites what is for CUDA, and makes one document of it."""

from __future__ import annotations

import difflib
import io
import json
import os
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import libcst as cst

from xpubuild.documents import plain
from xpubuild.engine.files import explained, write_atomic
from xpubuild.errors import MigrateError, RecipeError, UsageError
from xpubuild.frozen import frozen
from xpubuild.migrate.migrate_json import MigrateBaseline, MigrateDocument, MigrateFile, MigrateFinding
from xpubuild.migrate.python_code import rewrite
from xpubuild.migrate.rules import Found, Rewritten, Rules, reason
from xpubuild.migrate.text_files import rewrite_notebook, rewrite_text
from xpubuild.untrusted import UntrustedError, read_bytes

_TEXTS = (".sh", ".bash", ".slurm", ".sbatch", ".pbs", ".yaml", ".yml", ".toml", ".def")
_NAMES = ("Dockerfile", "Containerfile", "requirements")
_NOT_OURS = ("node_modules", "__pycache__", "site-packages", "venv", "env")


@frozen
class Change:
    """A file before and after."""

    path: Path
    before: str
    after: Rewritten
    encoding: str = "utf-8"
    parsed: bool = True


def files_of(paths: Sequence[Path], *, values: bool) -> Iterator[Path]:
    """Yield the files that are named, and those of the folders that may have something for CUDA.

    Raises:
        UsageError: a path does not exist.
    """
    for path in paths:
        if path.is_dir():
            for folder, folders, files in os.walk(path):
                folders[:] = sorted(name for name in folders if name[0] != "." and name not in _NOT_OURS)
                yield from (
                    Path(folder, name) for name in sorted(files) if _is_read(Path(name), values=values)
                )
        elif path.is_file():
            yield path
        else:
            raise UsageError(f"there is no file {path}", fix="pass files or folders that exist")


def _is_read(path: Path, *, values: bool) -> bool:
    kinds = (".py", ".ipynb", *_TEXTS, *((".json",) if values else ()))
    return path.suffix in kinds or path.name.startswith(_NAMES)


def change_of(path: Path, rules: Rules, *, values: bool) -> Change:
    """Return what becomes of a file; one that cannot be read as text stays as it is.

    Raises:
        UsageError: it cannot be read.
    """
    encoding, text = "utf-8", ""
    try:
        data = _bytes_of(path, "pass files that this user may read")
        if path.suffix == ".py":
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
        if path.suffix == ".ipynb":
            after = rewrite_notebook(text, rules)
        elif path.suffix == ".py":
            after = rewrite(text, rules)
        else:
            after = rewrite_text(text, rules, values=values)
    except cst.ParserSyntaxError as error:
        return _left(path, text, error.raw_line, error.message)
    except (SyntaxError, ValueError, RecursionError, UntrustedError) as error:
        return _left(path, text, 1, str(error))
    return Change(path, text, after, encoding)


def _bytes_of(path: Path, fix: str) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read", why=error.strerror or str(error), fix=fix) from error


def _left(path: Path, text: str, line: int, why: str) -> Change:
    found = Found(line, "", reason("own", "not-parsed", name=" ".join(why.split())[:200]))
    return Change(path, text, Rewritten(text, 0, (found,)), parsed=False)


def write(changes: Iterable[Change]) -> None:
    """Write the files that changed, each as a whole, with the rights that it had.

    Raises:
        ToolchainError, NoSpaceError: one cannot be written.
    """
    for change in changes:
        with explained(change.path, "writing it"):
            target = change.path.resolve()
            mode = target.stat().st_mode
            write_atomic(target, change.after.text.encode(change.encoding))
            target.chmod(mode)


def patch_of(change: Change) -> str:
    """Return the difference as ``git apply`` and ``patch -p1`` take it."""
    name = _shown(change.path)
    mark = "\ufeff" if change.encoding == "utf-8-sig" else ""
    before, after = _lines(mark + change.before), _lines(mark + change.after.text)
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def write_patch(path: Path, changes: Iterable[Change]) -> None:
    """Write the differences to one file, each in the encoding of its file.

    Raises:
        ToolchainError, NoSpaceError: it cannot be written.
    """
    data = [patch_of(change).encode(change.encoding.removesuffix("-sig")) for change in changes]
    with explained(path, "writing it"):
        write_atomic(path, b"".join(data))


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _shown(path: Path) -> str:
    """Return a path from the current folder, where it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path).lstrip("/")


def document_of(
    changes: Sequence[Change], rules: Rules, accepted: frozenset[str] = frozenset(), *, written: bool = False
) -> MigrateDocument:
    """Return the document about some files."""
    findings = [_finding(change, found) for change in changes for found in change.after.found]
    new = [item for item in findings if key_of(item) not in accepted]
    files: list[MigrateFile] = [
        {
            "path": _shown(change.path),
            "state": "changed" if change.parsed else "not parsed",
            "edits": change.after.edits,
            "diff": patch_of(change),
        }
        for change in changes
        if change.after.text != change.before or not change.parsed
    ]
    return {
        "schema": "xpubuild.migrate/1", "to": rules.to, "torch": rules.release, "written": written,
        "read": len(changes), "files": files, "findings": new, "known": len(findings) - len(new),
    }  # fmt: skip


def _finding(change: Change, found: Found) -> MigrateFinding:
    why = found.reason
    return {
        "path": _shown(change.path), "line": found.line, "id": why.id,
        "level": "note" if why.level == "note" else "finding", "text": found.text, "reason": why.why,
        "alternative": why.instead, "source": why.source,
    }  # fmt: skip


def key_of(finding: MigrateFinding) -> str:
    """Return what names a finding in a baseline: it stays when lines move."""
    return f"{finding['path']}: {finding['id']}: {finding['text']}"


def read_baseline(path: Path) -> frozenset[str]:
    """Return the findings that a file accepts.

    Raises:
        UsageError: it cannot be read.
        RecipeError: it is no baseline.
    """
    data = _bytes_of(path, f"write it with xpubuild migrate PATH --baseline {path} --update-baseline")
    try:
        document = json.loads(data)
        return frozenset(map(str, document["findings"]))
    except (ValueError, KeyError, TypeError, UntrustedError) as error:
        raise RecipeError(
            f"{path} is no baseline of migrate",
            why=str(error),
            fix="write it again",
            commands=(f"xpubuild migrate PATH --baseline {path} --update-baseline",),
        ) from error


def write_baseline(path: Path, document: MigrateDocument) -> None:
    """Write the findings of a document as accepted."""
    keys = sorted({key_of(item) for item in document["findings"]})
    baseline: MigrateBaseline = {"schema": "xpubuild.migrate-baseline/1", "findings": keys}
    with explained(path, "writing it"):
        write_atomic(path, (json.dumps(baseline, indent=2) + "\n").encode())


def verdict(document: MigrateDocument, *, check: bool) -> MigrateError | None:
    """Return the error for what is left: findings, and with ``check`` also changes not yet written."""
    left = sum(item["level"] == "finding" for item in document["findings"])
    pending = len(document["files"]) if check and not document["written"] else 0
    if not left and not pending:
        return None
    what = f"{left} finding{'s' * (left != 1)} left" if left else f"{pending} files would change"
    return MigrateError(
        what,
        why="they need a person's decision; each is listed with its reason and an alternative"
        if left
        else "",
        fix="change these places by hand, or accept them in a baseline" if left else "rewrite them",
        commands=("xpubuild migrate PATH --baseline FILE --update-baseline",)
        if left
        else ("xpubuild migrate PATH --write",),
    )


def sarif_of(document: MigrateDocument, version: str) -> dict[str, object]:
    """Return the findings as a SARIF 2.1.0 log."""
    rules = {item["id"]: item for item in document["findings"]}
    results = [
        {
            "ruleId": item["id"],
            "level": "warning" if item["level"] == "finding" else "note",
            "message": {"text": f"{item['reason']} Instead: {item['alternative']}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": item["path"]},
                        "region": {"startLine": max(item["line"], 1)},
                    }
                }
            ],
        }
        for item in document["findings"]
    ]
    shown = [
        {"id": name, "shortDescription": {"text": item["reason"]}}
        | ({"helpUri": item["source"]} if item["source"] else {})
        for name, item in rules.items()
    ]
    driver = {"name": "xpubuild migrate", "version": version, "rules": shown}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    found: dict[str, object] = plain(
        {"$schema": schema, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    )
    return found
