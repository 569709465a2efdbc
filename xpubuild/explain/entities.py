"""What tables say about the names in a line: rows written by hand, and indices that a script has made."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

#: A place in a text for an entity, and a part of a text that is left out where one of its places is unknown.
PLACE = re.compile(r"(?<!\$)\{([a-z_]{1,40})\}")
OPTIONAL = re.compile(r"\[\[(.{1,400}?)\]\]")


def places(text: str) -> list[str]:
    """Return the names of the entities that a text has places for."""
    return PLACE.findall(text)


#: Context of a validation that believes patterns and literals: those that ship are checked by a test, since
#: compiling two thousand patterns takes longer than many a command that is watched.
BELIEVED = {"believed": True}


def _compiles(text: str, info: ValidationInfo) -> str:
    if info.context == BELIEVED:
        return text
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


def _valid_pattern(text: str, info: ValidationInfo) -> str:
    if info.context == BELIEVED:
        return text
    _compiles(text, info)
    if re.search(r"(?<!\\)[*+](?!\?*\})", re.sub(r"\[(?:\\.|[^\]\\])*\]|\\.", "x", text)):
        raise ValueError("'*' and '+' are unbounded: use {0,80} or {1,80}")
    return text


def _valid_literal(text: str, info: ValidationInfo) -> str:
    if info.context == BELIEVED:
        return text
    if text != text.lower() or len(text) < 4 or not re.fullmatch(r"[\x20-\x7e]{4,80}", text):  # noqa: PLR2004
        raise ValueError("a literal is 4 to 80 ASCII characters in lower case")
    if re.search(r"['`\"]|  ", text):
        raise ValueError(
            "a literal has no quotes and no double spaces: they differ between tools and locales"
        )
    return text


Pattern = Annotated[str, AfterValidator(_valid_pattern)]
#: For an entity, which the pattern that captured it has bounded.
EntityPattern = Annotated[str, AfterValidator(_compiles)]
Literal = Annotated[str, AfterValidator(_valid_literal)]


class Data(BaseModel):
    """What the models here share: they cannot be changed, and no unknown key is allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Row(Data):
    """What a table says about entities: values for the places of a text, and what a kind says otherwise.

    ``match`` is searched in the entity. ``packages`` are names per distribution (and ``default``), for
    ``{install}``.
    """

    match: EntityPattern
    what: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    #: For further places of the texts, such as the variable that leaves a part of a build out.
    values: dict[str, str] = Field(default_factory=dict)
    family: str | None = None
    title: str | None = None
    cause: str | None = None
    fix: str | None = None
    next: str | dict[str, str] | None = None
    confidence: float | None = Field(default=None, gt=0, le=1)
    #: Only for lines with this in them: the same symbol in a library of torchvision has another cause.
    line: Pattern | None = None

    def texts(self) -> tuple[str, ...]:
        """Return what it says in place of a kind, without its commands."""
        return tuple(text for text in (self.title, self.cause, self.fix) if text)


class Index(Data):
    """Names and the package of one distribution that has them, as a script has read them from its archive."""

    distribution: str
    #: Package -> names, with blanks between; a name that ends with / is a folder.
    packages: dict[str, str]

    def rows(self) -> tuple[Row, ...]:
        """Return a row for each package."""
        return tuple(
            Row(match=_any_of(names), packages={self.distribution: package})
            for package, names in self.packages.items()
        )


def _any_of(names: str) -> str:
    ends = ((name, "" if name.endswith("/") else r"(?![\w-])") for name in names.split())
    inner = "|".join(re.escape(name) + end for name, end in ends)
    return f"(?:^|^/(?:\\S{{1,200}}/)?)(?:{inner})"


class Lookup(Data):
    """The entity that is looked up in a table; the first row that fits it has the say."""

    entity: str
    table: str
    rows: tuple[Row, ...] = ()
