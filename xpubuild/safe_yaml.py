"""YAML as safe values, read by libyaml where PyYAML has it: six times as fast as PyYAML's own code."""

from __future__ import annotations

import copy
import functools
from typing import Any

import yaml

#: For those who read events; not every build of PyYAML has libyaml.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: libyaml's composer crashes the process on some ten thousand levels; PyYAML's own raises RecursionError.
_MOST_LEVELS = 5000


def read_yaml(text: str) -> Any:
    """Return the value of a text.

    Raises:
        yaml.YAMLError: it is not YAML; the message names line and column and shows the line.
        RecursionError: it is nested too deeply.
    """
    return _read(text, LOADER, yaml.SafeLoader)


def read_yaml_strict(text: str) -> Any:
    """Return the value of a text in which no mapping has a key twice.

    The same text is parsed once in a process; each caller gets a copy of its own.

    Raises:
        yaml.YAMLError: it is not YAML, or a key is there twice or is no plain value.
        RecursionError: it is nested too deeply.
    """
    return copy.deepcopy(_parsed(text))


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> Any:
    return _read(text, _STRICT, _STRICT_PYTHON)


def _read(text: str, quick: Any, python: Any) -> Any:
    # libyaml lets some tabs pass between words: what is refused may not depend on how PyYAML was built.
    if "\t" in text or _levels(text) > _MOST_LEVELS:
        return yaml.load(text, python)  # noqa: S506 - a SafeLoader
    try:
        return yaml.load(text, quick)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError:
        return yaml.load(text, python)  # noqa: S506 - for the message: libyaml's does not show the line


def _levels(text: str) -> int:
    """Return a bound on the nesting: a bracket opens one level; of blocks there are at most two a column."""
    opened = text.count("[") + text.count("{") - text.count("[]") - text.count("{}")
    return opened + 2 * max(map(len, text.splitlines()), default=0)


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


def _strict(loader: Any) -> Any:
    """Return a loader without duplicate keys: the second of two 'commit:' lines must not win in silence."""
    made: Any = type("StrictLoader", (loader,), {})
    made.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
    return made


_STRICT, _STRICT_PYTHON = _strict(LOADER), _strict(yaml.SafeLoader)
