"""Rules as data: the literal messages of known programs, what they mean, and the command to run next."""

from __future__ import annotations

import functools
import math
import re
import typing
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from xpubuild.distribution import Need, System, family_of, install_line
from xpubuild.errors import RecipeError
from xpubuild.explain.normalise import canonical
from xpubuild.frozen import frozen
from xpubuild.resources import docs_page
from xpubuild.safe_yaml import read_yaml

#: How many lines before and after a message ``near`` looks at; the scanner keeps as many.
MAX_DISTANCE = 40
NEAR = 12
FOLDER = Path(__file__).with_name("rules")
#: Codes of errors (``xpubuild.errors``) that a fatal rule can end a build with.
Code = typing.Literal["no-space", "no-xpu"]
#: certain: the message has one cause; likely: the log decides for one; possible: one among several.
Sure = typing.Literal["certain", "likely", "possible"]
#: Surest first.
ORDER: tuple[Sure, ...] = typing.get_args(Sure)

_PLACE = re.compile(r"\{([a-z_]*)([#*]?)\}|<(?:([a-z]+):)?([^<>]*\|[^<>]*)>")
_SHAPES = {"": r"[^\s',;)\]]{1,200}", "#": r"-?\d[\d.]{0,18}", "*": r".{1,300}"}
_SHORTEST = 5
#: A cause that is surer than possible is one: none of these words is in its text.
ALTERNATIVES = re.compile(r"(?i)\b(?:or|either|one of (?:these|them)|mostly|usually)\b")
_SIZE = re.compile(r"([\d.]+) ?([KMGT]?)i?B?")


@frozen
class Message:
    """A message of a program: literal text, with ``{name}`` for a word that varies, ``{name#}`` for a number,
    ``{name*}`` for any text, ``<a|b>`` for one of several, ``<name:a|b>`` for one that is read; ``^`` is the
    beginning of the line."""

    text: str

    @functools.cached_property
    def literal(self) -> str:
        """The longest part of it that never varies, in lower case."""
        return max(_PLACE.sub("\0", self.text.removeprefix("^")).split("\0"), key=len).lower()

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """The message as a pattern for ``canonical`` text."""
        text = self.text.removeprefix("^")
        parts, end = ["^" if text != self.text else ""], 0
        for place in _PLACE.finditer(text):
            parts += [re.escape(text[end : place.start()]), _shape(place, place.end() == len(text))]
            end = place.end()
        return re.compile("".join([*parts, re.escape(text[end:])]))


def _shape(place: re.Match[str], last: bool) -> str:
    if place[4]:
        return f"({f'?P<{place[3]}>' if place[3] else '?:'}{'|'.join(map(re.escape, place[4].split('|')))})"
    shape = _SHAPES[place[2]] + ("" if last or place[2] == "#" else "?")
    return f"(?P<{place[1]}>{shape})" if place[1] else shape.replace("{1,", "{0,")


def _message(text: str) -> Message:
    if canonical(text.removeprefix("^")).strip() != text.removeprefix("^").strip():
        raise ValueError(f"not as logs are compared (one kind of quotes ', single blanks): {text}")
    return Message(text)


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


Messages = tuple[Annotated[Message, BeforeValidator(_message)], ...]
Command = str | dict[str, str]


class Row(_Data):
    """What is different where a part of the message has a known value; ``what`` stands for {what}."""

    what: str = ""
    title: str = ""
    cause: str = ""
    fix: str = ""
    next: Command = ""
    sure: Sure | None = None
    checks: tuple[str, ...] = ()
    decides: str = ""
    """What in a log decides for this cause, for a likely one."""


def _row(given: object) -> object:
    return {"what": given} if isinstance(given, str) else given


