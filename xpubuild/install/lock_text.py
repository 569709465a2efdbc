"""The one text of a document of mappings, lists, texts, whole numbers and null. Pure.

YAML in block style and ASCII, one item per line. A text is written without quotes only if every reader of
YAML 1.1 and 1.2 reads it as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z0-9_./](?:[A-Za-z0-9_./+@=~<>()*!-]|:(?=[^\s:]))*")
#: What readers of YAML 1.2 take for a number, and those of 1.1 do not.
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0[ox][0-9A-Fa-f]+")
_RESOLVER: Any = yaml.resolver.Resolver()
_TEXT = "tag:yaml.org,2002:str"
_FIRST, _LAST = 0x20, 0x7E
_BYTE, _WORD = 0xFF, 0xFFFF

Scalar = str | int | None


def render(document: Mapping[str, Any]) -> str:
    """Return the text; the keys of a mapping come in the order that they have."""
    return "".join(f"{line}\n" for line in _mapping(document, ""))


def scalar(value: Scalar) -> str:
    """Return how one value is written."""
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    return value if _is_plain(value) else _quoted(value)


def _is_plain(text: str) -> bool:
    if not _PLAIN.fullmatch(text) or _NUMBER.fullmatch(text):
        return False
    return bool(_RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) == _TEXT)


def _quoted(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    code = ord(character)
    if _FIRST <= code <= _LAST:
        return character
    if code <= _BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _WORD else f"\\U{code:08x}"


def _mapping(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, item in value.items():
        yield from _entry(f"{indent}{scalar(key)}:", item, indent + "  ")


def _entry(head: str, item: Any, indent: str) -> Iterator[str]:
    if isinstance(item, Mapping):
        if item:
            yield head
            yield from _mapping(item, indent)
        else:
            yield f"{head} {{}}"
    elif isinstance(item, (list, tuple)):
        if item:
            yield head
            for element in item:
                yield from _element(element, indent)
        else:
            yield f"{head} []"
    else:
        yield f"{head} {scalar(item)}"


def _element(item: Any, indent: str) -> Iterator[str]:
    if isinstance(item, Mapping) and item:
        first, *rest = _mapping(item, indent + "  ")
        yield f"{indent}- {first.lstrip()}"
        yield from rest
    else:
        yield f"{indent}- {scalar(item)}"
