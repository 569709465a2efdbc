"""Every part of the errors that tests expect: tests/data/errors has what, why, fix, commands, evidence.

A test that expects an error with ``pytest.raises``, or of a command line, looks at the part that it is about;
here the error that it got is compared as a whole with the stored one, which ``make errors`` rewrites. What a
library said (the exception behind it) and the hashes of archives, which zlib decides, differ between versions
and are left out.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from support.data_files import DATA, compare, dumped, loaded, placed, rewrite
from support.imports import ROOT
from xpubuild.cli import app
from xpubuild.errors import XpuBuildError

FOLDER = DATA / "errors"
#: How the names of files with such tests begin, by folder: they ask this machine for nothing but bash, and
#: servers of their own.
BEGINNINGS = {
    "unit": tuple(
        f"test_{part}_"
        for part in (
            "audit", "compatibility", "compile", "conda", "constraints", "doctor_frame", "engine", "gate",
            "gather", "index", "installing", "jobs", "lock", "mirror", "newest", "offline", "oneapi", "plan",
            "recipe", "repairing", "safe", "source", "store", "toolchain", "uv", "verify",
        )
    ),
    "integration": (
        "test_index_", "test_oneapi_cache", "test_oneapi_capture_trouble", "test_oneapi_environment",
        "test_oneapi_trust", "test_oneapi_validate", "test_source_answers",
    ),
}  # fmt: skip
#: The system whose commands the errors have, whatever this one is.
SYSTEM = {"ID": "debian"}
#: Their errors quote a library without having its exception behind it, name packages of this machine or a
#: temporary file, or say how fast a shell was killed.
_LEFT_OUT = frozenset({
    "test_the_proof_gives_evidence_or_names_the_file",
    "test_a_gpu_without_oneapi_is_a_matter_of_the_environment",
    "test_a_script_that_hangs",
    "test_a_list_that_cannot_be_read",
})  # fmt: skip
#: What differs from run to run, and what others say: requests, OpenSSL, the list of recipes. Of errors about
#: ``_SOURCES`` also commits, places and what git and ssh say.
_SOURCES = "test_source_answers"
_VARYING = (
    (re.compile(r"\b[0-9a-f]{64}\b|(?<=/cache/)[0-9a-f]{16}\b"), "{sha256}"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=localhost:)\d+"), "{port}"),
    (
        re.compile(
            r"(could not be reached|no answer in time|rejected the connection|is not trusted"
            r"|could not be read): (?:[^()\"]|\(_ssl[^)]*\))*|(known recipes): [^\"]*"
        ),
        r"\1\2: {said}",
    ),
)
_OF_SOURCES = (
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
        self._varying = _OF_SOURCES if file == _SOURCES else _VARYING
        self.errors: list[Error] = []

    def take(self, error: BaseException | None) -> None:
        """Note an error, in the order of its document, without what is empty."""
        if isinstance(error, XpuBuildError):
            document = {name: value for name, value in error.to_json().items() if value}
            del document["exit_code"]
            if self.file == _SOURCES and document.get("evidence", {}).get("git"):
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
        """Listen to ``pytest.raises`` and to command lines that end with an error, on a system of its own."""
        really, really_failed = pytest.raises, app._failed

        def raises(*arguments: Any, **options: Any) -> Any:
            expected = really(*arguments, **options)
            return expected if isinstance(expected, pytest.ExceptionInfo) else _Listening(expected, self.take)

        def failed(error: XpuBuildError, arguments: Sequence[str]) -> int:
            self.take(error)
            return really_failed(error, arguments)

        monkeypatch.setattr(pytest, "raises", raises)
        monkeypatch.setattr(app, "_failed", failed)
        monkeypatch.setattr("platform.freedesktop_os_release", lambda: SYSTEM)
        monkeypatch.setattr("xpubuild.distribution.REPOSITORY_LISTS", ())

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
    if not path.name.startswith(BEGINNINGS.get(path.parent.name, ())):
        return None
    if getattr(request.function, "is_hypothesis_test", False) or request.function.__name__ in _LEFT_OUT:
        return None
    own = {str(request.getfixturevalue("tmp_path")): "{tmp}"} if "tmp_path" in request.fixturenames else {}
    return Watch(path.stem, short(request.node.name), own)


def short(name: str) -> str:
    """Return the name of a test, or its beginning and a digest where a parameter is a whole file."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST // 2]}... {hashlib.sha256(name.encode()).hexdigest()[:8]}"


def write_made() -> None:
    """Write the errors of the test files that were run; those of others stay while the file is there."""
    texts = {
        path.stem: path.read_text("utf-8")
        for path in FOLDER.glob("*.yaml")
        if path.stem not in made and any((ROOT / "tests").glob(f"*/{path.stem}.py"))
    }
    for file, tests in made.items():
        found: dict[str, list[str]] = defaultdict(list)
        for test, errors in tests.items():
            for error in errors:
                found[json.dumps(error)].append(test)
        if found:
            texts[file] = dumped([{**json.loads(text), "tests": names} for text, names in found.items()])
    rewrite(FOLDER, texts)


if __name__ == "__main__":
    for folder, names in BEGINNINGS.items():
        found = sorted((ROOT / "tests" / folder).glob("test_*.py"))
        for path in found:
            if path.name.startswith(names):
                sys.stdout.write(f"{path.relative_to(ROOT)}\n")
