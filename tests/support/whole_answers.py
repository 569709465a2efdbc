"""Every part of what the program answers in unit tests: tests/data/answers, which ``make errors`` rewrites.

A test looks at the part of an answer that it is about. Of the functions below, which a test module imports or
has as helpers of its own, each answer is compared as a whole with the stored one. Hashes of archives, which
zlib decides, are left out.
"""

from __future__ import annotations

import hashlib
import json
import operator
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from support.data_files import DATA, compare, dumped, loaded, placed, rewrite
from support.imports import ROOT
from support.whole_errors import short
from xpubuild.errors import XpuBuildError

FOLDER = DATA / "answers"
#: File of tests -> what is compared there: a function, its answer's attribute (function.attribute), or a
#: method (Class:method). None of them may depend on the machine.
WATCHED: Mapping[str, tuple[str, ...]] = {
    "test_audit_abi": ("classify",),
    "test_audit_device_code": ("read_device_images", "audited"),
    "test_audit_findings": (
        "machine_findings", "abi_findings", "linkage_findings", "outside_findings", "symbol_findings",
        "rpath_findings", "forbidden_findings", "sycl_findings", "string_findings", "device_findings",
        "summary",
    ),
    "test_audit_installed": (
        "verify_installed", "wheel_matches_installed", "damaged_dists", "repair", "InstalledProof:describe",
        "InstalledProof:key",
    ),
    "test_audit_linkage": ("Linker:closure", "Linker:unresolved", "missing_versions"),
    "test_audit_places": ("metadata_problems", "read_wheel.problems"),
    "test_audit_report": (
        "audit_wheel.findings", "audit_wheel.objects", "WheelProof:describe", "WheelProof:key",
    ),
    "test_audit_wheelfile": ("read_wheel.problems",),
    "test_compatibility_whole": ("solve", "aot_lists", "row"),
    "test_conda_channels": ("read_condarc",),
    "test_conda_traps": ("kind_of", "keep_out"),
    "test_index_wanted": ("wanted_files", "wanted_open", "with_sizes"),
    "test_lock_parts": (
        "requirement_file", "python_part", "conda_part", "oneapi_part", "machine_part", "differences",
        "machine_differences",
    ),
    "test_lock_proofs": (
        "borrowed_archives", "options_of", "different_items", "machine_differences", "Verdict:document",
        "write_lock.differences",
    ),
    "test_recipe_bump_looked_up": ("found",),
    "test_recipe_bump_text": ("document", "recipe_text"),
    "test_recipe_checked": ("check_recipes", "catalogue"),
    "test_recipe_facts": ("problems", "shown"),
    "test_recipe_lint": ("problems",),
    "test_recipe_patches": ("check_recipes",),
    "test_recipe_refused": ("problems", "check_recipes"),
    "test_recipe_tree": ("found", "RecipeTreeProof:check", "RecipeTreeProof:describe", "RecipeTreeProof:key"),
    "test_recipe_tree_files": ("found.problems", "found.not_checked", "requires_python"),
    "test_repairing_decide": ("decided",),
    "test_toolchain_compilers": ("choose_compilers",),
    "test_toolchain_complete": ("CompleteProof:describe", "CompleteProof:key"),
    "test_toolchain_environment": (
        "explain_pip_failure", "make_env_command", "repair_env_command", "install_command",
        "leave_out_command",
    ),
    "test_toolchain_pip_words": (
        "explain_pip_failure", "not_fetched", "not_offered", "install_command", "repair_env_command",
    ),
    "test_toolchain_mkl": ("MklStaticProof:key", "MklStaticProof:describe"),
    "test_uv_settings": ("reason_for_pip", "find_uv"),
}  # fmt: skip
#: Libraries, compilers, programs, the Python or the zlib of the machine are in their answers.
_OF_THE_MACHINE = {
    "test_a_link_in_a_circle_is_not_followed",
    "test_wheels_that_would_fill_the_disk",
    "test_a_damaged_library_is_an_audit_error_or_harmless",
    "test_the_systems_own_libraries_are_found",
    "test_drivers_and_the_policys_own_may_be_missing",
    "test_the_machines_own_gcc_is_the_default",
}
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
_HASH = re.compile(r"\b[0-9a-f]{64}\b")
#: What a library says differs between its versions.
_SAID = re.compile(
    r"(it is not valid TOML: |it cannot be parsed: |RECORD cannot be used: (?='))[^\"]*|Expected semi[^\"]*"
)
#: Fields that are what a test itself made.
_GIVEN = {"elf", "base"}
#: Answers with more characters are stored by their digest.
_LONG = 6000

