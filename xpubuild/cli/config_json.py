"""``xpubuild config --json``, ``config check``, ``config init`` and ``completion``."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict


class ConfigFile(TypedDict):
    """A place of a configuration file."""

    layer: Literal["site", "user", "project"]
    path: str
    exists: bool


class SettingRow(TypedDict):
    """A setting that something sets."""

    key: str
    """Table and name, such as options.jobs."""
    value: Any
    """As the option takes it; null with --all where nothing sets it."""
    layer: Literal["site", "user", "project", "environment", "nothing"]
    source: str
    """File and line, or the variable."""
    overridden_by: str
    """File and line, or the variable, that is used instead; empty if this value is used."""


class ConfigDocument(TypedDict):
    """What configuration files and the environment set."""

    schema: Literal["xpubuild.config/1"]
    """Name and version."""
    files: list[ConfigFile]
    settings: list[SettingRow]


class ConfigProblem(TypedDict):
    """An error in a configuration file."""

    path: str
    line: int
    """Counted from 1; 0 if the whole file is meant."""
    key: str
    value: str
    what: str
    fix: str


class ConfigCheckDocument(TypedDict):
    """What is wrong in configuration files."""

    schema: Literal["xpubuild.config-check/1"]
    """Name and version."""
    status: Literal["ok", "error"]
    files: list[str]
    problems: list[ConfigProblem]


class ConfigInitDocument(TypedDict):
    """The file that was written."""

    schema: Literal["xpubuild.config-init/1"]
    """Name and version."""
    file: str


class CompletionDocument(TypedDict):
    """What completes command lines in a shell."""

    schema: Literal["xpubuild.completion/1"]
    """Name and version."""
    shell: Literal["bash", "zsh", "fish"]
    script: str