class Rule(Row):
    """A failure by the messages that show it.

    One of ``near`` must be in the line or within ``NEAR`` lines of it, none of ``unless_near`` may;
    ``unless`` are what the line itself must not have. ``where`` compares numbers and sizes read from the
    message (``{free: "> tried"}``, ``{used+tried: "> total"}``), or asks for a module of another package
    than that of a path (``{code: "outside caller"}``). ``rows`` has other texts for known values of the place
    ``by``; keys are patterns of its spellings as of file names, with | between them, and the first that fits
    holds; ``codes`` are numbers of it and the names that they stand for. ``decides`` says what in a log
    decides for a likely cause. A ``general`` rule gives way to any other; ``warning``: its program goes on
    after the message; ``start``: it can only be the cause before the first step of a run; ``transfer``: what
    failed is often tried again, and the server in the lines around it is ``{host}``; ``beside``: where it is
    not certain, it counts at the first error or shortly below it.
    ``next`` is a command, or one per distribution family with a ``default``, or
    ``install`` with a need of distributions.yaml. ``fatal`` ones stop a build in which they show.
    """

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    family: str = ""
    says: Annotated[Messages, Field(min_length=1)]
    near: Messages = ()
    unless: Messages = ()
    unless_near: Messages = ()
    where: dict[str, str] = Field(default_factory=dict)
    by: str = "code"
    rows: dict[str, Annotated[Row, BeforeValidator(_row)]] = Field(default_factory=dict)
    codes: dict[str, str] = Field(default_factory=dict)
    title: str
    cause: str
    fix: str
    next: Command
    sure: Sure = "possible"
    general: bool = False
    warning: bool = False
    start: bool = False
    transfer: bool = False
    beside: bool = False
    needs: tuple[str, ...] = ()
    unless_fact: tuple[str, ...] = ()
    fatal: bool = False
    error: Code | None = None
    file: str
    seen: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Rule:
        for message in self.says:
            if len(message.literal.strip()) < _SHORTEST:
                raise ValueError(f"its longest literal part is too short: {message.text}")
        if self.fatal != (self.error is not None):
            raise ValueError(f"{self.id}: a fatal rule needs an 'error', any other must not have one")
        for row in self.rows.values() or (self,):
            if any(isinstance(item.next, dict) and "default" not in item.next for item in (row, self)):
                raise ValueError(f"{self.id}: 'next' has no default")
            cause = (row.cause or self.cause).replace("{what}", row.what or self.what)
            sure = row.sure or self.sure
            if sure != "possible" and ALTERNATIVES.search(cause):
                raise ValueError(f"{self.id}: a cause with alternatives is possible at most: {cause}")
            if sure == "likely" and not (row.decides or self.decides):
                raise ValueError(f"{self.id}: 'decides' does not say what in a log makes it likely")
        return self

    def row(self, words: Mapping[str, str]) -> Row | None:
        """Return what holds for the value that a message has."""
        value = words.get(self.by, "")
        found = [row for key, row in self.rows.items() if any(fnmatchcase(value, x) for x in key.split("|"))]
        return found[0] if found and value else None

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the message is written, and threads in which it was seen."""
        found = re.fullmatch(r"([\w.-]+/[\w.-]+)@([^:]+):(.+)", self.file)
        place = "https://github.com/{}/blob/{}/{}".format(*found.groups()) if found else self.file
        return (place, *self.seen)

    def fits(self, words: Mapping[str, str]) -> bool:
        """Whether the numbers and packages that a message has are those of this cause."""
        for name, condition in self.where.items():
            how, _, of = condition.partition(" ")
            other = words.get(of, of)
            one = sum(_number(words.get(part, "" if part == name else "0")) for part in name.split("+"))
            two, outside = _number(other), f"/{words.get(name, '').partition('.')[0]}/" not in other
            if not (outside if how == "outside" else one < two if how == "<" else one > two):
                return False
        return True


class _Fact(_Data):
    find: str
    line: str


class _RuleFile(_Data):
    repo: str = ""
    rules: dict[str, tuple[Rule, ...]] = Field(default_factory=dict)
    facts: dict[str, _Fact] = Field(default_factory=dict)


@frozen
class Rules:
    """All rules, and the facts about a log that they ask for: name -> literal and pattern."""

    rules: tuple[Rule, ...]
    facts: Mapping[str, tuple[str, re.Pattern[str]]]

    def by_id(self, name: str) -> Rule:
        """Return one rule.

        Raises:
            KeyError: there is none of this id.
        """
        return {rule.id: rule for rule in self.rules}[name]


def _number(text: str) -> float:
    found = _SIZE.match(text.strip())
    # What is no number is neither greater nor less than any.
    return float(found[1]) * 1024 ** " KMGT".index(found[2] or " ") if found else math.nan


def command_for(command: Command, system: System) -> str:
    """Return the command for a system: of its ID, of what it is like, of its family, else the default."""
    if isinstance(command, str):
        return command
    if "install" in command:
        return install_line(typing.cast("Need", command["install"]), system) or command["default"]
    names = (*system.names, family_of(system.names) or "", "default")
    return next(command[name] for name in names if name in command)


@functools.cache
def shipped_rules() -> Rules:
    """Return the rules that ship with xpubuild."""
    return load_rules(sorted(FOLDER.glob("*.yaml")))


def load_rules(paths: Iterable[Path]) -> Rules:
    """Read rule files.

    Raises:
        RecipeError: a file cannot be read or breaks the schema, or two rules have one id.
    """
    rules: list[Rule] = []
    facts: dict[str, tuple[str, re.Pattern[str]]] = {}
    for path in paths:
        try:
            file = _RuleFile.model_validate(read_yaml(path.read_text("utf-8")))
            facts |= {name: (fact.find, re.compile(fact.line)) for name, fact in file.facts.items()}
        except (OSError, yaml.YAMLError, ValidationError, UnicodeDecodeError, re.error) as error:
            fix = f"see {docs_page('how-to/add-a-rule.md')} for the format of rule files"
            raise RecipeError(f"{path.name} is not a rule file", why=str(error), fix=fix) from error
        for name, rule in ((name, rule) for name, entries in file.rules.items() for rule in entries):
            place = rule.file if ":" in rule.file or not file.repo else f"{file.repo}:{rule.file}"
            rules.append(rule.model_copy(update={"family": name, "file": place}))
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen or {*rule.needs, *rule.unless_fact} - facts.keys():
            what = f"rule {rule.id} has the id of another rule, or asks for facts that no rule file has"
            raise RecipeError(what, fix="correct its rule file")
        seen.add(rule.id)
    return Rules(tuple(rules), facts)
