"""The values that a recipe is made of, with what makes one wrong."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from xpubuild.supply.git.urls import secret_in

Target = Literal["xpu", "cpu"]
#: Intel's package streams: LTS 2350 (agama-lts), LTS2 2523, and the rolling one (Ubuntu PPA, rolling server).
DriverFamily = Literal["lts-2350", "lts2-2523", "rolling"]
GpuFamily = Literal["max", "flex", "arc-a", "arc-b", "core-ultra", "panther-lake"]
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


def _specifier(value: str) -> str:
    try:
        SpecifierSet(value)
    except InvalidSpecifier as error:
        raise ValueError(f"'{value}' is not a version specifier such as '>=3.18,<4'") from error
    return value


def _version(value: str) -> str:
    try:
        Version(value)
    except InvalidVersion as error:
        raise ValueError(f"'{value}' is not a version") from error
    return value


def _commit(value: str) -> str:
    if not _COMMIT.fullmatch(value):
        raise ValueError(f"'{value}' is not a full commit id (40 or 64 lower-case hexadecimal digits)")
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"'{value}' is not a name of lower-case letters, digits, '.', '_' and '-'")
    return value


def _index(value: str) -> str:
    parts = urlsplit(value)
    if parts.username is not None or parts.password is not None or parts.query:
        # It would be in every plan, log and lock that is made of the recipe.
        raise ValueError("has a login or a token; put it into .netrc, pip.conf or .condarc")
    return value


def _git_url(value: str) -> str:
    reason = secret_in(value) if "://" in value else None
    if reason is not None:
        raise ValueError(reason)
    return value


#: Where packages come from: a URL without anything secret.
Index = Annotated[str, AfterValidator(_index)]
GitUrl = Annotated[str, AfterValidator(_git_url)]
Specifier = Annotated[str, AfterValidator(_specifier)]
VersionText = Annotated[str, AfterValidator(_version)]
Commit = Annotated[str, AfterValidator(_commit)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, AfterValidator(_name)]
#: A size in GiB: no machine has more than an exbibyte, and infinity has no bytes.
Gib = Annotated[float, Field(gt=0, le=1 << 30, allow_inf_nan=False)]
#: A build switch; numbers and booleans in YAML are written as upstream reads them (0, 1, ON, OFF, text).
Switch = str | int


class Strict(BaseModel):
    """Base of all parts of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)
