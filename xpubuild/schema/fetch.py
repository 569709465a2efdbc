"""``xpubuild fetch --json``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xpubuild.schema.common import Document, Error, Part


class FetchRepository(Part):
    """A commit that the build needs."""

    component: str
    url: str
    commit: str
    path: str = Field(description="Place below the component's tree; empty for the top.")
    ref: str | None = Field(description="Tag or branch by which the build asks for it.")
    configure_time: bool = Field(description="Whether the build itself clones it while it configures.")
    new: bool = Field(description="Whether the network was asked for it.")


class FetchFile(Part):
    """A package's file that the build needs."""

    kind: Literal["wheel", "sdist", "conda"]
    name: str
    dist: str
    version: str
    sha256: str
    size: int
    url: str = Field(description="Where it came from, without credentials; empty where that is not known.")
    new: bool


class FetchMissing(Part):
    """What a fetch would bring."""

    kind: Literal["git", "wheel", "sdist", "conda"]
    name: str
    url: str
    commit: str | None
    ref: str | None
    component: str | None
    path: str | None
    sha256: str | None
    size: int | None = Field(description="Bytes, where the index or its server says them; never for git.")


class FetchDamage(Part):
    """Something in the mirror that is not what its manifest says."""

    path: str = Field(description="Below the mirror.")
    what: str
    why: str
    entry: str = Field(description="Name of its entry in the manifest.")


class FetchSummary(Part):
    """How much there is; sizes are bytes."""

    repositories: int
    files: int
    bytes: int
    new_repositories: int
    new_files: int
    new_bytes: int
    missing_bytes: int = Field(description="With --dry-run, as far as sizes are known.")


class FetchDocument(Document):
    """What a fetch brought, would bring, or found."""

    schema_: Literal["xpubuild.fetch/1"] = Field(alias="schema", description="Name and version.")
    status: Literal["ok", "error"]
    action: Literal["fetch", "dry-run", "check", "export", "import"]
    mirror: str
    recipe: str | None = Field(description="Null where the whole mirror is meant.")
    pythons: list[str]
    set: str | None = Field(description="Name of the file below sets/ that says what was needed.")
    repositories: list[FetchRepository]
    files: list[FetchFile]
    unknown: list[str] = Field(description="What the build clones and the tree does not say plainly.")
    damaged: list[FetchDamage] = Field(description="With action fetch: found, and repaired.")
    missing: list[FetchMissing]
    file: str | None = Field(description="The export that was written or read.")
    digest: str | None = Field(description="Names the content of the export: the same on both sides.")
    summary: FetchSummary
    error: Error | None = None
