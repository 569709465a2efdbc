"""The text of a lock: one form, read back as it was, and no edit that goes unseen."""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.locks import example, locks, machine

from xpubuild.errors import LockMismatchError, RecipeError, XpuBuildError
from xpubuild.install.lock_canonical import dump, load, lock_digest, machine_digest
from xpubuild.install.lock_items import items, machine_items, marks
from xpubuild.install.lock_model import Lock
from xpubuild.install.lock_reader import read
from xpubuild.install.lock_text import render, scalar

TEXT = dump(example())


def told(error: XpuBuildError) -> str:
    return f"{error.what} {error.why}"


@given(locks)
@settings(max_examples=150, deadline=None)
def test_write_read_write_is_the_identity(lock: Lock) -> None:
    text = dump(lock)
    again = load(text)
    assert again == lock
    assert dump(again) == text
    assert text.isascii()
    assert text.isprintable() or set(text) - {"\n"} <= set(map(chr, range(32, 127)))


@given(locks)
@settings(max_examples=80, deadline=None)
def test_other_readers_of_yaml_see_the_same(lock: Lock) -> None:
    """PyYAML takes 'yes' for a truth and 1:30 for a number; a lock has no value that it takes so."""
    text = dump(lock)
    assert yaml.safe_load(text) == read(text)


def test_the_example_has_something_of_everything() -> None:
    document = yaml.safe_load(TEXT)
    assert load(TEXT) == example()
    sections = "schema recipe plan options repositories python conda archives marks digest machine"
    assert list(document) == sections.split()
    assert document["schema"] == "xpubuild.lock/1"
    assert "embedded" not in document["repositories"]["torch"]
    assert document["python"]["wheels"][1]["hashes"] is None
    assert list(document["repositories"]) == ["ops", "torch"]


def test_the_digests_can_be_made_with_other_tools() -> None:
    above, _, below = TEXT.partition("\ndigest: ")
    assert below.partition("\n")[0] == hashlib.sha256(f"{above}\n".encode()).hexdigest()
    assert lock_digest(example()) == below.partition("\n")[0]
    section = TEXT[TEXT.index("\nmachine:") + 1 :]
    body, _, own = section.rpartition("  digest: ")
    assert own.strip() == hashlib.sha256(body.encode()).hexdigest() == machine_digest(example())


def test_the_machine_is_no_part_of_the_digest() -> None:
    other = example(machine=machine().model_copy(update={"glibc": "2.39"}))
    assert lock_digest(other) == lock_digest(example())
    assert machine_digest(other) != machine_digest(example())


# Every single edit of the data: (what is edited, the edited document).
Edit = tuple[str, tuple[Any, ...], dict[str, Any]]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from places(item, (*path, number))


