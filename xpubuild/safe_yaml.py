"""YAML as safe values, read by libyaml where PyYAML has it: six times as fast as PyYAML's own code."""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any

import yaml

from xpubuild.untrusted import MOST_BYTES, checked_number, described

#: For those who read events; not every build of PyYAML has libyaml.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: libyaml's composer crashes the process on some ten thousand levels; PyYAML's own raises RecursionError.
_MOST_LEVELS = 5000
_LONGEST_NUMBER, _SHOWN = 64, 40
#: Values of a text with every alias written out; the largest text without aliases has fewer.
_MOST_VALUES = 1_000_000
_ANCHOR, _ALIAS = (re.compile(rf"(?:^|[\s\[{{,:])\{mark}[^\s,\[\]{{}}]") for mark in "&*")


def read_yaml(text: str) -> Any:
    """Return the value of a text.

    Raises:
        yaml.YAMLError: it is not YAML; the message names line and column and shows the line.
        RecursionError: it is nested too deeply.
    """
    return _read(text, _QUICK, _PYTHON)


def read_yaml_strict(text: str) -> Any:
    """Return the value of a text in which no mapping has a key twice.

    The same text is parsed once in a process; each caller gets a copy of its own.

    Raises:
        yaml.YAMLError: it is not YAML, or a key is there twice or is no plain value.
        RecursionError: it is nested too deeply.
    """
    return _copied(_parsed(text))


def _copied(value: Any) -> Any:
    """Return a copy of what YAML can hold, several times as fast as ``copy.deepcopy``."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> Any:
    return _read(text, _STRICT, _STRICT_PYTHON)


def _read(text: str, quick: Any, python: Any) -> Any:
    if len(text) > MOST_BYTES:
        raise yaml.YAMLError(f"it is larger than {described(MOST_BYTES)}, which no such file is")
    # libyaml lets some tabs pass between words: what is refused may not depend on how PyYAML was built.
    swift = "\t" not in text and _levels(text) <= _MOST_LEVELS
    if _ANCHOR.search(text) and _ALIAS.search(text):
        _bound_aliases(text, quick if swift else python)
    if swift:
        with contextlib.suppress(yaml.YAMLError):
            return yaml.load(text, quick)  # noqa: S506 - a SafeLoader
    try:
        return yaml.load(text, python)  # noqa: S506 - for the message: libyaml's does not show the line
    except yaml.MarkedYAMLError as error:
        for mark in filter(None, (error.context_mark, error.problem_mark)):
            mark.name = "the file"  # the library says "<unicode string>"
        raise


def _bound_aliases(text: str, loader: Any) -> None:
    """Refuse a text that its aliases make far larger, before anything writes them out: few bytes can."""
    try:
        root = yaml.compose(text, loader)
    except yaml.YAMLError:
        return  # whoever reads it says what is wrong
    sizes: dict[int, int] = {}

    def size_of(node: Any) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = _MOST_VALUES  # of one that contains itself
            parts = node.value if isinstance(node, yaml.CollectionNode) else ()
            pairs = (part if isinstance(part, tuple) else (part,) for part in parts)
            sizes[id(node)] = 1 + sum(size_of(item) for pair in pairs for item in pair)
        return sizes[id(node)]

    if root is not None and size_of(root) > _MOST_VALUES:
        raise yaml.YAMLError(f"its aliases stand for more than {_MOST_VALUES} values, or for themselves")


def _levels(text: str) -> int:
    """Return a bound on the nesting: a bracket opens one level; of blocks there are at most two a column."""
    opened = text.count("[") + text.count("{") - text.count("[]") - text.count("{}")
    return opened + 2 * max(map(len, text.splitlines()), default=0)


def _scalar(kind: str) -> Any:
    """Return what makes a value of one kind; PyYAML's own raises errors that name no line, or overflows."""

    usual = getattr(yaml.constructor.SafeConstructor, f"construct_yaml_{kind}")

    def construct(loader: Any, node: yaml.ScalarNode) -> Any:
        if len(node.value) > _LONGEST_NUMBER:
            raise _unusable(node, "it has too many digits")
        try:
            value = usual(loader, node)
            return checked_number(value) if isinstance(value, (int, float)) else value
        except (ValueError, OverflowError) as error:
            raise _unusable(node, str(error)) from None

    return construct


def _unusable(node: yaml.ScalarNode, why: str) -> yaml.YAMLError:
    what = f"'{node.value[:_SHOWN]}' is not a value that can be used: {why}"
    return yaml.constructor.ConstructorError(None, None, what, node.start_mark)


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)
        if not isinstance(key, (str, int, float, bool)) or key in seen:
            raise yaml.constructor.ConstructorError(
                "while reading a mapping",
                node.start_mark,
                f"duplicate or unusable key {key!r}",
                key_node.start_mark,
            )
        seen.add(key)
    loader.flatten_mapping(node)
    found: dict[Any, Any] = loader.construct_mapping(node, deep=True)
    return found


def _loader(base: Any, *, strict: bool = False) -> Any:
    """Return a loader whose numbers and times can be used.

    A strict one has no duplicate keys: the second of two 'commit:' lines must not win in silence.
    """
    made: Any = type("BoundedLoader", (base,), {})
    for kind in ("int", "float", "timestamp"):
        made.add_constructor(f"tag:yaml.org,2002:{kind}", _scalar(kind))
    if strict:
        made.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
    return made


_QUICK, _PYTHON = _loader(LOADER), _loader(yaml.SafeLoader)
_STRICT, _STRICT_PYTHON = _loader(LOADER, strict=True), _loader(yaml.SafeLoader, strict=True)
