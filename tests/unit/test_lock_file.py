"""The file of a lock: read back as it was written, and no edit of its content goes unseen."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.locks import example, locks, machine

from xpubuild.errors import LockMismatchError, RecipeError
from xpubuild.install.lock_file import dump, load, lock_digest, machine_digest, read_lock, write_lock
from xpubuild.install.lock_model import Lock
from xpubuild.install.options import is_lock

TEXT = dump(example())


@given(locks)
@settings(max_examples=80, deadline=None)
def test_write_read_write_is_the_identity(lock: Lock) -> None:
    text = dump(lock)
    again = load(text)
    assert again == lock
    assert dump(again) == text
    assert text.isascii()


def test_the_digest_can_be_computed_with_other_tools() -> None:
    document = yaml.safe_load(TEXT)
    digest = document.pop("digest")
    plain = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert digest == hashlib.sha256(plain.encode()).hexdigest()


def test_the_machine_is_no_part_of_the_digest_that_plans_show() -> None:
    other = example(machine=machine().model_copy(update={"glibc": "2.39"}))
    assert lock_digest(other) == lock_digest(example())
    assert machine_digest(other) != machine_digest(example())
    assert dump(other).splitlines()[-1] != TEXT.splitlines()[-1]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, (dict, list)) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    yield path


def edited(path: tuple[Any, ...], value: Any) -> str:
    document = yaml.safe_load(TEXT)
    inside = document
    for step in path[:-1]:
        inside = inside[step]
    if value is ...:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return yaml.safe_dump(document)


def test_every_value_that_is_dropped_or_replaced_is_found() -> None:
    places = [path for path in leaves(yaml.safe_load(TEXT)) if path]
    assert len(places) > 150
    for path in places:
        for value in (..., "other", 7, None):
            text = edited(path, value)
            if yaml.safe_load(text) != yaml.safe_load(TEXT):
                with pytest.raises((RecipeError, LockMismatchError)):
                    load(text)


@given(st.integers(0, len(TEXT)), st.integers(0, 40), st.text(max_size=3))
@settings(max_examples=150, deadline=None)
def test_an_edit_of_the_text_is_found_or_changes_no_value(start: int, length: int, put: str) -> None:
    with contextlib.suppress(RecipeError, LockMismatchError):
        assert load(TEXT[:start] + put + TEXT[start + length :]) == example()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a mapping"),
        ("[]\n", "not a mapping"),
        ("a: [\n", "not YAML"),
        ("a: 1\na: 2\n", "duplicate"),
        ("a: !!python/name:os.system x\n", "not YAML"),
        ("schema: xpubuild.lock/2\n", "'xpubuild.lock/2', but this xpubuild reads xpubuild.lock/1"),
        ("schema: xpubuild.lock/1\n", "recipe: Field required"),
        (TEXT.replace("target: xpu", "target: gpu"), "options.target: Input should be 'xpu' or 'cpu'"),
        (TEXT.replace("path: third_party/kineto\n", "path: ''\n"), "submodules"),
    ],
)
def test_what_is_no_lock_says_why(text: str, why: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(text)
    assert why in caught.value.why
    assert caught.value.commands == ("xpubuild lock RECIPE",)


def test_an_edited_lock_is_a_mismatch_and_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.lock.yaml"
    path.write_text(TEXT.replace("v2.8.0", "v2.8.1"))
    with pytest.raises(LockMismatchError, match="the lock was edited"):
        read_lock(path)
    path.write_bytes(b"\xff")
    with pytest.raises(RecipeError) as caught:
        read_lock(path)
    assert caught.value.what == f"{path} is not a lock, or is damaged"
    with pytest.raises(RecipeError, match="cannot be read"):
        read_lock(tmp_path)


def test_the_same_lock_is_not_written_again_and_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.lock.yaml"
    assert write_lock(example(), path).changed
    assert is_lock(str(path))
    before = path.stat()
    assert not write_lock(example(), path).changed
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    changed = example(machine=machine().model_copy(update={"glibc": "2.39"}))
    written = write_lock(changed, path)
    assert [item.path for item in written.differences] == ["machine.glibc"]
    path.write_text("not a lock")
    assert "not a mapping" in write_lock(changed, path).problem
    assert read_lock(path) == changed
