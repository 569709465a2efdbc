"""The first line of a log that is an error, and not a warning, a switch, a name, a summary or a remark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from xpubuild.explain.line import Line
from xpubuild.explain.normalise import undrawn
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml

#: Lines before and after an error that are shown, characters of a line.
_BEFORE, _AFTER, _TEXT = 3, 8, 1000
#: How far the output of a command may be from the line in which ninja announces that it failed.
_OF_NINJA = 40
#: How many lines before a traceback or the report of a failed command the reason for it may stand.
_REASON_BEFORE = 12
_MOST_CANDIDATES = 200

_FORMS = read_yaml(Path(__file__).with_name("forms.yaml").read_text("utf-8"))
#: The kind of step that failed, by the tool that says so.
STEPS: Mapping[str, str] = _FORMS["steps"]
#: Literals of which one is in every line that can be an error; the second ones are for parts of a log.
STEMS: tuple[tuple[str, ...], tuple[str, ...]] = (tuple(_FORMS["stems"]), tuple(_FORMS["rare"]))
#: Errors of these are no errors where the same thing is tried again and succeeds.
_TRANSFERS = frozenset({"git", "curl", "pip", "uv", "docker", "apt", "dnf", "conda"})
#: Errors of these may be caught: a run that goes on did not fail of them.
_CAUGHT = frozenset({"python", "tool", "runtime", "distributed", "shell"})


_HARMLESS, _STOPS, _FRAME, CALM, _REMARK = (
    re.compile("|".join(_FORMS[name]), re.I) for name in ("harmless", "stops", "frames", "calm", "remarks")
)
#: In a log of so few lines, an excerpt, a line that only says what is not so can be the error.
SHORT, REMARK = 8, "remark"
#: Steps of a training; steps of a build or a server; the end of a transfer or an installation.
MARKS = re.compile(
    "|".join(f"(?P<{name}>{'|'.join(texts)})" for name, texts in _FORMS["marks"].items()).encode(),
    re.IGNORECASE | re.MULTILINE,
)


def _combined(name: str) -> re.Pattern[str]:
    rows = enumerate(_FORMS[name])
    return re.compile("|".join(f"(?P<{kind}_{index}>{text})" for index, (kind, text) in rows))


_ERROR_RULES, _WRAPPER_RULES, _COMPLAINT_RULES = map(_combined, ("errors", "wrappers", "complaints"))
#: What is described in the lines below.
_LATER_LINES = re.compile(
    r"(?:\w{1,80}\.){0,8}\w{1,80}:?$|\*\*\* Process received signal \*\*\*|"
    r"[^\n]{0,200}terminate called after throwing[^\n]{0,200}"
)


@frozen
class FirstError:
    """The first error of the log: no warning, no report of another error, not one that was overcome."""

    line: int
    """Counted from 1."""
    text: str
    """Whole, without colours, timestamps and labels; a message that CMake wrapped is one line."""
    kind: str
    """The tool that printed the line: compiler, linker, cmake, ninja, pip, git, python, memory, ..."""
    step: str
    """The kind of step that failed."""
    command: str | None
    """The command that ninja ran, where ninja reports the failure."""
    frame: str | None
    """The first frame of the stack below it, for a crash."""
    context: tuple[str, ...]
    """The lines round it, in order."""


class FirstErrorSearch:
    """Takes lines in order and keeps the first errors, reports of other errors and complaints."""

    def __init__(self) -> None:
        self._errors: list[FirstError] = []
        self._wrapper: FirstError | None = None
        self._complaint: FirstError | None = None
        self._noted: FirstError | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing that comes later can change the result."""
        last = self._errors[-1].kind if self._errors else "git"
        return last not in _TRANSFERS | _CAUGHT or len(self._errors) >= _MOST_CANDIDATES

    def consider(self, line: Line) -> bool:
        """Look at one line and return whether it is an error."""
        # Who quotes a message in a report writes it between backquotes.
        text = undrawn(line.text).removeprefix("`")
        if _HARMLESS.match(text) or CALM.search(text):
            return False
        if self.settled:
            return bool(_ERROR_RULES.match(text))
        if wrapper := _WRAPPER_RULES.match(text):
            self._wrapper = self._wrapper or _found(_kind(wrapper), line, text)
            return True
        if found := _ERROR_RULES.match(text):
            self._errors.append(_found(_kind(found), line, text))
            return True
        far = self._wrapper and self._complaint and self._wrapper.line - self._complaint.line > _REASON_BEFORE
        if (far or not self._complaint) and not line.text.startswith((" ", "\t")):
            weak = _COMPLAINT_RULES.match(text)
            self._complaint = _found(_kind(weak), line, text) if weak else self._complaint
        if text.startswith("Traceback (most"):
            self.note(line, "python")
        elif _REMARK.search(text):
            self.note(line, REMARK)
        return False

    def note(self, line: Line, kind: str = "tool") -> None:
        """Remember a line that a rule knows, or that heads an error which is missing."""
        text = undrawn(line.text)
        if (self._noted is None or self._noted.kind == REMARK != kind) and not _HARMLESS.match(text):
            self._noted = _found(kind, line, text)

    def stops(self, line: Line) -> bool:
        """Return whether a line that ``consider`` takes for no error shows that a run ended badly."""
        text = undrawn(line.text)
        quiet = _HARMLESS.match(text) or CALM.search(text)
        return not quiet and bool(_STOPS.search(text) or (self._errors and _WRAPPER_RULES.match(text)))

    def result(
        self, overcome: Callable[[int, bool], bool], went_on: Callable[[int, int], bool]
    ) -> FirstError | None:
        """Return the first error; a complaint shortly before the report of a failed command is its reason.

        ``overcome`` says whether a run went on after a line, or (True) what was tried was done after all;
        ``went_on`` whether a program trained or served between two lines.
        """
        errors = [
            error for error in self._errors if not (
                (error.kind in _TRANSFERS and overcome(error.line, True))
                    or (error.kind in _CAUGHT and overcome(error.line, False)))
        ]  # fmt: skip
        # What a run went on after is not what ended it, where something else fails later.
        while len(errors) > 1 and errors[0].kind == "python" and went_on(errors[0].line, errors[1].line):
            del errors[0]
        weak, report = self._complaint, self._wrapper
        if errors:
            return errors[0]
        # What a command says stands before the report that it failed; with ninja, below it.
        below = _REASON_BEFORE if report and report.text.startswith("FAILED: ") else 0
        if report and not (report.kind == "git" and overcome(report.line, True)):
            return weak if weak and -below <= report.line - weak.line <= _REASON_BEFORE else report
        last = weak or self._noted
        return last if last and not self._errors and not overcome(last.line, False) else None


def _kind(match: re.Match[str]) -> str:
    return (match.lastgroup or "").rpartition("_")[0]


def _found(kind: str, line: Line, text: str) -> FirstError:
    before, after = line.before(_OF_NINJA), line.after(_AFTER)
    whole = (kind == "cmake" and line.joined()) or text
    if _LATER_LINES.fullmatch(whole) and kind in {"python", "signal"}:
        whole = " ".join([whole, *(item.strip() for item in after[:3])])
    frame = next((item.strip() for item in after if _FRAME.match(item.strip())), None)
    # The command of which this is the output stands below the line in which ninja says that it failed.
    lines = [*map(undrawn, reversed(before)), text, *after[:1]]
    heads = [index for index, item in enumerate(lines[:-1]) if item.startswith("FAILED: ")]
    return FirstError(
        line.number, whole[:_TEXT], kind, STEPS[kind],
        lines[heads[-1] + 1].strip()[:_TEXT] or None if heads else None,
        frame if kind == "signal" else None,
        tuple(item[:_TEXT] for item in (*reversed(before[:_BEFORE]), line.text, *after)),
    )  # fmt: skip
