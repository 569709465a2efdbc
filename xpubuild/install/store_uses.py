"""Which kept wheels workspaces and locks refer to."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.journal import Journal
from xpubuild.errors import FetchError, UsageError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.install.options import default_workspace
from xpubuild.supply.depot.collect import Used
from xpubuild.supply.depot.evidence import identity_of
from xpubuild.workspace.activation import read_receipt
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.overview import workspaces_in


@frozen
class Uses:
    """What a workspace refers to: steps by the identities of their wheels, lock digests, sha256 of wheels."""

    identities: Mapping[str, str] = field(default_factory=dict)
    digests: frozenset[str] = frozenset()
    wheels: frozenset[str] = frozenset()


def used_by(
    workspaces: Iterable[Path],
    digests: Iterable[str] = (),
    unread: Callable[[XpuBuildError], None] | None = None,
) -> Used:
    """Return what the workspaces of the default folder and others refer to, and lock digests.

    ``unread`` is told of each workspace that cannot be read; without it that is an error.

    Raises:
        UsageError, ToolchainError, FetchError: what a workspace refers to cannot be read.
    """
    found = []
    for root in dict.fromkeys((*workspaces_in(default_workspace("any").parent), *workspaces)):
        try:
            found.append(uses_of(root))
        except XpuBuildError as error:
            if unread is None:
                raise
            unread(error)
    return Used(
        frozenset(key for uses in found for key in uses.identities),
        frozenset((*digests, *(digest for uses in found for digest in uses.digests))),
        frozenset(sha256 for uses in found for sha256 in uses.wheels),
    )


def uses_of(root: Path) -> Uses:
    """Return what a workspace refers to, by its receipt and its journal, which knows of killed installs too.

    Without a receipt the wheels that it has count by their content.

    Raises:
        UsageError: the receipt is damaged.
        ToolchainError: the journal cannot be read.
        FetchError: a wheel cannot be read.
    """
    receipt = _receipt(root)
    steps = [*_recorded(root), *(() if receipt is None else _steps(root, receipt))]
    identities = {key: step for step, evidence in steps if (key := identity_of(evidence)) is not None}
    if receipt is None:
        return Uses(identities, wheels=frozenset(_hashed(root)))
    return Uses(identities, frozenset({str(receipt.get("lock_digest"))}))


def _receipt(root: Path) -> dict[str, Any] | None:
    try:
        return read_receipt(root)
    except UsageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise _damaged(root, error.why) from error


def _steps(root: Path, receipt: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the steps of a receipt with their evidence."""
    try:
        for step in receipt["steps"]:
            yield str(step["id"]), [dict(item) for item in step["evidence"]]
    except (KeyError, TypeError, ValueError):
        raise _damaged(root, "it does not have the evidence of its steps") from None


def _damaged(root: Path, why: str) -> UsageError:
    again: tuple[str, ...] = ()
    with contextlib.suppress(XpuBuildError, IndexError):
        with Journal(Layout(root).journal, read_only=True) as journal:
            recipe = str(journal.runs()[-1]["recipe"])
        again = (shlex.join(("xpubuild", "install", recipe, "--workspace", str(root))),)
    return UsageError(
        f"the receipt {Layout(root).receipt} is damaged",
        why="; ".join(filter(None, (why, "so the kept wheels that its workspace uses are not known"))),
        fix="run the same install again, which writes the receipt again, or remove the workspace",
        commands=again,
    )


def _recorded(root: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    path = Layout(root).journal
    if path.is_file():
        with Journal(path, read_only=True) as journal:
            yield from ((record.step, record.evidence) for record in journal.records())


def _hashed(root: Path) -> Iterator[str]:
    for wheel in sorted(Layout(root).wheels.glob("*.whl")):
        try:
            yield file_sha256(wheel)
        except OSError as error:
            raise FetchError(
                f"{wheel} cannot be read",
                why=f"{error.strerror}; the workspace has no receipt, so its wheels say what it uses",
                fix="let it be read, or run its install again",
            ) from error
