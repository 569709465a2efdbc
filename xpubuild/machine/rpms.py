"""Installed RPM packages, as rpm reports them: its database is binary and has four formats."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import probe
from xpubuild.errors import XpuBuildError
from xpubuild.machine.readers import LIVE_ROOT, entries

_DEADLINE_S = 8.0
_DATABASES = ("var/lib/rpm", "usr/lib/sysimage/rpm")
_FORMAT = "%{NAME} %{VERSION}-%{RELEASE}\\n"


def rpm_packages(root: Path, names: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, version-release, "rpm") of those that are installed; nothing for an unpacked tree.

    ``unread_database`` tells whether that is because nothing could be asked.
    """
    environment = base_environment()
    rpm = shutil.which("rpm", path=environment["PATH"])
    if root != LIVE_ROOT or rpm is None or _database(root) is None:
        return
    try:
        # Names that are not installed make the status 1 and are told in a sentence, which is passed over.
        answer = probe([rpm, "-q", "--qf", _FORMAT, *names], env=environment, deadline_s=_DEADLINE_S)
    except (XpuBuildError, OSError):
        return
    yield from parse_rpms(answer.stdout, names)


def unread_database(root: Path = LIVE_ROOT) -> str | None:
    """Return the folder of an RPM database that was not asked: that of a tree, or one without a program rpm.

    Where there is one, ``rpm_packages`` says nothing about what is installed.
    """
    found = _database(root)
    asked = found and root == LIVE_ROOT and shutil.which("rpm", path=base_environment()["PATH"])
    return None if asked else found


def _database(root: Path) -> str | None:
    return next((f"/{folder}" for folder in _DATABASES if entries(root / folder, root)), None)


def parse_rpms(text: str, names: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield what an answer of ``rpm -q`` says is installed."""
    for line in text.splitlines():
        name, _, version = line.partition(" ")
        if name in names and version and " " not in version:
            yield name, version, "rpm"
