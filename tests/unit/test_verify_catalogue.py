"""The catalogue of checks, and the rules that the suite's sources keep."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from support.releases import TARGET_PACKAGES

from xpubuild.errors import UsageError
from xpubuild.resources import suite_dir
from xpubuild.verify.catalogue import select
from xpubuild.verify.suite import registry

SOURCES = sorted(suite_dir().glob("*.py"))
OURS = {path.stem for path in SOURCES}


@pytest.mark.parametrize(
    ("device", "suite", "only", "words"),
    [
        ("tpu", "smoke", (), ["device 'tpu'", "xpu, cuda, cpu"]),
        ("cpu", "everything", (), ["suite 'everything'", "smoke, full"]),
        ("cpu", "smoke", ("aten.nothing",), ["no check matches 'aten.nothing'", "verify --list"]),
    ],
)
def test_unknown_names_are_usage_errors(
    device: str, suite: str, only: tuple[str, ...], words: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        select(device=device, suite=suite, only=only)
    text = str(caught.value.to_json())
    assert all(word in text for word in words)


@pytest.mark.parametrize("part", registry.PARTS)
def test_a_required_part_brings_its_checks_along(part: str) -> None:
    before = {check.id for check in select(device="cpu", suite="smoke", only=["import"])}
    after = {check.id for check in select(device="cpu", suite="smoke", only=["import"], require=[part])}
    added = after - before - {"device.availability", "device.properties"}
    assert added
    assert len({name.partition(".")[0] for name in added}) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"require": ["nonsense"]}, ["part 'nonsense'", "ops, vision, audio, triton"]),
        ({"skip": ["aten.nothing"]}, ["no check matches 'aten.nothing'"]),
        ({"only": ["aten"], "skip": ["aten"]}, ["no checks are left"]),
        ({"require": ["ops"], "skip": ["ops.import"]}, ["exclude each other", "ops.import"]),
    ],
)
def test_parts_and_skipped_checks_that_cannot_be(given: dict[str, list[str]], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        select(device="cpu", suite="smoke", **given)
    assert all(word in str(caught.value.to_json()) for word in words)


def test_a_skipped_check_takes_along_what_only_it_needs() -> None:
    ids = [c.id for c in select(device="cpu", suite="smoke", only=["ops.swiglu_forward", "aten.sort"],
                                skip=["ops.swiglu_forward"])]  # fmt: skip
    assert ids == ["import.torch", "device.availability", "aten.sort"]
    left = {c.id for c in select(device="cpu", suite="smoke", skip=["device"])}
    assert "aten.sort" in left
    assert not {name for name in left if name.startswith("device.")}


def _imports(tree: ast.AST) -> list[tuple[str, int]]:
    """Return (top-level package, relative level) of every import."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name.partition(".")[0], 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found += [(name.partition(".")[0], node.level) for name in names]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_suite_needs_the_standard_library_and_torch_only(path: Path) -> None:
    for name, level in _imports(ast.parse(path.read_text("utf-8"))):
        if level:
            assert name in OURS
        else:
            assert name in sys.stdlib_module_names or name in TARGET_PACKAGES, name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_suite_parses_with_the_oldest_python_of_a_target(path: Path) -> None:
    ast.parse(path.read_text("utf-8"), feature_version=(3, 9))
