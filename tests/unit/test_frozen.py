"""``@frozen``: what ``@dataclass(frozen=True)`` promises holds for it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle

import pytest

from xpubuild.frozen import frozen


@frozen
class Login:
    """What a place is reached with."""

    user: str
    password: str = dataclasses.field(default="", repr=False)
    tried: list[str] = dataclasses.field(default_factory=list, compare=False)
    more: dict[str, str] = dataclasses.field(default_factory=dict, hash=False)

    @functools.cached_property
    def shown(self) -> str:
        """The user, for a person."""
        return f"user {self.user}"


@frozen
class Named(Login):
    """One with a name; it prints that alone."""

    name: str = "it"

    def __repr__(self) -> str:
        return self.name


@frozen
class Nothing:
    """It has no field."""


def test_it_prints_its_fields_but_those_that_hide() -> None:
    assert repr(Login("a", "secret")) == "Login(user='a', tried=[], more={})"
    assert repr(Named("a")) == "it"
    assert repr(Nothing()) == "Nothing()"


def test_it_compares_by_its_fields_with_its_own_kind() -> None:
    assert Login("a", "b", ["c"]) == Login("a", "b", ["d"])
    assert Login("a", "b") != Login("a", "c")
    assert Login("a", more={"b": "c"}) != Login("a")
    assert Named("a") != Login("a")
    assert Login("a") != "a"
    assert Named("a", name="b") != Named("a", name="c")
    assert Nothing() == Nothing()
    assert len({Login("a"), Login("a", tried=["b"]), Login("a", more={"b": "c"}), Login("b")}) == 3
    assert len({Nothing(), Nothing()}) == 1


@pytest.mark.parametrize("name", ["user", "password", "other"])
def test_it_does_not_change(name: str) -> None:
    login = Login("a", "b")
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(login, name, "c")
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(login, name)
    assert login == Login("a", "b")


def test_the_tools_for_dataclasses_work() -> None:
    login = Login("a", "b")
    assert login.shown == "user a"
    assert dataclasses.replace(login, user="c") == Login("c", "b")
    fields = {"user": "a", "password": "", "tried": [], "more": {}, "name": "it"}
    assert dataclasses.asdict(Named("a")) == fields
    pickled = pickle.loads(pickle.dumps(login))  # noqa: S301 - its own
    for same in (copy.copy(login), copy.deepcopy(login), pickled):
        assert same == login
        assert same.shown == "user a"
