"""The first line of a log that is an error, and not a warning, a switch, a name, a summary or a remark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from xpubuild.explain.line import Line
from xpubuild.explain.normalise import undrawn
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml

_BEFORE = 3
_AFTER = 8
_TEXT = 1000
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
_CAUGHT = frozenset({"python", "tool", "runtime", "distributed"})

#: Lines that begin like errors and are none: the program that wrote them went on.
_HARMLESS = re.compile(
    r"ERROR: pip's dependency resolver does not currently"
    r"|\$ |>>> |[\w.-]{1,64}@[\w.-]{1,64}:[^\n]{0,200}[$#] |-- (?!Configuring incomplete)"  # prompts, CMake
    r"|\S{0,40}\[(?:INFO|DEBUG|WARNING)\]|\[W\d{3,4} |[^\n]{0,80}\|CCL_(?:WARN|INFO)\|"
    r"|(?:\S{1,300}: )?(?:\w{1,40}Warning|[Ww]arning|WARNING|note|Note|remark): "
    r"|fatal: not a git repository"
    r"|fatal: No (?:names found|tags can describe)"
    r"|error: (?:0|no) errors?\b"
    r"|(?:\S{1,200}: )?error:? (?:rate|ratio|count|norm|bound|tolerance|bars?)\b",
    re.IGNORECASE,
)

#: The result of a test that did not fail; what the line says besides is expected.
PASSED = re.compile(r"\b(?:PASSED|SKIPPED|XFAIL|XPASS|DESELECTED)\b(?!:)|\.\.\. (?:ok|skipped)\b")

#: How the end of a run shows that is no error by itself.
_STOPS = re.compile(
    r"traceback \(most recent|\babort(?: was called|ed)\b|\bdied from signal|\bassertion\b.{0,160}\bfailed"
    r"|\bexit(?:ed)?(?: with)? ?(?:code|status)?[ :=]{1,3}-?[1-9]|\bcore dumped|\bkilled\b|\bbad termination"
    r"|\bterminated\b|\bsegfault\b",
    re.IGNORECASE,
)


def _combined(name: str) -> re.Pattern[str]:
    rows = enumerate(_FORMS[name])
    return re.compile("|".join(f"(?P<{kind}_{index}>{text})" for index, (kind, text) in rows))


_ERROR_RULES, _WRAPPER_RULES, _COMPLAINT_RULES = map(_combined, ("errors", "wrappers", "complaints"))
#: A frame of a stack: of gdb, of Python, of glibc and MPI, of the kernel.
_FRAME = re.compile(
    r"#\d{1,3} {1,2}\S|File \"[^\n]{1,400}\", line \d|\S{1,400}\([^)\n]{0,200}\+0x[0-9a-f]{1,16}\)|#[0-9]: "
)
_LATER_LINES = re.compile(r"(?:\w{1,80}\.){0,8}\w{1,80}:?$")


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
        self._command: str | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing that comes later can change the result."""
        last = self._errors[-1].kind if self._errors else "git"
        return last not in _TRANSFERS | _CAUGHT or len(self._errors) >= _MOST_CANDIDATES

    def consider(self, line: Line) -> bool:
        """Look at one line and return whether it is an error."""
        # Who quotes a message in a report writes it between backquotes.
        text = undrawn(line.text).removeprefix("`")
        if _HARMLESS.match(text) or PASSED.search(text):
            return False
        if self.settled:
            return bool(_ERROR_RULES.match(text))
        wrapper = _WRAPPER_RULES.match(text)
        if wrapper:
            self._wrapper = self._wrapper or _found(wrapper, line, text)
            if text.startswith("FAILED: "):
                self._command = _next_line(line)
            return True
        found = _ERROR_RULES.match(text)
        if found:
            self._errors.append(_found(found, line, text, self._command if _near_failed(line) else None))
        elif (
            self._complaint is None
            and not line.text.startswith((" ", "\t"))
            and (weak := _COMPLAINT_RULES.match(text))
        ):
            self._complaint = _found(weak, line, text)
        return found is not None

    def stops(self, line: Line) -> bool:
        """Return whether a line that ``consider`` takes for no error shows that a run ended badly."""
        text = undrawn(line.text)
        if _HARMLESS.match(text) or PASSED.search(text):
            return False
        return bool(_STOPS.search(text) or (self._errors and _WRAPPER_RULES.match(text)))

    def result(self, overcome: Callable[[int, bool], bool]) -> FirstError | None:
        """Return the first error; a complaint shortly before the report of a failed command is its reason.

        ``overcome`` says whether a run went on after a line, or (True) what was tried was done after all.
        """
        errors = [
            error for error in self._errors
            if not ((error.kind in _TRANSFERS and overcome(error.line, True))
                    or (error.kind in _CAUGHT and overcome(error.line, False)))
        ]  # fmt: skip
        weak, report = self._complaint, self._wrapper
        if errors:
            return errors[0]
        if weak and report and 0 < report.line - weak.line <= _REASON_BEFORE:
            return weak
        if report:
            return report
        return weak if weak and not self._errors and not overcome(weak.line, False) else None


def _found(match: re.Match[str], line: Line, text: str, command: str | None = None) -> FirstError:
    kind = (match.lastgroup or "").rpartition("_")[0]
    after = line.window.after(_AFTER)
    context = (*reversed(line.window.before(_BEFORE)), line.text, *after)
    if kind == "ninja" and text.startswith("FAILED: "):
        command = _next_line(line)
    whole = (kind == "cmake" and line.joined()) or text
    if _LATER_LINES.fullmatch(whole) and kind == "python":
        whole = " ".join([whole, *(item.strip() for item in after[:3])])
    frame = next((item.strip() for item in after if _FRAME.match(item.strip())), None)
    shown = tuple(item[:_TEXT] for item in context)
    return FirstError(
        line.number, whole[:_TEXT], kind, STEPS[kind], command, frame if kind == "signal" else None, shown
    )


def _near_failed(line: Line) -> bool:
    """Whether ninja announced this output a few lines above, so that its command is the one that failed."""
    return any(undrawn(text).startswith("FAILED: ") for text in line.window.before(_OF_NINJA))


def _next_line(line: Line) -> str | None:
    """Return what follows a FAILED line of ninja: the command."""
    return next((text.strip()[:_TEXT] for text in line.window.after(1) if text.strip()), None)
