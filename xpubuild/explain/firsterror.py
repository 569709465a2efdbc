"""The first line of a log that is an error, and not a warning, a switch, a name or a summary."""

from __future__ import annotations

import re

from xpubuild.explain.line import Line
from xpubuild.explain.normalise import undrawn
from xpubuild.explain.signature import MAX_DISTANCE
from xpubuild.frozen import frozen

_BEFORE = 3
_AFTER = 8
_TEXT = 1000
_FAILED = "ninja"
#: How many lines before a traceback or the report of a failed command the reason for it may stand.
_REASON_BEFORE = 12

_ERROR = r"(?:fatal |internal compiler )?error\s?:"

#: Lines that begin like errors and are none: the program that wrote them went on.
_HARMLESS = re.compile(
    r"ERROR: pip's dependency resolver does not currently"
    r"|fatal: not a git repository"
    r"|fatal: No (?:names found|tags can describe)"
    r"|error: (?:0|no) errors?\b"
    r"|(?:\S{1,200}: )?error:? (?:rate|ratio|count|norm|bound|tolerance|bars?)\b",
    re.IGNORECASE,
)

#: The result of a test that did not fail; what the line says besides is expected.
PASSED = re.compile(r"\b(?:PASSED|SKIPPED|XFAIL|XPASS|DESELECTED)\b(?!:)|\.\.\. (?:ok|skipped)\b")

_TOOL = r"(?:\S{1,300}: )?(?:collect2|clang|clang\+\+|icpx|icx|dpcpp|c\+\+|g\+\+)(?:-[\d.]{1,8})?: error: "

_LD = r"(?:\S{0,300}/)?(?:[\w-]{1,40}-)?ld(?:\.\w{1,8})?: "
_CMAKE = r"(?: at [^\n]{1,400}:\d{1,7} \(\w{1,80}\)| in [^\n]{1,400}| \([^)\n]{1,80}\)[^\n]{0,400})?:"
_GIT = r"(?:pathspec|RPC failed|Your local changes|unable to (?:create|read|write)|invalid object)"

#: The error of something else, reported by who started it: only shown where that error itself is not found.
_WRAPPERS: tuple[tuple[str, str], ...] = (
    ("ninja", r"FAILED: (?:\[code=\d{1,12}\] )?\S"),
    ("ninja", r"ninja: build stopped: (?!interrupted)"),
    ("make", r"\S{0,200}make(?:\[\d{1,4}\])?(?:\.exe)?: \*\*\* (?!No rule to make target)"),
    ("cmake", r"-- Configuring incomplete, errors occurred"),
    ("linker", _TOOL + r"(?:ld returned|linker command failed)"),
    ("compiler", r"\S{1,300}: error: [\w+./-]{1,200}(?: \([\w -]{1,40}\))? command failed (?:with|due to)"),
    ("pip", r"error: (?:subprocess-exited-with-error|metadata-generation-failed|command ')"),
    ("pip", r"ERROR: (?:Failed building|Failed to build|Could not build wheels|Command errored|Exception:)"),
    ("python", r"(?:\w{1,80}\.){0,8}CalledProcessError: "),
    ("python", r"(?:Base)?Exception(?:Group)?: "),
)

