"""The settings of pip in configuration files and variables, read without running pip."""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.kit import Look, once
from xpubuild.doctor.look.sites import Site, site
from xpubuild.frozen import frozen
from xpubuild.machine.readers import read_text

_TRUE = frozenset({"1", "yes", "true", "on", "y", "t"})
_DEFAULT_INDEX = re.compile(r'^PyPI = PackageIndex\(\s*"(https://[^"]+)"', re.MULTILINE)
#: Sections that count for what xpubuild runs: pip install, pip wheel, pip download.
_SECTIONS = ("global", "install", "wheel", "download")


@frozen
class Setting:
    """One setting: ``name`` as its long option without dashes in front, ``origin`` a file or a variable.

    ``section`` is its section in a file. ``level`` is the option (--global, --user, --site) with which
    ``pip config`` writes to that file; empty if it would write to another one.
    """

    name: str
    value: str
    origin: str
    section: str = ""
    level: str = ""

    @property
    def on(self) -> bool:
        """Whether a switch is on, as pip reads it."""
        return self.value.strip().lower() in _TRUE

    @property
    def from_file(self) -> bool:
        """Whether it is set in a configuration file: these apply to every pip, including that of a build."""
        return not self.origin.startswith("PIP_")


@once
def settings(look: Look) -> tuple[Setting, ...]:
    """Return every setting, the strongest last: files in pip's order, then variables.

    The order is that of pip's documentation, "Configuration": PIP_CONFIG_FILE, global, user, site.
    """
    from_files = (setting for place in _files(look) for setting in _read(look, *place))
    return (*from_files, *_variables(look))


def _files(look: Look) -> Iterator[tuple[Path, str]]:
    """Yield each file, and the option with which pip config writes to it: the last of its level."""
    named = look.environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    if named:
        yield look.path(named), ""
    for folder in (look.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep):
        yield look.path(folder) / "pip" / "pip.conf", ""
    yield look.path("/etc/pip.conf"), "--global"
    mine = look.home
    config = look.environ.get("XDG_CONFIG_HOME", "")
    if mine is not None:
        yield mine / ".pip" / "pip.conf", ""
    if config.startswith("/") or mine is not None:
        folder_of_mine = look.path(config) if config else (mine or Path()) / ".config"
        yield folder_of_mine / "pip" / "pip.conf", "--user"
    python = site(look)
    if python is not None and python.prefixes[0].name != "usr":
        yield python.prefixes[0] / "pip.conf", "--site"


def _read(look: Look, path: Path, level: str) -> Iterator[Setting]:
    text = read_text(path, look.root)
    if not text:
        return
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for section in _SECTIONS:
        if parser.has_section(section):
            for name, value in parser.items(section):
                # pip config finds what is written with dashes, on the machine that it runs on.
                known = level if look.live and "_" not in name else ""
                yield Setting(name.replace("_", "-"), value, look.shown(path), section, known)


def _variables(look: Look) -> Iterator[Setting]:
    for name, value in look.environ.items():
        if name.startswith("PIP_") and name != "PIP_CONFIG_FILE" and value:
            yield Setting(name.removeprefix("PIP_").lower().replace("_", "-"), value, name)


def indexes(look: Look) -> tuple[str, ...]:
    """Return the package indexes that pip would query; if none is configured, pip's default index."""
    found: dict[str, str] = {}
    extra: list[str] = []
    for item in settings(look):
        if item.name in ("index-url", "no-index"):
            found[item.name] = item.value
        elif item.name == "extra-index-url":
            extra = item.value.split()
    if found.get("no-index", "").strip().lower() in _TRUE:
        return ()
    first = found.get("index-url") or _default(site(look))
    return tuple(dict.fromkeys([*([first] if first else []), *extra]))


def _default(python: Site | None) -> str:
    """Return the default index in the source of the interpreter's pip, or of the pip of this interpreter."""
    folders = [folder / "pip" for folder in python.folders] if python else []
    for folder in folders:
        found = _DEFAULT_INDEX.search(read_text(folder / "_internal" / "models" / "index.py") or "")
        if found:
            return found[1]
    return ""
