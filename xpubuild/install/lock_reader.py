"""Reads the YAML of a lock strictly: a duplicate key, alias, tag or second document is an error.

It accepts more than the canonical form (comments, other indentation), so that errors can be precise; whether
a text is canonical is checked afterwards, by writing it again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml import events

from xpubuild.errors import RecipeError
from xpubuild.safe_yaml import LOADER

#: A lock of PyTorch with a hundred repositories has some 200 kB.
_MOST_CHARACTERS = 16 << 20
_NUMBER = re.compile(r"-?[0-9]{1,15}")
_DEEPEST = 20


@dataclass
class _Open:
    """A mapping or list that is being read; ``key`` waits for its value."""

    value: dict[str, Any] | list[Any]
    key: str | None = None
    lines: dict[str, int] = field(default_factory=dict)

    def put(self, item: Any, event: events.Event) -> None:
        if isinstance(self.value, list):
            self.value.append(item)
        elif self.key is not None:
            self.value[self.key] = item
            self.key = None
        elif not isinstance(item, str) or item in self.value:
            problem = f"the key '{item}' is listed twice" if isinstance(item, str) else "a key is not text"
            raise no_lock(problem, _line(event))
        else:
            self.key = item


def read(text: str) -> dict[str, Any]:
    """Return the mapping that a text holds: texts, whole numbers, null, mappings and lists.

    Raises:
        RecipeError: it is not such a text; the message has the line.
    """
    if len(text) > _MOST_CHARACTERS:
        raise no_lock(f"it has more than {_MOST_CHARACTERS >> 20} million characters")
    try:
        value = _document(text)
    except (yaml.YAMLError, UnicodeError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
        raise no_lock(f"it is not YAML: {problem}", mark.line + 1 if mark else None) from error
    if not isinstance(value, dict):
        raise no_lock("it is not a mapping of sections")
    return value


def _document(text: str) -> Any:
    outer = _Open([])
    stack = [outer]
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, (events.MappingStartEvent, events.SequenceStartEvent)):
            _require_simple(event)
            if len(stack) > _DEEPEST:
                raise no_lock("it is nested too deep", _line(event))
            stack.append(_Open({} if isinstance(event, events.MappingStartEvent) else []))
            if isinstance(stack[-2].value, dict) and stack[-2].key is None:
                raise no_lock("a key is not text", _line(event))
        elif isinstance(event, (events.MappingEndEvent, events.SequenceEndEvent)):
            done = stack.pop()
            stack[-1].put(done.value, event)
        elif isinstance(event, events.ScalarEvent):
            _require_simple(event)
            stack[-1].put(_scalar(event), event)
        elif isinstance(event, events.AliasEvent):
            raise no_lock("it has an alias", _line(event))
    found = outer.value
    if len(found) != 1 or not isinstance(found, list):
        raise no_lock("it is empty" if not found else "it has several documents")
    return found[0]


def _require_simple(event: Any) -> None:
    if event.tag is not None or event.anchor is not None:
        raise no_lock("it has a tag or an anchor", _line(event))


def _scalar(event: events.ScalarEvent) -> str | int | None:
    text = str(event.value)
    if event.style not in (None, ""):
        return text
    if text in ("", "null", "~"):
        return None
    return int(text) if _NUMBER.fullmatch(text) else text


def _line(event: events.Event) -> int | None:
    mark = event.start_mark
    return mark.line + 1 if mark is not None else None


def no_lock(problem: str, line: int | None = None) -> RecipeError:
    """Return the error of a text that is no lock."""
    where = f"line {line}: " if line is not None else ""
    return RecipeError(
        "the lock cannot be read",
        why=f"{where}{problem}",
        fix="restore the file from version control, or create a new lock",
        commands=("xpubuild lock RECIPE",),
        evidence={"line": line, "problem": problem},
    )