#: Errors by themselves. The patterns are tried at the beginning of a line, without indentation.
_ERRORS: tuple[tuple[str, str], ...] = (
    ("memory", r"(?:[^\n]{0,200}: )?(?:fatal error|internal compiler error): Killed|Killed$"),
    ("memory", r"[^\n]{0,80}Out of memory: Killed process \d|Memory cgroup out of memory"),
    ("memory", r"[^\n]{0,300}(?:std::bad_alloc|unable to execute command: Killed|Cannot allocate memory)"),
    ("memory", r"[Kk]illed: signal terminated program|[^\n]{0,200}\b[Cc]an(?:['\u2019]t|not) allocate \d"),
    ("memory", r"LLVM ERROR: out of memory|[^\n]{0,200}line \d{1,7}: {1,4}\d{1,9} Killed"),
    ("disk", r"[^\n]{0,600}(?:No space left on device|Disk quota exceeded)"),
    ("compiler", r"(?:[A-Za-z]:)?[^\s:'\"][^:\n]{0,400}:\d{1,7}(?:[:.,]\d{1,6})?:\s{0,4}" + _ERROR),
    (
        "compiler",  # Microsoft's, and those made from EDG's front end (icc, nvcc).
        r"[^\n(]{1,300}\(\d{1,7}(?:,\d{1,6})?\)\s?: (?:\w{5,12} )?error(?:\s?:| #?[A-Z]{0,4}\d{1,6})",
    ),
    ("compiler", r"(?!-- )(?![^\n]{0,300}\bwarning\b)[^\n]{0,600}'[^'\n]{1,200}' file not found"),
    (
        "linker",
        r"[^\n]{0,600}(?:: undefined reference to|relocation truncated to fit|multiple definition of)",
    ),
    (
        "linker",
        _LD + r"(?:cannot find|final link failed|(?:fatal )?error:)",
    ),
    (
        "linker",
        _LD + r"[^\n]{1,400}: (?:error adding symbols|file not recognized)",
    ),
    ("linker", r"LINK : fatal error LNK\d|[^\n]{1,300}: (?:fatal )?error LNK\d"),
    ("ninja", r"ninja: (?:error|fatal): "),
    ("make", r"\S{0,200}make(?:\[\d{1,4}\])?: \*\*\* No rule to make target"),
    (
        "cmake",
        r"CMake Error" + _CMAKE,
    ),
    ("meson", r"\S{0,300}meson\.build:\d{1,7}:\d{1,6}: ERROR: "),
    (
        "ocloc",
        r"(?:ocloc|IGC)\b[^\n]{0,80}: (?:error|fatal|Internal Compiler Error)|Build failed with error code",
    ),
    ("ocloc", r"Could not determine (?:device target|target based)|Error: Cannot get HW Info"),
    ("loader", r"[^\n]{1,400}: (?:error while loading shared libraries|symbol lookup error): "),
    ("shell", r"(?:\S{1,300}: )?(?:line )?\d{0,7}(?:: )?\S{1,200}: (?:command not found|unbound variable)"),
    ("compiler", r"llvm-foreach: "),
    (
        "git",
        r"fatal: |error: " + _GIT,
    ),
    (
        "signal",
        r"[^\n]{0,200}(?:Segmentation fault|Bus error|Illegal instruction|Aborted) {0,40}\(core dumped\)",
    ),
    ("signal", r"(?:Segmentation fault|Bus error|Illegal instruction)$|LLVM ERROR: |Fatal Python error: "),
    ("signal", r"[^\n]{0,200}(?:terminate called after throwing|terminated (?:by|with) signal)"),
    ("pip", r"ERROR: "),
    (
        "python",
        r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Failure|Exit)(?:: |:?$)",
    ),
    ("tool", r"(?:[\w./+\\-]{1,300}:\s)?" + _ERROR + r"\s"),
    (
        "docker",
        r"Error response from daemon: |error during connect: |ApplyLayer exit status",
    ),
    ("docker", r"The command '[^\n]{1,2000}' returned a non-zero code|failed to solve: "),
    ("apt", r"(?:E|Err:\d{1,5}): ?\S|Err:\d{1,5} \S|W: GPG error: "),
    ("apt", r"[\w.:+-]{2,80} : (?:Pre)?Depends: |The following packages have unmet dependencies"),
    ("dpkg", r"dpkg(?:-deb)?: (?:error|dependency problems)"),
    ("zypper", r"(?:Problem|Error): nothing provides"),
    (
        "dnf",
        r"Error: (?:Transaction|Unable to find|Failed to down|GPG|Problem|$)| ?Problem(?: \d)?: |No match",
    ),
    (
        "conda",
        r"(?:Conda\w{0,20}|\w{0,40}Unsatisfiable|Unavailable\w{0,30}|PackagesNotFound)(?:Error|Channel): ",
    ),
    ("conda", r"Could not solve for environment specs|LibMambaUnsatisfiableError"),
    ("uv", r"No solution found when resolving|Failed to (?:build|download|fetch|prepare) `"),
    ("curl", r"curl: \(\d{1,3}\) |wget: |[^\n]{0,200}ERROR \d{3}: "),
    (
        "kernel",
        r"(?:kernel: )?(?:i915|xe) [\da-f:.]{7,16} ?:? [^\n]{0,80}(?:\*ERROR\*|failed|wedged|GPU HANG)",
    ),
    (
        "runtime",
        r"[^\n]{0,200}\b(?:ZE_RESULT|UR_RESULT|PI)_ERROR_(?!NONE)\w{3,60}|cl[A-Z]\w{3,40}\(-\d{1,5}\)",
    ),
    ("runtime", r"Segmentation fault from GPU|INTEL (?:ONE)?MKL (?:FATAL )?ERROR"),
    ("linker", r"[^\n]{0,300}: undefined symbol: \w"),
    ("disk", r"[^\n]{0,300}no space left on device"),
)

