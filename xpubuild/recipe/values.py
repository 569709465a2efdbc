"""The values that a recipe consists of, and what makes one invalid."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from xpubuild.supply.git.pin import is_ref, problem_with
from xpubuild.untrusted import NOT_ON_ONE_LINE

Target = Literal["xpu", "cpu"]
#: Intel's package streams: LTS 2350 (agama-lts), LTS2 2523, and the rolling one (Ubuntu PPA, rolling server).
DriverFamily = Literal["lts-2350", "lts2-2523", "rolling"]
GpuFamily = Literal["max", "flex", "arc-a", "arc-b", "core-ultra", "panther-lake"]


def _form(pattern: str, what: str) -> AfterValidator:
    """Return the check that a whole text is of a form."""
    form = re.compile(pattern)

    def check(value: str) -> str:
        if not form.fullmatch(value):
            raise ValueError(f"{value!r} is not {what}")
        return value

    return AfterValidator(check)


def _read_by(kind: type[Version | SpecifierSet], what: str) -> AfterValidator:
    """Return the check that a text is what a class of ``packaging`` reads."""

    def check(value: str) -> str:
        try:
            kind(value)
        except ValueError as error:
            raise ValueError(f"'{value}' is not a {what}") from error
        return value

    return AfterValidator(check)


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
    if (reason := problem_with(value)) is not None:
        raise ValueError(reason)
    return value


def _ref(value: str) -> str:
    if not is_ref(value):
        raise ValueError(f"{value!r} is not the name of a tag or branch")
    return value


def _below(value: str) -> str:
    if not value or value.startswith(("/", "-")) or ".." in PurePosixPath(value).parts:
        raise ValueError(f"{value!r} is not a path below the top of the tree")
    return value


#: An argument of git, pip or conda, which would read an option.
Word = Annotated[str, _form(r"(?!-).*", "a word: it begins with '-', as an option does")]
#: Where packages come from: a URL without anything secret.
Index = Annotated[Word, AfterValidator(_index)]
GitUrl = Annotated[str, AfterValidator(_git_url)]
Ref = Annotated[str, AfterValidator(_ref)]
#: A path that stays where it starts.
Below = Annotated[str, AfterValidator(_below)]
Specifier = Annotated[str, _read_by(SpecifierSet, "version specifier such as '>=3.18,<4'")]
VersionText = Annotated[str, _read_by(Version, "version")]
Commit = Annotated[str, _form("[0-9a-f]{40}([0-9a-f]{24})?", "a full commit id (40 or 64 hex digits)")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, _form("[a-z0-9][a-z0-9._-]*", "a name of lower-case letters, digits, '.', '_' and '-'")]
#: As PEP 508 names a distribution.
Dist = Annotated[str, _form("[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", "a distribution's name")]
#: As POSIX names an environment variable: scripts have it without quotes.
Variable = Annotated[str, _form("[A-Za-z_][A-Za-z0-9_]*", "a variable's name")]
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
