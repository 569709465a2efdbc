"""The matcher of a running build: reads each line once and reports fatal causes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from xpubuild.explain.document import Circumstances, Explanation, conclude
from xpubuild.explain.line import Line
from xpubuild.explain.load import Rules, shipped_rules
from xpubuild.explain.matcher import Index, Matching
from xpubuild.explain.normalise import plain, without_escapes
from xpubuild.explain.prefilter import smallest
from xpubuild.explain.rank import LikelyCause, fits, rank
from xpubuild.explain.scan import Scanner
from xpubuild.explain.signature import MAX_DISTANCE

_BATCH = 1 << 16


class _Before:
    """The lines before the current one; those after it have not been written yet."""

    def __init__(self, lines: deque[str]) -> None:
        self._lines = lines

    def before(self, count: int) -> Sequence[str]:
        return [plain(text.encode()) for text in list(self._lines)[::-1][:count]]

    def after(self, count: int) -> Sequence[str]:  # noqa: ARG002
        return []


class LogWatcher:
    """Takes the lines of one command as they come.

    ``feed`` returns a finding at the first line which shows that the build is doomed (a signature marked
    ``fatal``), once; the caller then stops the command. ``finish`` explains the whole of what was fed,
    without reading it again. Memory does not grow with the number of lines. Not for several threads at once.
    """

    def __init__(self, known: Circumstances | None = None, rules: Rules | None = None) -> None:
        rules = rules or shipped_rules()
        self._known = known or Circumstances()
        self._scanner = Scanner(rules)
        fatal = tuple(entry for entry in rules.signatures if entry.fatal)
        self._matching = Matching(Index(fatal, rules.facts))
        self._literals = smallest(self._matching.index.literals)
        self._recent: deque[str] = deque(maxlen=MAX_DISTANCE)
        self._batch: list[bytes] = []
        self._size = 0
        self._number = 0
        self._stopped = False

    def feed(self, line: str) -> LikelyCause | None:
        """Take one line, without its end."""
        raw = line.encode("utf-8", "replace").replace(b"\n", b" ") + b"\n"
        self._batch.append(raw)
        self._size += len(raw)
        if self._size >= _BATCH:
            self._flush()
        self._number += 1
        found = None if self._stopped else self._fatal(line)
        self._recent.append(line)
        self._stopped = self._stopped or found is not None
        return found

    def finish(self) -> Explanation:
        """Return what is to be said about everything that was fed; nothing may be fed after that."""
        self._flush()
        return conclude(self._scanner.finish(), self._known)

    def _flush(self) -> None:
        if self._batch:
            self._scanner.feed(without_escapes(b"".join(self._batch)))
        self._batch, self._size = [], 0

    def _fatal(self, raw: str) -> LikelyCause | None:
        low = raw.lower()
        if not any(literal in low for literal in self._literals):
            return None
        line = Line(
            self._number, plain(without_escapes(raw.encode("utf-8", "replace"))), _Before(self._recent)
        )
        self._matching.consider(line)
        facts = self._matching.facts | self._known.facts
        # A fact may come to light after the line that needed it.
        doomed = [match for match in self._matching.matches if fits(match, facts)]
        findings = rank(doomed, facts, None, system=self._known.system)
        return replace(findings[0]) if findings else None
