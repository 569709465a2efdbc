"""Which tests run a line: recorded once, a batch of test files at a time, and kept in a folder."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import math
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import coverage

from mutation.edits import Mutant
from mutation.trial import Workspace

_BATCH = 12
_BATCH_S = 3600.0


def digest(*paths: Path) -> str:
    """Return a digest of the contents of files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def content(root: Path, file: str) -> str:
    """Return what tells one state of a test file from another: its text and that of test code it imports.

    Data that a test reads does not count: a map only says which tests to try.
    """
    return digest(*(root / name for name in (file, *sorted(_helpers(root, file) - {file}))))


@functools.cache
def _helpers(root: Path, file: str) -> set[str]:
    """Return the files beside the tests that one of them imports, and what those import."""
    top = root / Path(file).parts[0]
    found: set[str] = set()
    todo = [root / file]
    while todo:
        for name in _imports(todo.pop()):
            path = top / f"{name.replace('.', '/')}.py"
            if path.is_file() and (helper := path.relative_to(root).as_posix()) not in found:
                found.add(helper)
                todo.append(path)
    return found


class Recording:
    """What the tests of a few files run, and the texts that the lines are of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.about: dict[str, Any] = json.loads((folder / "about.json").read_text("utf-8"))
        self._users: dict[str, list[str]] = defaultdict(list)
        for test, fixtures in self.about["fixtures"].items():
            for fixture in fixtures:
                self._users[fixture].append(test)

    def knows(self, path: str, text: str) -> str:
        """Return where a file was then, which may have moved since: the one with most of its lines, or ""."""
        sources: dict[str, str] = self.about["sources"]
        if path in sources:
            return path
        lines = _lines(text)
        then, same = max(
            ((name, len(lines & _lines(old))) for name, old in sources.items()), key=lambda pair: pair[1]
        )
        return then if same > len(lines) / 2 else ""

    def tests(self, path: str, text: str, lines: Iterable[int] | None = None) -> set[str]:
        """Return the tests that run one of these lines of a file as it is now; None: any of its lines."""
        then = self.knows(path, text)
        data = coverage.CoverageData(basename=str(self.folder / "data"))
        data.read()
        contexts = data.contexts_by_lineno(f"{self.about['tree']}/{then}")
        if lines is not None:
            numbers = _numbers_then(self.about["sources"].get(then, ""), text)
            contexts = {line: contexts.get(numbers.get(line, 0), []) for line in lines}
        found = {
            test for names in contexts.values() for name in names for test in self._users.get(name, [name])
        }
        return found | set(self.about["launched"].get(then, ()))


@functools.lru_cache(maxsize=2048)
def _lines(text: str) -> frozenset[str]:
    return frozenset(map(str.strip, text.splitlines()))


@functools.lru_cache(maxsize=64)
def _numbers_then(old: str, new: str) -> dict[int, int]:
    """Return for each line of a text the one of an earlier text; a new line has that before it."""
    before, after = old.splitlines(), new.splitlines()
    same = {}
    for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        same |= {block.b + index + 1: block.a + index + 1 for index in range(block.size)}
    last = 0
    return {line: (last := same.get(line, last)) for line in range(1, len(after) + 1)}


class Map:
    """All recordings in a folder: of each test file the newest, if the file is as it was then."""

    def __init__(self, folder: Path, root: Path, test_files: list[str]) -> None:
        self.folder, self.root, self.test_files = folder, root, test_files
        self.recordings: dict[str, Recording] = {}
        for path in sorted(folder.glob("*/about.json")):
            recording = Recording(path.parent)
            for file, then in recording.about["files"].items():
                if file in test_files and content(root, file) == then:
                    self.recordings[file] = recording
        self.seconds: dict[str, float] = {}
        self._shared: dict[str, list[str]] = {}  # the fixtures that a test has in common with others
        self._making: dict[
            str, float
        ] = {}  # at most what making one takes: it is in its first test's seconds
        self.sound: set[str] = set()  # tests of which a mutation run itself has seen that they pass
        for file, recording in self.recordings.items():
            passed = recording.about["passed"]
            self.seconds |= {test: passed[test] for test in passed if test.partition("::")[0] == file}
        for recording in self._all():
            self._shared |= recording.about["fixtures"]
            for test, seconds in recording.about["passed"].items():
                for fixture in recording.about["fixtures"].get(test, ()):
                    self._making.setdefault(fixture, seconds)

    def missing(self) -> list[list[str]]:
        """Return the test files that no recording has, in batches."""
        lacking = [file for file in self.test_files if file not in self.recordings]
        return [lacking[start : start + _BATCH] for start in range(0, len(lacking), _BATCH)]

    def _all(self) -> Iterable[Recording]:
        return {id(recording): recording for recording in self.recordings.values()}.values()

    def few(self, tests: list[str], most: int, budget_s: float) -> list[str]:
        """Return the first ``most`` tests that run within a time, with the making of what they share."""
        few: list[str] = []
        made: set[str] = set()
        left_s = budget_s
        for test in tests:
            making = set(self._shared.get(test, ())) - made
            cost_s = self.seconds.get(test, math.inf) + max(
                (self._making.get(name, 0.0) for name in making), default=0.0
            )
            if cost_s <= left_s and len(few) < most:
                left_s -= cost_s
                made |= making
                few.append(test)
        return few

    def knows(self, path: str, text: str) -> bool:
        """Whether a file is no newer than the map."""
        return any(recording.knows(path, text) for recording in self._all())

    def candidates(self, mutant: Mutant, text: str) -> list[str]:
        """Return the tests that may notice a mutant, the most promising first.

        What runs at import runs for whoever imports the module: first come tests of functions that use what
        the statement defines, then those of the module's functions and of the files that import it.
        """
        importing = {file for file in self.recordings if _module(mutant.path) in _imports(self.root / file)}
        first, last = mutant.statement
        found = self._running(mutant.path, text, range(first, last + 1))
        if not mutant.at_import:
            return self._ranked(found, importing)
        users: set[str] = set()
        for path, using, lines in self._uses(mutant, text):
            users |= self._running(path, using, lines)
        for recording in self._all():
            found |= recording.tests(mutant.path, text)
        found |= {test for test in self.seconds if test.partition("::")[0] in importing}
        return self._ranked(users, importing) + self._ranked(found - users, importing)

    def _running(self, path: str, text: str, lines: Iterable[int]) -> set[str]:
        numbers = list(lines)
        return {test for recording in self._all() for test in recording.tests(path, text, numbers)}

    def _uses(self, mutant: Mutant, text: str) -> Iterator[tuple[str, str, list[int]]]:
        """Yield the files with functions that use what a statement defines, and the lines that do."""
        names = names_of(text, mutant.statement[0])
        yield mutant.path, text, lines_using(text, names)
        module = _module(mutant.path)
        for path in (self.root / Path(mutant.path).parts[0]).rglob("*.py") if names else ():
            if module in _imports(path) and path != self.root / mutant.path:
                other = path.read_text("utf-8")
                yield path.relative_to(self.root).as_posix(), other, lines_using(other, names)

    def _ranked(self, tests: set[str], importing: set[str]) -> list[str]:
        """Return tests, files that import the module first: eight of each in turn, quick ones first."""
        by_file = defaultdict(list)
        for test in sorted(tests & self.seconds.keys(), key=lambda test: (self.seconds[test], test)):
            by_file[test.partition("::")[0]].append(test)
        ranked = [
            ((file not in importing) + rank // 8, rank, self.seconds[test], test)
            for file, of_file in by_file.items()
            for rank, test in enumerate(of_file)
        ]
        return [test for *_, test in sorted(ranked)]


def names_of(text: str, line: int) -> set[str]:
    """Return what the statement of a line, in no function, defines, and what is defined by means of that."""
    names: set[str] = set()
    statements = [(node, _targets(node)) for node in _at_import(ast.parse(text))]
    for node, targets in statements:
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            names = targets  # the innermost one comes last
    while more := {
        name
        for node, targets in statements
        if not isinstance(node, ast.ClassDef) and not targets <= names and names & _named(node)
        for name in targets - names
    }:
        names |= more
    return names


def lines_using(text: str, names: set[str]) -> list[int]:
    """Return the lines in functions that have one of these names."""
    return sorted(
        {
            node.lineno
            for function in ast.walk(ast.parse(text))
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for statement in function.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name | ast.Attribute) and _named(node, deep=False) & names
        }
    )


def _at_import(node: ast.Module | ast.ClassDef) -> Iterator[ast.stmt]:
    for statement in node.body:
        yield statement
        if isinstance(statement, ast.ClassDef):
            yield from _at_import(statement)


def _targets(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Assign():
            return {name for target in node.targets for name in _named(target)}
        case ast.AnnAssign():
            return _named(node.target)
    return set()


def _named(node: ast.AST, *, deep: bool = True) -> set[str]:
    nodes = ast.walk(node) if deep else (node,)
    return {
        one.id if isinstance(one, ast.Name) else one.attr
        for one in nodes
        if isinstance(one, ast.Name | ast.Attribute)
    }


def record(space: Workspace, folder: Path, files: list[str], sources: list[str], without: list[str]) -> str:
    """Record what the tests of these files run; return what failed, which no mutant is tried with."""
    space.record(sources)
    run = space.pytest(files, {"without_fixtures": without}, _BATCH_S)
    space.restore()
    if run.status not in {0, 5} and not run.seconds:
        raise RuntimeError(f"the tests of {', '.join(files)} do not run: {run.output[-2000:]}")
    target = folder / f"{len(list(folder.glob('*'))):04d}-{digest(space.root / files[0])}"
    partial = folder.parent / f"{target.name}.part"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _collect(space.seen, str(partial / "data"))
    gone = {*run.failed, *run.skipped}
    about = {
        "tree": str(space.tree),
        "files": {file: content(space.root, file) for file in files},
        "passed": {test: round(seconds, 3) for test, seconds in run.seconds.items() if test not in gone},
        "fixtures": json.loads((space.state / "fixtures.json").read_text("utf-8")),
        "launched": _launched(space),
        "sources": {name: text for source in sources for name, text in _texts(space.root, source)},
    }
    (partial / "about.json").write_text(json.dumps(about), "utf-8")
    space.forget()
    folder.mkdir(parents=True, exist_ok=True)
    partial.rename(target)
    return "".join(
        f"not used, it fails while lines are recorded: {test}\n" for test in sorted(set(run.failed))
    )


def _collect(seen: Path, target: str) -> None:
    """Combine what the processes of a recording wrote: coverage's own data, or lines of Monitor."""
    if sys.version_info < (3, 12):
        whole = coverage.Coverage(data_file=target, config_file=False, messages=False)
        whole.combine([str(seen)])
        whole.save()
        return
    data = coverage.CoverageData(basename=target)
    for file in seen.glob("seen.*"):
        for line in file.read_text("utf-8").splitlines():
            record = json.loads(line)
            data.set_context(record["context"])
            data.add_lines(record["files"])
    data.write()


def _texts(root: Path, source: str) -> Iterator[tuple[str, str]]:
    for path in sorted((root / source).rglob("*.py")):
        yield path.relative_to(root).as_posix(), path.read_text("utf-8")


def _launched(space: Workspace) -> dict[str, list[str]]:
    """Return the files of the tree that tests started as programs, by path."""
    found = defaultdict(set)
    log = space.seen / "launched.jsonl"
    for line in log.read_text("utf-8").splitlines() if log.exists() else ():
        record = json.loads(line)
        for file in record["files"]:
            if Path(file).is_relative_to(space.tree):
                found[Path(file).relative_to(space.tree).as_posix()].add(record["test"])
    return {path: sorted(tests) for path, tests in found.items()}


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@functools.cache
def _imports(path: Path) -> set[str]:
    """Return every module that a file names in its imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names