def at(document: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def edits(document: dict[str, Any]) -> Iterator[Edit]:
    for path, value in list(places(document)):
        if not path:
            continue
        made: list[tuple[str, Any]] = []
        if isinstance(value, str):
            made = [("changed", value + "0"), ("changed", flipped(value)), ("changed", None), ("changed", 7)]
        elif not isinstance(value, (dict, list)):
            made = [("changed", "some"), ("changed", 0 if value else 1)]
        elif isinstance(value, list):
            made = [("reordered", value[::-1])] if value[::-1] != value else []
            made += [("added", [*value, "x"]), ("emptied", [])] if value else [("added", ["x"])]
        for what, new in made:
            if new != value:
                changed = copy.deepcopy(document)
                at(changed, path[:-1])[path[-1]] = new
                yield what, path, changed
        yield from around(document, path, value)


def around(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> Iterator[Edit]:
    parent = at(document, path[:-1])
    dropped = copy.deepcopy(document)
    del at(dropped, path[:-1])[path[-1]]
    yield "dropped", path, dropped
    if isinstance(parent, list):
        doubled = copy.deepcopy(document)
        at(doubled, path[:-1]).append(copy.deepcopy(value))
        yield "doubled", path, doubled
    else:
        renamed = copy.deepcopy(document)
        at(renamed, path[:-1])[f"{path[-1]}x"] = at(renamed, path[:-1]).pop(path[-1])
        yield "renamed", path, renamed


def flipped(value: str) -> str:
    return (("0" if value[0] != "0" else "1") + value[1:]) if value else "x"


HEADER = TEXT.partition("schema:")[0]
DOCUMENT = read(TEXT)
EDITS = list(edits(DOCUMENT))
#: What a reader calls the item of a list that an edit is in.
NAMING = ("path", "name", "component", "url")


def names_of(path: tuple[Any, ...], *documents: Any) -> set[str]:
    """Return the names that a person may give to what is edited: the list item it is in, else its keys."""
    inside: set[str] = set()
    for document in documents:
        found: Any = document
        for step in path:
            if not isinstance(found, dict if isinstance(step, str) else list):
                break
            found = found.get(step) if isinstance(found, dict) else (found[step:] or [None])[0]
            if isinstance(step, int) and isinstance(found, dict):
                inside |= {str(found[key]) for key in NAMING if found.get(key)}
    if not inside:
        return {step for step in path[-3:] if isinstance(step, str)}
    # An entry that has lost its name is told by its place.
    return {*inside, *(f"{one}.{other}" for one, other in itertools.pairwise(path) if isinstance(other, int))}


def test_every_single_edit_of_the_data_is_found_and_named() -> None:
    assert len(EDITS) > 900
    for what, path, document in EDITS:
        text = HEADER + render(document)
        assert text != TEXT
        with pytest.raises(XpuBuildError) as caught:
            load(text)
        error = caught.value
        assert error.exit_code in (20, 21), (what, path)
        assert any(name in told(error) for name in names_of(path, DOCUMENT, document)), (
            what,
            path,
            told(error),
        )


def test_an_edit_with_new_marks_and_digests_is_another_lock() -> None:
    """A lock proves that it is whole, not that it is true: verify-lock holds it against the sources."""
    torch = example().repositories["torch"]
    moved = torch.model_copy(update={"commit": "1" * 40})
    other = example(repositories={**example().repositories, "torch": moved})
    assert load(dump(other)) == other
    assert lock_digest(other) != lock_digest(example())


def test_a_flipped_character_is_found_wherever_it_is(thorough: bool) -> None:
    # Every seventh place: each mask, and each line of seven characters or more.
    for position, character in list(enumerate(TEXT))[:: 1 if thorough else 7]:
        # One bit of it; which one changes with the place.
        mask = (0x01, 0x20, 0x04)[position % 3]
        damaged = TEXT[:position] + chr(ord(character) ^ mask) + TEXT[position + 1 :]
        with pytest.raises((RecipeError, LockMismatchError)):
            load(damaged)


@given(st.integers(0, len(TEXT)), st.integers(0, 40), st.text(max_size=3))
@settings(max_examples=300, deadline=None)
def test_any_other_edit_of_the_text_is_found(start: int, length: int, put: str) -> None:
    damaged = TEXT[:start] + put + TEXT[start + length :]
    if damaged == TEXT:
        return
    with pytest.raises((RecipeError, LockMismatchError)):
        load(damaged)


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_other_text_is_no_lock(text: str) -> None:
    with pytest.raises(RecipeError):
        load(text)


@pytest.mark.parametrize(
    ("text", "told_as"),
    [
        ("", "empty"),
        ("a: \ud800\n", "not YAML"),
        ("[]\n", "not a mapping"),
        ("schema: xpubuild.lock/2\n", "version 'xpubuild.lock/2'"),
        ("schema: 1\n", "'schema' is 1"),
        ("schema: xpubuild.plan/1\n", "xpubuild.plan/1"),
        ("a: [\n", "not YAML"),
        ("a: 1\na: 2\n", "line 2: the key 'a' is listed twice"),
        ("a: &x 1\n", "anchor"),
        ("a: !!python/name:os.system x\n", "tag"),
        ("a: *x\n", "alias"),
        ("? [a]\n: 1\n", "a key is not text"),
        ("1: a\n", "a key is not text"),
        ("a: 1\n---\nb: 1\n", "several documents"),
        ("a: " + "[" * 50 + "]" * 50 + "\n", "nested too deep"),
        ("schema: xpubuild.lock/1\n", "'digest' is missing"),
        (TEXT.replace("\n", "\r\n"), "line 1"),
        (TEXT + "\n", "not in the form"),
        (TEXT + "# more\n", "not in the form"),
        (TEXT.removesuffix("\n"), "not in the form"),
        ("\ufeff" + TEXT, "not in the form"),
        (TEXT.replace("target: xpu", 'target: "xpu"'), "here '  target: \"xpu\"'"),
        (TEXT.replace("target: xpu", "target:  xpu"), "not in the form"),
    ],
)
def test_what_is_no_lock_says_why(text: str, told_as: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(text)
    assert told_as in told(caught.value)


def test_a_wrong_value_is_told_by_its_name_and_not_its_number() -> None:
    text = TEXT.replace(f"commit: {example().repositories['torch'].submodules[1].commit}", "commit: master")
    with pytest.raises(RecipeError) as caught:
        load(text)
    assert "repositories.torch.submodules.third_party/kineto.commit" in told(caught.value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (lock_digest(example()), "digest"),
        (machine_digest(example()), "machine.digest"),
        (marks(items(example()))["plan"], "plan"),
        (marks(machine_items(machine()))["machine.glibc"], "machine.glibc"),
    ],
)
def test_an_edited_digest_is_told_as_such(value: str, name: str) -> None:
    with pytest.raises(LockMismatchError) as caught:
        load(TEXT.replace(value, flipped(value)))
    assert caught.value.evidence["edited"] == [name]


def test_an_edited_submodule_is_named() -> None:
    commit = example().repositories["torch"].submodules[2].commit
    with pytest.raises(LockMismatchError) as caught:
        load(TEXT.replace(commit, "0" * 40))
    assert caught.value.evidence["edited"] == ["repositories.torch.submodules.third_party/kineto/fmt"]


@pytest.mark.parametrize(("value", "text"), [
    ("646bbe2ab1cc", "646bbe2ab1cc"), ("64612e12", '"64612e12"'), ("3.31.10", "3.31.10"), ("3.31", '"3.31"'),
    ("{env}/x", '"{env}/x"'), ("https://host/a.git", "https://host/a.git"), ("sha256:00", "sha256:00"),
    ("", '""'), ("a: b", '"a: b"'), (None, "null"), (7, "7"), ("\u00e9", '"\\xe9"'),
])  # fmt: skip
def test_only_what_nobody_mistakes_is_plain(value: str | int | None, text: str) -> None:
    assert scalar(value) == text
