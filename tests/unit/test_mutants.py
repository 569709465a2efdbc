"""``make mutants``: which mutants a file has, and what becomes of them in a tree of a few lines."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts"

MADE = {
    "comparison": ("a = b < c", ["<  ->  <="]),
    "boolean": ("a = b or c", ["or  ->  and"]),
    "condition": ("while b:\n    c()", ["b  ->  not (b)", "c()  ->  pass"]),
    "not": ("a = not b", ["not   ->  "]),
    "integer": ("a = 4", ["4  ->  5", "4  ->  3"]),
    "text": ("a = 'b' 'c'", ["'b' 'c'  ->  \"\""]),
    "format": ("a = f'b{1}'", ["f'b{1}'  ->  \"\""]),
    "truth": ("a = True", ["True  ->  False"]),
    "return": ("def f() -> dict[str, int]:\n    return a", ["a  ->  {}"]),
    "keyword": ("a = f(b, c=d)", [", c=d  ->  "]),
    "element": ("a = [b, c]", ["b,   ->  ", ", c  ->  "]),
    "pair": ("a = (b, c)", ["(b, c)  ->  (c,)", "(b, c)  ->  (b,)"]),
    "entry": ("a = {b: c, **d}\ne = {f: g}", ["f: g  ->  "]),
    "item": ("a[b] = c", ["a[b] = c  ->  pass"]),
    "raise": ("raise a from b", ["raise a from b  ->  pass"]),
    "handler": ("try:\n    b = a\nexcept c:\n    d = e\n    g = h", ["d = e\n    g = h  ->  pass"]),
    "finally": ("try:\n    b = a\nfinally:\n    c()", ["c()  ->  pass", "c()  ->  pass"]),
    "slice": ("a = b[c:]", ["c  ->  ", "c  ->  c + 1"]),
    "no docstring, annotation, import": ('"""A."""\nfrom b import c\nd: dict[str, "e"] = f', []),
    "no list of names": ("__all__ = ['a']", []),
    "nothing for the type checker": ("if TYPE_CHECKING:\n    a = 1\nT = TypeVar('T', bound='b')", []),
    "no assertion or locale": ("a = zip(b, c, strict=True)\nd = e(f, encoding='g')", []),
    "nothing that subprocess does anyway": (
        "run(a, check=False)",
        ["run(a, check=False)  ->  pass", "False  ->  True"],
    ),
}
PROGRAM = {
    "pkg/__init__.py": "",
    "pkg/sums.py": """
        def total(numbers):
            return sum(numbers) + 1

        def label(number):
            return f"total {number}"

        def unused():
            return 5
        """,
    "pkg/child.py": """
        def answer():
            return 6 * 7

        if __name__ == "__main__":
            print(answer())
        """,
    "pkg/bare.py": 'print("bare")\n',
    "pkg/wanted.py": "WORDS = dict(a=1)\n",
    "tests/test_sums.py": """
        import pytest
        from pkg.sums import label, total

        @pytest.fixture(scope="module")
        def of_two():
            return total([1, 2])

        def test_first_with_the_fixture(of_two):
            label(of_two)

        def test_total(of_two):
            assert of_two == 4
        """,
    "tests/test_wanted.py": """
        from pkg.wanted import WORDS

        A = WORDS["a"] / WORDS["a"]

        def test_wanted():
            assert A == 1
        """,
    "tests/test_programs.py": """
        import subprocess, sys
        from pathlib import Path

        def said(*options):
            return subprocess.check_output([sys.executable, *options], cwd="/", env={}, text=True)

        def test_child():
            assert said("-I", "-m", "pkg.child") == "42\\n"

        def test_bare():
            assert said("-I", "-S", str(Path(__file__).parents[1] / "pkg/bare.py")) == "bare\\n"
        """,
    "scripts/mutation/scope.yaml": """
        sources: [pkg]
        tests: [tests]
        without_fixtures: []
        excluded: []
        reading: ["tests/test_reads.py::test_reads"]
        """,
    "pkg/page.py": """
        def page():
            return 7
        """,
    "tests/test_reads.py": """
        from pathlib import Path

        def test_reads():
            assert "return 7" in Path("pkg/page.py").read_text()
        """,
}


@pytest.mark.parametrize(("text", "expected"), MADE.values(), ids=MADE.keys())
def test_what_is_changed(text: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)
    from mutation.edits import invalid, mutants

    found, _ = mutants("a.py", text + "\n")
    names = [f"{mutant.old}  ->  {mutant.new}" for mutant in found]
    assert sorted(names) == sorted(set(expected))
    assert not [why for mutant in found if (why := invalid(mutant, text + "\n"))]
    assert len({mutant.id for mutant in found}) == len(found)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name, text in PROGRAM.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(dedent(text).lstrip())
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def run(tree: Path, *options: str) -> str:
    argv = [sys.executable, str(SCRIPTS / "mutants.py"), "--root", str(tree), "--seed", "1", *options]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_becomes_of_mutants(tree: Path, tmp_path: Path) -> None:
    said = run(tree, "--json", str(tmp_path / "report.json"))
    report = json.loads((tmp_path / "report.json").read_text())
    assert {(f"{r['path']}:{r['line']}", r["status"], r["by"]) for r in report["results"]} == {
        ("pkg/sums.py:2", "killed", "tests/test_sums.py::test_total"),
        ("pkg/sums.py:5", "survived", ""),
        ("pkg/sums.py:8", "no coverage", ""),
        ("pkg/page.py:2", "killed", "tests/test_reads.py::test_reads"),
        ("pkg/child.py:2", "killed", "tests/test_programs.py::test_child"),
        ("pkg/bare.py:1", "killed", "tests/test_programs.py::test_bare"),
        ("pkg/wanted.py:1", "killed", "tests/test_wanted.py"),  # cannot be imported
    }
    assert report["packages"][-1]["percent"] == 71.4
    survivor = next(result for result in report["unnoticed"] if result["status"] == "survived")
    assert '-    return f"total {number}"\n' in survivor["diff"]
    assert survivor["diff"].rstrip() in said
    assert run(tree, "--show", survivor["id"]).strip() == survivor["diff"].strip()
    assert all((tree / name).read_text() == dedent(text).lstrip() for name, text in PROGRAM.items())

    log = tree / ".mutants" / "results.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]) + lines[-1][:20])  # killed while it wrote
    again = run(tree, "--resume")
    assert len(re.findall(r"^(?:killed|survived|no coverage) +\w{10}  ", again, re.MULTILINE)) == 1
    assert "recording" not in again
    assert again.splitlines()[-1] == said.splitlines()[-1]


def test_a_test_file_is_recorded_anew_when_what_it_imports_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)
    from mutation import coverage_map

    def state(change: str) -> str:
        (tmp_path / "tests" / change).write_text(f"import support.first, support.second\nhere = {change!r}\n")
        coverage_map._imports.cache_clear()
        coverage_map._helpers.cache_clear()
        return coverage_map.content(tmp_path, "tests/test_it.py")

    (tmp_path / "tests/support").mkdir(parents=True)
    (tmp_path / "tests/test_it.py").write_text("import os, support.first\n")
    seen = [
        state(name) for name in ("support/other.py", "support/first.py", "support/second.py", "test_it.py")
    ]
    assert len(set(seen)) == 4
    assert state("support/other.py") == seen[-1]
