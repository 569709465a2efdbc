"""What doctor's checks answer in tests, whole: tests/data/findings has status, detail, evidence and fix.

Every test of the files below is watched: what the shipped checks answer while it runs is compared with the
stored answers that name it; ``make findings`` rewrites them. Each check has a file with its different answers
and the tests that provoke them. Of a whole host with something wrong only that is stored.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.data_files import DATA, compare, dumped, loaded, placed, rewrite
from support.imports import ROOT
from xpubuild.doctor.context import CheckContext
from xpubuild.doctor.model import Check, Outcome
from xpubuild.doctor.registry import shipped

FOLDER = DATA / "findings"
#: How the names of files with such tests begin: their hosts are made up, this machine is not looked at.
FILES = ("test_doctor_env_", "test_doctor_gpu_", "test_doctor_hosts_")
#: More checks than this are asked by a test of a whole host.
_SOME = 9
_GOOD = ("ok", "skip")
_ORDER = ("fail", "warn", "error", "ok", "skip")
_USER = 1000
_PORT = re.compile(r"(127\.0\.0\.1|localhost):\d{5}")
#: Evidence that this machine decides where the host is the running one, however much of it is made up.
_MEASURED = {"build.clock": ("ahead_s",), "machine.platform": ("loaders",)}

#: What a check answered, in the shape of doctor's JSON document without what is empty.
Answer = dict[str, Any]
#: Check -> its answers in one test.
Answers = dict[str, list[Answer]]
#: Test -> its answers, of this run.
made: dict[str, Answers] = {}


class Watch:
    """What checks answer during one test."""

    def __init__(self, test: str, folder: Path | None) -> None:
        self.test = test
        own = {str(folder): "{tmp}"} if folder else {}
        self._places = {**own, sys.executable: "{python}", str(ROOT): "{checkout}"}
        self._answers: Answers = defaultdict(list)

    def take(self, check: str, finding: Mapping[str, Any], measured: Sequence[str] = ()) -> None:
        """Note an answer as the JSON document has it; ``measured`` is evidence that this machine decides."""
        evidence = {**finding["evidence"], **dict.fromkeys(measured, "{measured}")}
        more = {name: value for name, value in (("evidence", evidence), ("fix", finding["fix"])) if value}
        answer = {"status": finding["status"], "detail": finding["detail"], **more}
        plain = json.dumps(placed(json.loads(json.dumps(answer)), self._places))
        self._answers[check].append(json.loads(_PORT.sub(r"\1:{port}", plain)))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Listen to every shipped check, for a user who needs sudo."""
        monkeypatch.setattr("xpubuild.doctor.fixes.os", SimpleNamespace(geteuid=lambda: _USER))
        for check in shipped():
            monkeypatch.setattr(check, "run", self._listening(check.run))

    def _listening(self, run: Callable[[Check, CheckContext], Outcome]) -> Callable[..., Outcome]:
        def listening(check: Check, context: CheckContext) -> Outcome:
            found = run(check, context)
            names = _MEASURED.get(check.id, ()) if context.live else ()
            measured = [name for name in names if name in found.evidence]
            self.take(check.id, {**vars(found), "fix": found.fix and asdict(found.fix)}, measured)
            return found

        return listening

    def answers(self) -> Answers:
        """Return what is worth keeping: each different answer, by check."""
        wrong = {
            check: kept
            for check, found in self._answers.items()
            if (kept := [item for item in found if item["status"] not in _GOOD])
        }
        return _distinct(wrong if wrong and len(self._answers) > _SOME else self._answers)

    def check(self) -> None:
        """Compare with what is stored."""
        compare(dumped(_distinct(stored().get(self.test, {}))), dumped(self.answers()), "make findings")


def _distinct(answers: Answers) -> Answers:
    return {
        check: [json.loads(text) for text in sorted({json.dumps(item) for item in found})]
        for check, found in sorted(answers.items())
    }


def watch(request: pytest.FixtureRequest) -> Watch | None:
    """Return what watches this test, or None where it is none of those that are watched."""
    if not request.path.name.startswith(FILES):
        return None
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    return Watch(f"{request.path.stem}::{request.node.name}", folder)


@functools.cache
def files() -> dict[str, list[dict[str, Any]]]:
    """Return what is stored: check -> its answers, each with its ``tests``: function -> parameters."""
    return {path.stem: loaded(path) for path in sorted(FOLDER.glob("*.yaml"))}


@functools.cache
def stored() -> dict[str, Answers]:
    """Return the stored answers by test."""
    found: dict[str, Answers] = defaultdict(lambda: defaultdict(list))
    for check, answers in files().items():
        for answer in answers:
            bare = {name: value for name, value in answer.items() if name != "tests"}
            for function, parameters in answer["tests"].items():
                for test in [f"{function}[{one}]" for one in parameters] or [function]:
                    found[test][check].append(bare)
    return found


def _file(test: str) -> str:
    return test.partition("::")[0]


def write_made() -> None:
    """Write what the checks answered in this run; answers in test files that were not run stay."""
    run = {_file(test) for test in made}
    there = {path.stem for path in (ROOT / "tests").glob("*/*.py")}
    kept = {test: _distinct(answers) for test, answers in stored().items() if _file(test) in there - run}
    tests: dict[str, dict[str, dict[str, list[str]]]] = defaultdict(lambda: defaultdict(dict))
    for test, answers in sorted({**kept, **made}.items()):
        function, _, parameter = test.partition("[")
        for check, found in answers.items():
            for answer in found:
                of_answer = tests[check][json.dumps(answer)]
                of_answer.setdefault(function, []).extend([parameter[:-1]] if parameter else [])
    rewrite(FOLDER, {check: dumped(_catalogue(found)) for check, found in tests.items()})


def _catalogue(answers: Mapping[str, dict[str, list[str]]]) -> list[dict[str, Any]]:
    """Return the answers of one check: what is wrong first, then in the order of the first test."""
    parsed = [(json.loads(text), tests) for text, tests in answers.items()]
    parsed.sort(key=lambda item: (_ORDER.index(item[0]["status"]), next(iter(item[1])), item[0]["detail"]))
    return [{**answer, "tests": tests} for answer, tests in parsed]
