"""The matcher of a running build: reads each line once and reports fatal causes."""

from __future__ import annotations

from xpubuild.explain.document import Circumstances, Explanation, LikelyCause, conclude, finding, fits
from xpubuild.explain.normalise import canonical, plain, without_escapes
from xpubuild.explain.rules import Rules, shipped_rules
from xpubuild.explain.scan import Match, Scanner

_BATCH = 1 << 16


class LogWatcher:
    """Takes the lines of one command as they come.

    ``feed`` returns a finding at the first line which shows that the build is doomed (a rule marked
    ``fatal``), once; the caller then stops the command. ``finish`` explains the whole of what was fed,
    without reading it again. Memory does not grow with the number of lines. Not for several threads at once.
    """

    def __init__(self, known: Circumstances | None = None, rules: Rules | None = None) -> None:
        self._rules = rules or shipped_rules()
        self._known = known or Circumstances()
        self._scanner = Scanner(self._rules)
        self._doom = [(message, rule) for rule in self._rules.rules if rule.fatal for message in rule.says]
        literals = [literal for literal, _ in self._rules.facts.values()]
        self._literals = {*literals, *(message.literal for message, _ in self._doom)}
        self._facts: set[str] = set()
        self._matches: dict[str, Match] = {}
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
        self._stopped = self._stopped or found is not None
        return found

    def finish(self) -> Explanation:
        """Return the findings about everything that was fed; nothing may be fed after that."""
        self._flush()
        return conclude(self._scanner.finish(), self._known)

    def _flush(self) -> None:
        if self._batch:
            self._scanner.feed(without_escapes(b"".join(self._batch)))
        self._batch, self._size = [], 0

    def _fatal(self, line: str) -> LikelyCause | None:
        low = line.lower()
        if not any(literal in low for literal in self._literals):
            return None
        text = canonical(plain(without_escapes(line.encode("utf-8", "replace"))))
        self._facts |= {name for name, (_, pattern) in self._rules.facts.items() if pattern.search(text)}
        for message, rule in self._doom:
            hit = message.pattern.search(text)
            if hit and not any(item.pattern.search(text) for item in rule.unless):
                self._matches.setdefault(
                    rule.id, Match(rule, self._number, text[:400], hit.groupdict(""), True)
                )
        # A fact may come to light after the line that needed it.
        facts = self._facts | self._known.facts
        doomed = [match for match in self._matches.values() if fits(match, facts)]
        return finding(doomed[0], self._known.system, self._known) if doomed else None
