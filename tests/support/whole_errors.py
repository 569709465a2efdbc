"""Every part of the errors that unit tests expect: tests/data/errors has what, why, fix, commands, evidence.

A test that expects an error with ``pytest.raises`` looks at the part that it is about; here the error that it
got is compared as a whole with the stored one, which ``make errors`` rewrites. What a library said (the
exception behind it) and the hashes of archives, which zlib decides, differ between versions and are left out.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.data_files import DATA, compare, dumped, loaded, placed, rewrite
from support.imports import ROOT
from xpubuild.errors import XpuBuildError

FOLDER = DATA / "errors"
#: How the names of files in tests/unit with such tests begin: they ask neither this machine nor its programs.
FILES = tuple(
    f"test_{part}_"
    for part in (
        "audit", "conda", "engine", "index", "jobs", "lock", "mirror", "offline", "oneapi", "plan", "source",
        "store", "toolchain", "uv",
    )
)  # fmt: skip
#: And those of tests/integration; what git and ssh said is left out.
INTEGRATION = ("test_source_answers",)
#: Its error quotes a library without having its exception behind it.
_QUOTES = "test_the_proof_gives_evidence_or_names_the_file"
#: What differs from run to run, or from one git and ssh to the next; in tests/unit only the first.
_VARYING = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "{sha256}"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "{commit}"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "{port}"),
    (re.compile(r"(?<=localhost:)\d+|(?<=ssh -p )\d+"), "{port}"),
    (re.compile(r"\w+@(?=127\.0\.0\.1)"), "{user}@"),
    (re.compile(r"(?<=127\.0\.0\.1-)\d+"), "{port}"),
    (re.compile(r"(?<=-)(?:[0-9a-f]{16}|[0-9a-f]{12})\b"), "{digest}"),
    (re.compile(r"(?<=gave )\d+(?= bytes)"), "{size}"),
    (re.compile(r"/[^ '\"]*/(?=[a-z_]+0/)"), "{run}/"),
    (re.compile(r"\b(?:fatal|error|[Ww]arning|ssh): (?:[^\"\\]|\\.)*"), "{said}"),
)
#: What the names of stored files of tests/integration begin with.
_FOLDER = "integration."
#: The longest name of a test that is stored as it is.
_LONGEST = 120
#: More errors than this are those of a test that damages something in many places.
_FEW = 9

Error = dict[str, Any]
#: Test file -> test -> its errors, of this run.
made: dict[str, dict[str, list[Error]]] = defaultdict(dict)


class Watch:
    """The errors of one test."""

    def __init__(self, file: str, test: str, places: dict[str, str]) -> None:
        self.file, self.test = file, test
        self._places = {**places, sys.executable: "{python}", sys.prefix: "{prefix}", str(ROOT): "{checkout}"}
        self._varying = _VARYING if file.startswith(_FOLDER) else _VARYING[:1]
        self.errors: list[Error] = []

    def take(self, error: BaseException | None) -> None:
        """Note an error, in the order of its document, without what is empty."""
        if isinstance(error, XpuBuildError):
            document = {name: value for name, value in error.to_json().items() if value}
            del document["exit_code"]
            if self.file.startswith(_FOLDER) and document.get("evidence", {}).get("git"):
                document["evidence"] = {**document["evidence"], "git": "{said}"}
            cause = error.__cause__ or error.__context__
            places = self._places
            if cause is not None and not isinstance(cause, XpuBuildError):
                document["why"] = "{cause}"
                places = {**places, **({str(cause): "{cause}"} if " " in str(cause) else {})}
            plain = json.dumps(placed(json.loads(json.dumps(document, default=str)), places))
            for pattern, name in self._varying:
                plain = pattern.sub(name, plain)
            self.errors.append(json.loads(plain))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Listen to ``pytest.raises``."""
        really = pytest.raises

        def raises(*arguments: Any, **options: Any) -> Any:
            expected = really(*arguments, **options)
            return expected if isinstance(expected, pytest.ExceptionInfo) else _Listening(expected, self.take)

        monkeypatch.setattr(pytest, "raises", raises)

    def check(self) -> None:
        """Compare with what is stored."""
        stored = [bare(error) for error in _stored(self.file) if self.test in error["tests"]]
        compare(dumped(_distinct(stored)), dumped(self.few()), "make errors")

    def few(self) -> list[Error]:
        """Return the different errors of the test, none where they are too many to be read."""
        found = _distinct(self.errors)
        return found if len(found) <= _FEW else []


class _Listening:
    def __init__(self, expected: Any, take: Callable[[BaseException | None], None]) -> None:
        self._expected, self._take = expected, take

    def __enter__(self) -> Any:
        return self._expected.__enter__()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> Any:
        as_expected = self._expected.__exit__(kind, error, trace)
        self._take(error)
        return as_expected


def bare(error: Error) -> Error:
    """Return a stored error without the names of its tests."""
    return {name: value for name, value in error.items() if name != "tests"}


def _distinct(errors: list[Error]) -> list[Error]:
    return [json.loads(text) for text in sorted({json.dumps(error) for error in errors})]


_known: dict[str, list[Error]] = {}


def _stored(file: str) -> list[Error]:
    if file not in _known:
        path = FOLDER / f"{file}.yaml"
        _known[file] = loaded(path) if path.exists() else []
    return _known[file]


def watch(request: pytest.FixtureRequest) -> Watch | None:
    """Return what watches this test, or None where it is none of those that are watched."""
    path = request.path
    if not path.name.startswith({"unit": FILES, "integration": INTEGRATION}.get(path.parent.name, ())):
        return None
    if getattr(request.function, "is_hypothesis_test", False) or request.function.__name__ == _QUOTES:
        return None
    own = {str(request.getfixturevalue("tmp_path")): "{tmp}"} if "tmp_path" in request.fixturenames else {}
    file = path.stem if path.parent.name == "unit" else f"{_FOLDER}{path.stem}"
    return Watch(file, _short(request.node.name), own)


def _short(name: str) -> str:
    """Return the name of a test, or its beginning and a digest where a parameter is a whole file."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST // 2]}... {hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _test_file(stored: str) -> Path:
    folder = "integration" if stored.startswith(_FOLDER) else "unit"
    return ROOT / "tests" / folder / f"{stored.removeprefix(_FOLDER)}.py"


def write_made() -> None:
    """Write the errors of the test files that were run; those of others stay while the file is there."""
    texts = {
        path.stem: path.read_text("utf-8")
        for path in FOLDER.glob("*.yaml")
        if path.stem not in made and _test_file(path.stem).exists()
    }
    for file, tests in made.items():
        found: dict[str, list[str]] = defaultdict(list)
        for test, errors in tests.items():
            for error in errors:
                found[json.dumps(error)].append(test)
        if found:
            texts[file] = dumped([{**json.loads(text), "tests": names} for text, names in found.items()])
    rewrite(FOLDER, texts)