#: Test file -> test -> its answers in their order, of this run.
made: dict[str, dict[str, list[Any]]] = defaultdict(dict)


class Watch:
    """The answers of one test."""

    def __init__(self, file: str, test: str, places: Mapping[str, str]) -> None:
        self.file, self.test = file, test
        self._places = {**places, sys.executable: "{python}", sys.prefix: "{prefix}", str(ROOT): "{checkout}"}
        self._answers: list[Any] = []

    def install(self, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Listen to what is watched in a module of tests."""
        for entry in WATCHED[self.file]:
            name, _, attribute = entry.partition(".")
            owner, _, method = name.partition(":")
            place, what = (getattr(module, owner), method) if method else (module, name)
            monkeypatch.setattr(place, what, self._listening(getattr(place, what), entry, attribute))

    def _listening(self, function: Callable[..., Any], name: str, attribute: str) -> Callable[..., Any]:
        def listening(*arguments: Any, **options: Any) -> Any:
            answer = function(*arguments, **options)
            answer = list(answer) if isinstance(answer, Iterator) else answer
            wanted = operator.attrgetter(attribute)(answer) if attribute else answer
            text = json.dumps(placed(_plain(wanted), self._places))
            text = _SAID.sub(r"\1{said}", _PORT.sub("{port}", _HASH.sub("{sha256}", text)))
            self._answers.append({name: json.loads(text)})
            return answer

        return listening

    def answers(self) -> list[Any]:
        """Return what is compared; many or long answers are told by a digest."""
        text = json.dumps(self._answers)
        if len(text) <= _LONG:
            return self._answers
        return [f"{len(self._answers)} answers, {hashlib.sha256(text.encode()).hexdigest()[:16]}"]

    def check(self) -> None:
        """Compare with what is stored."""
        compare(dumped(_stored(self.file).get(self.test, [])), dumped(self.answers()), "make errors")


def _plain(value: Any) -> Any:
    """Return a value as JSON knows it, of objects what is not empty."""
    if isinstance(value, XpuBuildError):
        return {"code": value.code, **_full(value.to_json())}
    if isinstance(value, BaseModel):
        return _full(value.model_dump(mode="json"))
    if is_dataclass(value) and not isinstance(value, type):
        return _full({item.name: getattr(value, item.name) for item in fields(value)})
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_plain(item) for item in value]
        return items if isinstance(value, (list, tuple)) else sorted(items)
    plain = value is None or isinstance(value, (str, int, float))
    return value if plain else "a function" if callable(value) else str(value)


def _full(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(item) for key, item in document.items() if (item or item == 0) and key not in _GIVEN}


_known: dict[str, dict[str, list[Any]]] = {}


def _stored(file: str) -> dict[str, list[Any]]:
    if file not in _known:
        path = FOLDER / f"{file}.yaml"
        _known[file] = loaded(path) if path.exists() else {}
    return _known[file]


def watch(request: pytest.FixtureRequest) -> Watch | None:
    """Return what watches this test, or None where it is none of those that are watched."""
    path, function = request.path, request.function
    if path.stem not in WATCHED or function.__name__ in _OF_THE_MACHINE:
        return None
    if getattr(function, "is_hypothesis_test", False):
        return None
    own = {str(request.getfixturevalue("tmp_path")): "{tmp}"} if "tmp_path" in request.fixturenames else {}
    return Watch(path.stem, short(request.node.name), own)


def write_made() -> None:
    """Write the answers of the test files that were run; those of others stay while they are watched."""
    texts = {
        path.stem: path.read_text("utf-8")
        for path in FOLDER.glob("*.yaml")
        if path.stem not in made and path.stem in WATCHED
    }
    for file, tests in made.items():
        if found := {test: answers for test, answers in tests.items() if answers}:
            texts[file] = dumped(found)
    rewrite(FOLDER, texts)
