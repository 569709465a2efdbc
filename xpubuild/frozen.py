"""``@frozen``: a frozen dataclass that costs a fifth of the time at import.

``@dataclass(frozen=True)`` compiles six functions for each class, 0.5 ms; a command that imports 270 of them
waits more than 0.1 s for that. Only ``__init__`` depends on the class: the others here are the same for all.
What runs in the interpreter of a user (``verify.suite``, ``ops``) has the plain ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar

from typing_extensions import dataclass_transform

_Class = TypeVar("_Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field, Field))
def frozen(cls: _Class) -> _Class:
    """Make a class a dataclass whose instances compare, hash and print by their fields, and do not change.

    ``dataclasses.replace``, ``fields`` and ``asdict`` work as for any other, and so does ``cached_property``.
    """
    own = set(vars(cls))
    made: Any = dataclass(eq=False, repr=False)(cls)
    parts: tuple[Field[Any], ...] = fields(made)
    made._compared = _getter(part.name for part in parts if part.compare)
    made._hashed = _getter(part.name for part in parts if (part.compare if part.hash is None else part.hash))
    for name, method in _METHODS.items():
        if name not in own:
            setattr(made, name, method)
    return cls


def _getter(names: Iterable[str]) -> Any:
    found = tuple(names)
    return attrgetter(*found) if found else type


def _equal(self: Any, other: Any) -> Any:
    return self._compared(self) == self._compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._hashed(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{part.name}={getattr(self, part.name)!r}" for part in fields(self) if part.repr)
    return f"{type(self).__qualname__}({shown})"


def _set(self: Any, name: str, value: object) -> None:
    if name in self.__dict__ or name not in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delete(_: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS = {
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _set,
    "__delattr__": _delete,
}
