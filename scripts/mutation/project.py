"""The checkout that a mutation run is about: what scope.yaml says of it, and a sample of its mutants."""

from __future__ import annotations

import difflib
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path

import yaml

from mutation.edits import Mutant, invalid, mutants
from mutation.trial import tracked


class Project:
    """The checkout: its scope, the texts that can be changed, its mutants."""

    def __init__(self, root: Path, only: str) -> None:
        self.root = root
        self.scope = yaml.safe_load((root / "scripts" / "mutation" / "scope.yaml").read_text("utf-8"))
        self.files = tracked(root)
        self.left_out: Counter[str] = Counter()
        self.texts = {name: (root / name).read_text("utf-8") for name in self._sources(only)}

    def below(self, folders: Iterable[str]) -> list[str]:
        """Return the Python files of the checkout in one of these folders."""
        return [
            name for name in self.files if name.endswith(".py") and any(_in(name, place) for place in folders)
        ]

    def _sources(self, only: str) -> list[str]:
        names = self.below(self.scope["sources"])
        for entry in self.scope["excluded"]:
            for pattern in entry["patterns"]:
                matching = {name for name in names if fnmatch(name, pattern)}
                if not matching:
                    raise SystemExit(f"scope.yaml: nothing is excluded by {pattern}")
                self.left_out[f"files {entry['reason']}"] += len(matching)
                names = [name for name in names if name not in matching]
        names = [name for name in names if not only or _in(name, only)]
        if not names:
            raise SystemExit(f"no source file is in {only}")
        return names

    def mutants(self) -> list[Mutant]:
        """Return every mutant of the sources."""
        found = []
        for name, text in self.texts.items():
            of_file, left_out = mutants(name, text)
            found += of_file
            self.left_out += left_out
        return found

    def sample(self, seed: int) -> Iterator[Mutant]:
        """Return one mutant for each line that has any, the lines in an order that the seed gives.

        So each line of code is as likely as another, however many mutants it has; so is each of its kinds.
        """
        lines: dict[tuple[str, int], dict[str, list[Mutant]]] = defaultdict(lambda: defaultdict(list))
        for mutant in self.mutants():
            lines[mutant.path, mutant.line][mutant.kind].append(mutant)
        chance = random.Random(seed)  # noqa: S311
        for place in chance.sample(sorted(lines), len(lines)):
            mutant = chance.choice(lines[place][chance.choice(sorted(lines[place]))])
            reason = invalid(mutant, self.texts[mutant.path])
            if reason:
                self.left_out[reason] += 1
            else:
                yield mutant

    def diff(self, mutant: Mutant) -> str:
        """Return a mutant as a patch."""
        text = self.texts[mutant.path]
        before, after = text.splitlines(keepends=True), mutant.apply(text).splitlines(keepends=True)
        names = (f"a/{mutant.path}", f"b/{mutant.path}")
        return "".join(difflib.unified_diff(before, after, *names, n=2))


def _in(name: str, folder: str) -> bool:
    return Path(name).is_relative_to(folder)