_CALLER = r"(?!-- )(?:[\w./+-]{1,80}: {1,3}){1,4}(?:line \d{1,6}: )?'?[^:\n]{0,200}(?:: )?"
_REASON = r"|No such file|[Pp]ermission denied|not found)\b"

#: Complaints of programs that have no form of their own for errors: shown where nothing else is an error.
_COMPLAINTS: tuple[tuple[str, str], ...] = (
    (
        "tool",
        _CALLER + r"(?:[Cc]annot|[Cc]an['\u2019]t|[Cc]ould not|[Uu]nable to|[Ff]ailed to" + _REASON,
    ),
    ("tool", r"(?:[\w./+-]{1,80}: )?(?:Error|ERROR|FATAL|Fatal|fatal error|FAILED)\b ?[:!-]|error \["),
    (
        "runtime",
        r"Abort was called at|Aborted$|[^\n]{0,80}\bassertion\b[^\n]{0,160}\bfailed",
    ),
    ("tool", r"(?:[Cc]ould not|[Cc]annot|[Uu]nable to|[Ff]ailed to) [a-z]"),
    ("signal", r"[^\n]{0,200}\bsegfault(?:s|ed)?\b"),
)

#: How the end of a run shows that is no error by itself; one of the words is in each.
_STOP_WORDS = (
    "traceback", "abort", "died", "assertion", "exit", "dumped", "killed", "terminat", "segfault",
)  # fmt: skip
_STOPS = re.compile(
    r"traceback \(most recent|\babort(?: was called|ed)\b|\bdied from signal|\bassertion\b.{0,160}\bfailed"
    r"|\bexit(?:ed)?(?: with)? ?(?:code|status)?[ :=]{1,3}-?[1-9]|\bcore dumped|\bkilled\b|\bbad termination"
    r"|\bterminated\b|\bsegfault\b"
)

#: Literals of which one is in every line that a pattern above can match.
LITERALS = (
    "error", "fail", "killed", "fatal", "no space left", "no rule", "undefined", "relocation ", "not ",
    "unbound variable", "segmentation", "core dumped", "terminate", "out of memory", "exception",
    "llvm-foreach: no such",
)  # fmt: skip

#: More such literals, of messages that stand at the end of a log or beside another error.
RARE_LITERALS = (
    "e: unable", "e: package", "e: the rep", "e: sub-p", "e: you", "err:", " depends: ", "unmet dependencies",
    "dependency problems", "problem:", "no match for", "nothing provides", "could not solve", "unavailable",
    "abort was called", "can\u2019t ", "can't ", "denied", "no such file", "aborted", "assertion",
    "no solution found", "curl: (", "wget: ", "wedged", "gpu hang", "applylayer", "clget",
    "segfault", "keyboardinterrupt", "systemexit", "problem 1: ", "traceback (most", "exit", "died from",
    "bad termination",
)  # fmt: skip


