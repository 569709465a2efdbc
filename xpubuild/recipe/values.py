"""The values that a recipe is made of, with what makes one wrong."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from xpubuild.supply.git.pin import secret_in
from xpubuild.untrusted import NOT_ON_ONE_LINE

Target = Literal["xpu", "cpu"]
#: Intel's package streams: LTS 2350 (agama-lts), LTS2 2523, and the rolling one (Ubuntu PPA, rolling server).
DriverFamily = Literal["lts-2350", "lts2-2523", "rolling"]
GpuFamily = Literal["max", "flex", "arc-a", "arc-b", "core-ultra", "panther-lake"]
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
#: As PEP 508 names a distribution, and as POSIX names a variable.
_DIST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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


def _dist(value: str) -> str:
    if not _DIST.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a distribution's name: letters, digits and, inside, '.', '_', '-'"
        )
    return value


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError(f"{value!r} is not a variable's name: letters, digits and '_', no digit first")
    return value


def _word(value: str) -> str:
    # It is an argument of git, pip or conda, which would read an option.
    if value.startswith("-"):
        raise ValueError(f"{value!r} begins with '-', as an option does")
    return value


def _require_one_line(value: Any) -> None:
    if isinstance(value, str) and (found := NOT_ON_ONE_LINE.search(value)):
        raise ValueError(
            f"{value[:40]!r} has {found[0]!r}: a text of a recipe is one line without control characters"
            " (in YAML, '>-' folds lines into one)"
        )
    if isinstance(value, dict):
        _require_one_line(list(value))
        _require_one_line(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            _require_one_line(item)


def _index(value: str) -> str:
    parts = urlsplit(value)
    if parts.username is not None or parts.password is not None or parts.query:
        # It would be in every plan, log and lock that is made of the recipe.
        raise ValueError("has a login or a token; put it into .netrc or pip.conf")
    return value


def _git_url(value: str) -> str:
    reason = secret_in(value) if "://" in value else None
    if reason is not None:
        raise ValueError(reason)
    return value


#: Where packages come from: a URL without anything secret.
Index = Annotated[str, AfterValidator(_index), AfterValidator(_word)]
GitUrl = Annotated[str, AfterValidator(_git_url)]
Specifier = Annotated[str, AfterValidator(_specifier)]
VersionText = Annotated[str, AfterValidator(_version)]
Commit = Annotated[str, AfterValidator(_commit)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, AfterValidator(_name)]
Dist = Annotated[str, AfterValidator(_dist)]
#: The name of an environment variable: scripts have it without quotes.
Variable = Annotated[str, AfterValidator(_variable)]
#: An argument of a program.
Word = Annotated[str, AfterValidator(_word)]
#: A size in GiB: at least a kilobyte; no machine has more than an exbibyte, and infinity has no bytes.
Gib = Annotated[float, Field(ge=1e-6, le=1 << 30, allow_inf_nan=False)]
#: A build switch; numbers and booleans in YAML are written as upstream reads them (0, 1, ON, OFF, text).
Switch = str | int


class Strict(BaseModel):
    """Base of all parts of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    @field_validator("*", mode="after")
    @classmethod
    def _one_line(cls, value: Any) -> Any:
        """Refuse what would be a second line in the language of a script, an image or a modulefile."""
        _require_one_line(value)
        return value
