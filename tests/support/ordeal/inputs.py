"""Hostile inputs: good files that are damaged, or that hold what somebody would like to be obeyed."""

from __future__ import annotations

import copy
import functools
import json
import random
from pathlib import Path
from typing import Any

import yaml

from support.ordeal.judge import LetInError

_DATA = Path(__file__).with_name("nasty.yaml")
_LONG = 200_000


@functools.cache
def _nasty() -> dict[str, Any]:
    document = yaml.safe_load(_DATA.read_text("utf-8"))
    assert isinstance(document, dict)
    return document


class Hostile:
    """Makes inputs out of good ones; ``outside`` is where nothing may be written."""

    def __init__(self, rng: random.Random, outside: Path) -> None:
        self._rng = rng
        self._outside = outside
        #: A program that leaves a trace when something runs it.
        self.canary = outside / "canary"
        self.said = ""

    def prepare(self) -> None:
        """Make the folder outside, with things that must stay as they are."""
        self._outside.mkdir(parents=True, exist_ok=True)
        self.canary.write_text(f"#!/bin/sh\necho ran >> '{self._outside}/ran'\nexit 1\n")
        self.canary.chmod(0o755)
        (self._outside / "attributes").write_text("* filter=x\n")
        (self._outside / "kept").write_text("kept\n")

    def must_be_kept(self) -> None:
        """Raise LetInError if anything was written outside, or the program ran."""
        found = {path.name for path in self._outside.rglob("*")}
        if found != {"canary", "attributes", "kept"} or (self._outside / "kept").read_text() != "kept\n":
            raise LetInError(f"outside are now {sorted(found)}")

    def filled(self, value: Any) -> Any:
        """Put the paths of this attempt into a value of the list."""
        if isinstance(value, str):
            return value.replace("{outside}", str(self._outside)).replace("{canary}", str(self.canary))
        return copy.deepcopy(value)

    def value(self) -> Any:
        """Return a value that is hardly ever right."""
        if self._rng.random() < 0.06:
            return self._rng.choice(("A", "../", "é", "{")) * _LONG
        return self.filled(self._rng.choice(_nasty()["values"]))

    def line(self) -> str:
        """Return a line that means something to a program."""
        return str(self.filled(self._rng.choice(_nasty()["lines"])))

    def variables(self) -> dict[str, str]:
        """Return one to four variables; no process can have one with a zero byte."""
        known: dict[str, str] = _nasty()["variables"]
        names = self._rng.sample(sorted(known), self._rng.randint(1, 4))
        chosen = {name: str(self.filled(known[name])) for name in names}
        if self._rng.random() < 0.2:
            chosen[names[0]] = (
                str(self.value()).replace("\0", "")[:100_000].encode("utf-8", "replace").decode()
            )
        self.said = f"variables {', '.join(sorted(chosen))}"
        return chosen

    def document(self, good: Any) -> Any:
        """Return a document of which one to three parts were replaced, removed or doubled."""
        made = copy.deepcopy(good)
        for _ in range(self._rng.randint(1, 3)):
            parent, key = self._part(made)
            if parent is None:
                return self.value()
            self.said += f" {key!r}"
            change = self._rng.randrange(6)
            if change == 0:
                del parent[key]
            elif change == 1 and isinstance(parent, dict):
                parent[str(self.value())[:99]] = parent[key]
            elif change == 2 and isinstance(parent, list):
                parent.extend(parent * self._rng.choice((1, 50)))
            else:
                parent[key] = self.value()
        return made

    def _part(self, document: Any) -> tuple[Any, Any]:
        parts: list[tuple[Any, Any]] = []
        todo = [document]
        while todo:
            found = todo.pop()
            keys = (
                list(found)
                if isinstance(found, dict)
                else range(len(found))
                if isinstance(found, list)
                else ()
            )
            parts.extend((found, key) for key in keys)
            todo.extend(found[key] for key in keys)
        return self._rng.choice(parts) if parts else (None, None)

    def text(self, good: str) -> str:
        """Return a text with lines put in, taken out or exchanged."""
        lines = good.splitlines()
        for _ in range(self._rng.randint(1, 3)):
            at, change = self._rng.randrange(len(lines) + 1), self._rng.randrange(4)
            if change == 0 and at < len(lines):
                del lines[at]
            elif change == 1 and at < len(lines):
                lines[at] = str(self.value())
            else:
                lines.insert(at, self.line())
        self.said = "lines"
        return "\n".join(lines) + "\n"

    def flipped(self, good: bytes) -> bytes:
        """Return bytes with some flipped, cut, put in, doubled or all replaced."""
        made, rng, change = bytearray(good), self._rng, self._rng.randrange(7)
        at = rng.randrange(len(made)) if made else 0
        self.said = f"bytes {change} at {at} of {len(made)}"
        if not made or change == 0:
            return rng.randbytes(rng.randrange(4096))
        if change == 1:
            del made[at:]
        elif change == 2:
            made[at:at] = rng.randbytes(rng.randint(1, 64))
        elif change == 3:
            made[at : at + 4096] = bytes(len(made[at : at + 4096]))
        elif change == 4:
            made += made[at:]
        else:
            for _ in range(rng.choice((1, 1, 8))):
                made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
        return bytes(made)

    def yaml(self, good: bytes) -> bytes:
        """Return a YAML file: another document, other lines or other bytes."""
        choice = self._rng.random()
        if choice < 0.6:
            made = self.document(yaml.safe_load(good))
            return yaml.safe_dump(made, allow_unicode=False).encode("utf-8", "surrogatepass")
        if choice < 0.8:
            return self.text(good.decode()).encode("utf-8", "surrogatepass")
        return self.flipped(good)

    def json(self, good: bytes) -> bytes:
        """Return a JSON file: another document or other bytes."""
        if self._rng.random() < 0.7:
            return json.dumps(self.document(json.loads(good)), default=str).encode()
        return self.flipped(good)
