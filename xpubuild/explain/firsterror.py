"""The first line of a log that is an error, and not a warning, a switch, a name or a summary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from xpubuild.explain.line import Line
from xpubuild.explain.normalise import undrawn

_BEFORE = 3
_AFTER = 8
_TEXT = 1000
_FAILED = "ninja"

# What a compiler calls an error, in the languages that GCC and Clang speak.
_WORD = "(?:error|erreur|Fehler)"
_ERROR = rf"(?:fatal |schwerwiegender |internal compiler )?{_WORD}(?: fatale)?\s?[:\uff1a]"

#: Lines that begin like errors and are none: the program that wrote them went on.
_HARMLESS = re.compile(
    r"ERROR: pip's dependency resolver does not currently"
    r"|fatal: not a git repository"
    r"|fatal: No (?:names found|tags can describe)"
    r"|error: (?:0|no) errors?\b"
    r"|(?:\S{1,200}: )?error:? (?:rate|ratio|count|norm|bound|tolerance|bars?)\b",
    re.IGNORECASE,
)

#: The error of something else, reported by who started it: only shown where that error itself is not found.
_WRAPPERS: tuple[tuple[str, str], ...] = (
    ("ninja", r"FAILED: (?:\[code=\d{1,12}\] )?\S"),
    ("ninja", r"ninja: build stopped: (?!interrupted)"),
    ("make", r"\S{0,200}make(?:\[\d{1,4}\])?(?:\.exe)?: \*\*\* (?!No rule to make target)"),
    ("cmake", r"-- Configuring incomplete, errors occurred"),
    ("linker", r"(?:\S{1,300}: )?(?:collect2|clang|clang\+\+|icpx|icx|dpcpp|c\+\+|g\+\+)(?:-[\d.]{1,8})?: error: (?:ld returned|linker command failed)"),
    ("compiler", r"\S{1,300}: error: [\w+./-]{1,200}(?: \([\w -]{1,40}\))? command failed (?:with|due to)"),
    ("pip", r"error: (?:subprocess-exited-with-error|metadata-generation-failed|command ')"),
    ("pip", r"ERROR: (?:Failed building|Failed to build|Could not build wheels|Command errored|Exception:)"),
    ("python", r"Traceback \(most recent call last\):"),
    ("python", r"(?:\w{1,80}\.){0,8}CalledProcessError: "),
    ("python", r"(?:Base)?Exception(?:Group)?: "),
)  # fmt: skip

#: Errors by themselves. The patterns are tried at the beginning of a line, without indentation.
_ERRORS: tuple[tuple[str, str], ...] = (
    ("memory", r"(?:[^\n]{0,200}: )?(?:fatal error|internal compiler error): Killed|Killed$|[^\n]{0,80}Out of memory: Killed process \d|Memory cgroup out of memory|[^\n]{0,80}oom-kill|[^\n]{0,300}std::bad_alloc|LLVM ERROR: out of memory|[^\n]{0,300}unable to execute command: Killed|[^\n]{0,200}line \d{1,7}:\s{1,4}\d{1,9} Killed|[^\n]{0,200}virtual memory exhausted|[^\n]{0,300}Cannot allocate memory"),
    ("disk", r"[^\n]{0,600}(?:No space left on device|Disk quota exceeded)"),
    ("compiler", rf"(?:[A-Za-z]:)?[^\s:'\"][^:\n]{{0,400}}:\d{{1,7}}(?:[:.,]\d{{1,6}})?:\s{{0,4}}{_ERROR}"),
    ("compiler", r"[^\n(]{1,300}\(\d{1,7}(?:,\d{1,6})?\)\s?: (?:fatal )?error [A-Z]{1,4}\d{1,6}"),
    ("linker", r"[^\n]{0,600}(?:: undefined reference to|relocation truncated to fit|multiple definition of)|(?:\S{0,300}/)?(?:[\w-]{1,40}-)?ld(?:\.\w{1,8})?: (?:cannot find|final link failed|error:|fatal error:|[^\n]{1,400}: (?:error adding symbols|file not recognized))"),
    ("linker", r"LINK : fatal error LNK\d|[^\n]{1,300}: (?:fatal )?error LNK\d"),
    ("ninja", r"ninja: (?:error|fatal): "),
    ("make", r"\S{0,200}make(?:\[\d{1,4}\])?: \*\*\* No rule to make target"),
    ("cmake", r"CMake Error(?: at [^\n]{1,400}:\d{1,7} \(\w{1,80}\)| in [^\n]{1,400}| \([^)\n]{1,80}\) at [^\n]{1,400})?:"),
    ("ocloc", r"(?:ocloc|IGC)\b[^\n]{0,80}: (?:error|fatal|Internal Compiler Error)|Build failed with error code|Could not determine (?:device target|target based)|Error: Cannot get HW Info"),
    ("loader", r"[^\n]{1,400}: (?:error while loading shared libraries|symbol lookup error): "),
    ("shell", r"(?:\S{1,300}: )?(?:line )?\d{0,7}(?:: )?\S{1,200}: (?:command not found|unbound variable)|llvm-foreach: "),
    ("git", r"fatal: |error: (?:pathspec|RPC failed|Your local changes|unable to (?:create|read|write)|invalid object)"),
    ("signal", r"[^\n]{0,200}(?:Segmentation fault|Bus error|Illegal instruction|Aborted) ?\(core dumped\)|(?:Segmentation fault|Bus error|Illegal instruction|Aborted)$|[^\n]{0,200}terminate called after throwing|LLVM ERROR: |Fatal Python error: |[^\n]{0,200}terminated (?:by|with) signal|!!!!!!! Segfault encountered"),
    ("pip", r"ERROR: "),
    ("python", r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Failure|Exit)(?:: |:?$)"),
    ("tool", rf"(?:[\w./+\\-]{{1,300}}:\s)?{_ERROR}\s"),
    ("docker", r"Error response from daemon: "),
)  # fmt: skip

#: Literals of which one is in every line that a pattern above can match.
LITERALS = (
    "error", "fail", "fehler", "erreur", "killed", "fatal", "no space left", "quota exceeded", "undefined",
    "relocation ", "multiple definition", "***", "not ", "unbound variable", "llvm-foreach", "segmentation",
    "segfault", "core dumped", "aborted", "illegal in", "terminate", "bad_alloc", "out of memory", "oom-kill",
    "memory exhausted", "traceback", "exception", "ninja: build stopped", "keyboardinterrupt",
)  # fmt: skip


def _combined(rules: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}_{index}>{text})" for index, (kind, text) in enumerate(rules)))


_ERROR_RULES = _combined(_ERRORS)
_WRAPPER_RULES = _combined(_WRAPPERS)


@dataclass(frozen=True)
class FirstError:
    """``kind`` says who speaks; ``command`` is what ninja ran; ``context`` are lines round it, in order."""

    line: int
    text: str
    kind: str
    command: str | None
    context: tuple[str, ...]


class FirstErrorSearch:
    """Takes lines in order and keeps the first error, and the first report of somebody else's error."""

    def __init__(self) -> None:
        self._error: FirstError | None = None
        self._wrapper: FirstError | None = None
        self._command: str | None = None

    def consider(self, line: Line) -> None:
        """Look at one line."""
        if self._error is not None:
            return
        text = undrawn(line.text)
        if _HARMLESS.match(text):
            return
        wrapper = _WRAPPER_RULES.match(text)
        if wrapper:
            if self._wrapper is None:
                self._wrapper = _found(wrapper, line, text)
            if text.startswith("FAILED: "):
                self._command = _command(line)
            return
        found = _ERROR_RULES.match(text)
        if found:
            self._error = _found(found, line, text, self._command if self._command_is_near(line) else None)

    def _command_is_near(self, line: Line) -> bool:
        return any(undrawn(text).startswith("FAILED: ") for text in line.window.before(40))

    def result(self) -> FirstError | None:
        """Return the first error of the log."""
        return self._error or self._wrapper


def _found(match: re.Match[str], line: Line, text: str, command: str | None = None) -> FirstError:
    kind = (match.lastgroup or "").rpartition("_")[0]
    context = (*reversed(line.window.before(_BEFORE)), line.text, *line.window.after(_AFTER))
    if kind == _FAILED and text.startswith("FAILED: "):
        command = _command(line)
    return FirstError(line.number, text[:_TEXT], kind, command, tuple(item[:_TEXT] for item in context))


def _command(line: Line) -> str | None:
    """Return what follows a FAILED line of ninja: the command, on the next line."""
    return next(iter(_words(line.window.after(1))), None)


def _words(lines: Iterator[str] | object) -> Iterator[str]:
    for text in lines if isinstance(lines, (list, tuple)) else ():
        if text.strip():
            yield text.strip()[:_TEXT]