def _combined(rules: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}_{index}>{text})" for index, (kind, text) in enumerate(rules)))


_ERROR_RULES = _combined(_ERRORS)
_WRAPPER_RULES = _combined(_WRAPPERS)
_COMPLAINT_RULES = _combined(_COMPLAINTS)


@frozen
class FirstError:
    """The first error of the log: not a warning, and not the report of somebody else's error."""

    line: int
    """Counted from 1."""
    text: str
    """Without colours, timestamps and labels of CI systems."""
    kind: str
    """The tool that printed the line: compiler, linker, cmake, ninja, pip, git, python, memory, ..."""
    command: str | None
    """The command that ninja ran, where ninja reports the failure."""
    context: tuple[str, ...]
    """The lines round it, in order."""


class FirstErrorSearch:
    """Takes lines in order and keeps the first error, and the first report of somebody else's error."""

    def __init__(self) -> None:
        self._error: FirstError | None = None
        self._wrapper: FirstError | None = None
        self._complaint: FirstError | None = None
        self._command: str | None = None

    def consider(self, line: Line) -> bool:
        """Look at one line and return whether it is an error."""
        # Who quotes a message in a report writes it between backquotes.
        text = undrawn(line.text).removeprefix("`")
        if _HARMLESS.match(text) or PASSED.search(text):
            return False
        if self._error is not None:
            return _ERROR_RULES.match(text) is not None
        wrapper = _WRAPPER_RULES.match(text)
        if wrapper:
            self._wrapper = self._wrapper or _found(wrapper, line, text)
            if text.startswith("FAILED: "):
                self._command = _next_line(line)
            return True
        found = _ERROR_RULES.match(text)
        if found:
            self._error = _found(found, line, text, self._command if _near_failed(line) else None)
        elif (
            self._complaint is None
            and not line.text.startswith((" ", "\t"))
            and (weak := _COMPLAINT_RULES.match(text))
        ):
            self._complaint = _found(weak, line, text)
        return found is not None

    def stops(self, line: Line) -> bool:
        """Return whether a line that ``consider`` takes for no error shows that a run ended badly."""
        if PASSED.search(line.text):
            return False
        if any(map(line.low.__contains__, _STOP_WORDS)) and _STOPS.search(line.low):
            return not line.text.startswith("-- ")
        return self._error is not None and _WRAPPER_RULES.match(undrawn(line.text)) is not None

    def result(self) -> FirstError | None:
        """Return the first error; a complaint shortly before the report of a failed command is its reason."""
        weak, report = self._complaint, self._wrapper
        if weak and report and 0 < report.line - weak.line <= _REASON_BEFORE:
            return self._error or weak
        return self._error or self._wrapper or self._complaint


def is_certain(error: FirstError) -> bool:
    """Whether a tool reported it as an error, and not in words that can also be a remark."""
    return bool(_ERROR_RULES.match(error.text) or _WRAPPER_RULES.match(error.text))


def _found(match: re.Match[str], line: Line, text: str, command: str | None = None) -> FirstError:
    kind = (match.lastgroup or "").rpartition("_")[0]
    context = (*reversed(line.window.before(_BEFORE)), line.text, *line.window.after(_AFTER))
    if kind == _FAILED and text.startswith("FAILED: "):
        command = _next_line(line)
    return FirstError(line.number, text[:_TEXT], kind, command, tuple(item[:_TEXT] for item in context))


def _near_failed(line: Line) -> bool:
    """Whether ninja announced this output a few lines above, so that its command is the one that failed."""
    return any(undrawn(text).startswith("FAILED: ") for text in line.window.before(MAX_DISTANCE))


def _next_line(line: Line) -> str | None:
    """Return what follows a FAILED line of ninja: the command."""
    return next((text.strip()[:_TEXT] for text in line.window.after(1) if text.strip()), None)
