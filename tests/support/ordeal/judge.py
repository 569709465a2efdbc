"""What became of an attempt: an error that helps or none, the usual result or another."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

CARRIED_ON, CLEAR, LOST, LET_IN = VERDICTS = ("carried on", "clear error", "lost", "let in")
# docs/reference/exit-codes.md, without that of a bug.
_DOCUMENTED = {2, 10, 20, 21, 22, 30, 31, 40, 50, 51, 52, 53, 60, 70, 75, 130}
# One that is quoted stands behind a bar: it is of a tool, whose last lines are shown.
_TRACEBACK = re.compile(r"^\s*Traceback", re.MULTILINE)
# What a terminal obeys; a tab and line ends are text.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class LostError(Exception):
    """Something that was promised did not hold."""


class LetInError(Exception):
    """A hostile input wrote outside, ran a program, or was taken for a good one."""


@dataclass(frozen=True)
class Answer:
    words: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float

    def __str__(self) -> str:
        return f"{' '.join(self.words)}: {self.code} after {self.seconds:.1f} s: {self.err[-1500:]}"

    @property
    def texts(self) -> str:
        return f"{self.out}\n{self.err}"

    def must_be_clear(self, *codes: int) -> None:
        """Raise LostError unless it succeeded or failed as documented: a code, a reason, something to do."""
        if self.code in (0, *codes) and not _TRACEBACK.search(self.texts):
            return
        if codes or self.code not in _DOCUMENTED:
            raise LostError(f"exit code {self}")
        if _TRACEBACK.search(self.texts) or "internal error" in self.err:
            raise LostError(f"a traceback: {self}")
        error = self._error()
        if error and not (
            error["what"] and (error["why"] or error["log"]) and (error["fix"] or error["commands"])
        ):
            raise LostError(f"an error without a reason or without a way out: {self}")
        if not error and not (self.out.strip() or self.err.strip()):
            raise LostError(f"failed silently: {self}")

    def must_be_printable(self) -> None:
        """Raise LetInError where the output has characters that a terminal obeys, or a planted secret."""
        if "planted-secret" in self.texts:
            raise LetInError(f"a secret is quoted: {self}")
        found = _CONTROL.search(self.texts)
        if found:
            raise LetInError(f"prints {found.group()!r}: {self}")

    def _error(self) -> dict[str, str]:
        try:
            document = json.loads(self.out)
        except json.JSONDecodeError:
            return {}
        found = document.get("error") if isinstance(document, dict) else None
        return found if isinstance(found, dict) else {}
