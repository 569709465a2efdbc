"""Every error a user can meet: one hierarchy, one exit code per class.

The exit codes are a contract (docs/reference/exit-codes.md). An error says what happened, why, which command
to run next and where the log is. Any other exception that reaches ``main`` is a bug and exits with code 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

#: The attributes of an error that documents have, in their order.
_IN_JSON = ("code", "exit_code", "what", "why", "fix", "commands", "log", "evidence", "explanation")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return '; did you mean 'x'?' where one of the known words is near, else nothing."""
    import difflib  # noqa: PLC0415 - only a mistake needs it

    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean '{near[0]}'?" if near else ""


class XpuBuildError(Exception):
    """Base of all errors that are shown to the user instead of a traceback."""

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "internal"

    def __init_subclass__(cls, *, exit_code: int, code: str) -> None:
        cls.exit_code, cls.code = exit_code, code

    def __init__(
        self, what: str, *, why: str = "", fix: str = "", commands: Sequence[str] = (),
        log: Path | None = None, evidence: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(what)
        self.what, self.why, self.fix, self.commands = what, why, fix, tuple(commands)
        self.log = log
        self.evidence = dict(evidence or {})
        #: What ``--json`` prints instead of the error document: a report that holds the failure in detail.
        self.document: Mapping[str, Any] | None = None
        #: What the log of the failed command says about it: an ``xpubuild.explain/1`` document.
        self.explanation: Mapping[str, Any] | None = None
        #: Of a failed proof: makes room, so that the commands of its step make again what is damaged.
        self.mend: Callable[[], None] | None = None

    def reasons(self) -> dict[str, str]:
        """Return ``why`` and ``fix``, as far as they are known."""
        return {name: text for name, text in (("why", self.why), ("fix", self.fix)) if text}

    def likely_cause(self) -> str:
        """Return the best finding of the explanation in one sentence, "" if there is none."""
        findings = (self.explanation or {}).get("findings") or ()
        return f"{findings[0]['title']}; run: {findings[0]['next_command']}" if findings else ""

    def to_json(self) -> dict[str, Any]:
        """Return the error as the ``error`` object of every JSON document."""
        found = {name: getattr(self, name) for name in _IN_JSON}
        return {**found, "commands": list(self.commands), "log": str(self.log) if self.log else None}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> XpuBuildError:
        """Recreate an error that a child xpubuild wrote; an unknown code becomes the base class."""
        kind = _BY_CODE.get(str(document.get("code")), XpuBuildError)
        log = document.get("log")
        error = kind(
            str(document.get("what", "unknown error")),
            why=str(document.get("why", "")),
            fix=str(document.get("fix", "")),
            commands=[str(item) for item in document.get("commands", ())],
            log=Path(log) if log else None,
            evidence=document.get("evidence") or {},
        )
        error.explanation = document.get("explanation")
        return error


class UsageError(XpuBuildError, exit_code=2, code="usage"):
    """The command line is wrong."""


class UnfitHostError(XpuBuildError, exit_code=10, code="doctor"):
    """Doctor found a failure; its report says which."""


class RecipeError(XpuBuildError, exit_code=20, code="recipe-invalid"):
    """A recipe, lock or configuration cannot be read or breaks its schema."""


class LockMismatchError(XpuBuildError, exit_code=21, code="lock-mismatch"):
    """The lock does not match what would be built."""


class UnsatisfiableError(XpuBuildError, exit_code=22, code="unsatisfiable"):
    """The request conflicts with the recipe or with this host; usually rejected before any work."""


class FetchError(XpuBuildError, exit_code=30, code="fetch"):
    """A source could not be fetched."""


class SourceIntegrityError(XpuBuildError, exit_code=31, code="source-integrity"):
    """A source does not match its pin, or has local changes that must not be overwritten."""


class ToolchainError(XpuBuildError, exit_code=40, code="toolchain"):
    """The environment (oneAPI, Python, compilers) or a file cannot be made, read or used."""


class BuildError(XpuBuildError, exit_code=50, code="build"):
    """A build step failed."""


class OutOfMemoryError(XpuBuildError, exit_code=51, code="out-of-memory"):
    """A build step ran out of memory."""


class NoSpaceError(XpuBuildError, exit_code=52, code="no-space"):
    """The disk or its quota is full."""


class NoXpuError(XpuBuildError, exit_code=53, code="no-xpu"):
    """The build is for XPU but would continue without XPU support."""


class AuditError(XpuBuildError, exit_code=60, code="audit"):
    """A wheel or installed package is not what was requested, or was replaced: ABI, linkage, RECORD."""


class VerifyError(XpuBuildError, exit_code=70, code="verify"):
    """Verification found a failure."""


class WorkspaceBusyError(XpuBuildError, exit_code=75, code="workspace-busy"):
    """Another process uses the workspace."""


class MigrateError(XpuBuildError, exit_code=80, code="migrate"):
    """Places are left that migrate does not rewrite; with --check also changes that are not written."""


class InterruptedByUserError(XpuBuildError, exit_code=130, code="interrupted"):
    """Ctrl-C, SIGTERM or SIGHUP."""


_KINDS: list[type[XpuBuildError]] = [XpuBuildError, *XpuBuildError.__subclasses__()]
_BY_CODE = {kind.code: kind for kind in _KINDS}
EXIT_CODES = {kind.exit_code: kind for kind in _KINDS}
