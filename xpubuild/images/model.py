"""An image as data: two stages of instructions, before any format decides how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from xpubuild.frozen import frozen
from xpubuild.images.bases import Base

#: Where the build stage keeps what later builds use again: the workspace, pip's files, git repositories.
CACHE = "/var/cache/xpubuild"
#: A folder of its own below the mount: buildah puts a lock file into what it keeps.
WORKSPACES = f"{CACHE}/workspaces"
WORKSPACE = f"{WORKSPACES}/image"
#: The environments of xpubuild (build stage alone) and of what was built.
PROGRAM, VENV = "/opt/xpubuild", "/opt/venv"
WHEELS = "/wheels"
RECORD = "/usr/share/xpubuild"
USER, USER_ID = "torch", 10001


@frozen
class Run:
    """Shell lines that follow each other while none fails.

    ``caches`` are folders that the builder keeps, by the name under which it does; two builds at once take
    turns with the last. ``mounts`` are folders of the build stage that are there for these lines only. Where
    ``indexes``, pip asks package indexes: the builder may hand it the user's configuration, which must not
    become part of the image.
    """

    kind = "run"
    title: str
    lines: tuple[str, ...]
    caches: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    indexes: bool = False


@frozen
class Copy:
    """Files of the build's folder, or of the build stage, that become part of the image."""

    kind = "copy"
    title: str
    sources: tuple[str, ...]
    target: str
    from_build: bool = False


@frozen
class Env:
    """Variables for all that follows, and for whoever runs the image."""

    kind = "env"
    variables: Mapping[str, str]


@frozen
class User:
    """A new user without rights, as whom all that follows runs, and the image."""

    kind = "user"
    name: str
    number: int


Instruction = Run | Copy | Env | User


@frozen
class Image:
    """What is rendered: ``remade_by`` is the command that renders it again."""

    title: str
    remade_by: str
    base: Base
    labels: Mapping[str, str]
    build: tuple[Instruction, ...]
    runtime: tuple[Instruction, ...]
