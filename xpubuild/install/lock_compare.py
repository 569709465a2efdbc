"""The differences between two locks, each with the name of the item. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xpubuild.frozen import frozen
from xpubuild.install.lock_items import Item, items
from xpubuild.install.lock_model import Lock

_MOST_LISTED = 4


@frozen
class Difference:
    """One thing that is not what a lock says."""

    path: str
    """Name of the thing, such as repositories.torch.submodules.NAME.commit."""
    old: Any
    """What the lock has; null where it has nothing."""
    new: Any
    """What there is now; null where there is nothing."""
    text: str
    """The difference as a sentence."""


def differences(old: Lock, new: Lock) -> list[Difference]:
    """Return what differs, the machines aside, in the order of the sections."""
    return different_items(items(old), items(new))


def different_items(old: Mapping[str, Item], new: Mapping[str, Item]) -> list[Difference]:
    """Return what differs between named things: those that changed, went away or came."""
    found: list[Difference] = []
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            found.append(_whole(name, before, after))
        elif before != after:
            found += _fields(name, before, after)
    return found


def _whole(name: str, before: Item | None, after: Item | None) -> Difference:
    word = "is not in the lock" if before is None else "is only in the lock"
    return Difference(name, _value(before), _value(after), f"{name} {word}")


def _fields(name: str, before: Item, after: Item) -> Iterator[Difference]:
    for field in dict.fromkeys((*before, *after)):
        one, other = before.get(field), after.get(field)
        if one != other or (field in before) != (field in after):
            path = f"{name}.{field}" if field else name
            yield Difference(path, one, other, f"{path}: {_words(one, other)}")


def _words(one: Any, other: Any) -> str:
    if isinstance(one, tuple) and isinstance(other, tuple):
        gone = [item for item in one if item not in other]
        came = [item for item in other if item not in one]
        if not gone and not came:
            return f"the lock has the order {_list(one)}, now it is {_list(other)}"
        parts = [f"the lock has {_list(gone)}"] if gone else []
        parts += [f"now there is {_list(came)}"] if came else []
        return ", ".join(parts)
    return f"the lock has {_shown(one)}, now it is {_shown(other)}"


def _list(values: Sequence[str]) -> str:
    rest = len(values) - _MOST_LISTED
    return ", ".join(values[:_MOST_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return _list(value) or "none"
    return f"'{value}'" if value == "" else str(value)


def _value(item: Item | None) -> Any:
    if item is None:
        return None
    return item[""] if set(item) == {""} else dict(item)
