"""The report of a run: overall status, the verdict in one line, the JSON documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from typing_extensions import TypedDict

from xpubuild import __version__
from xpubuild.doctor.kit import Check, Look, Profile, plural
from xpubuild.doctor.registry import Selection, families_of
from xpubuild.doctor.runner import STATUSES, Result, Status, plain_json
from xpubuild.documents import plain
from xpubuild.frozen import frozen
from xpubuild.machine.host_report import HostReport


class DoctorCounts(TypedDict):
    """How many checks ended in each status."""

    fail: int
    error: int
    warn: int
    ok: int
    skip: int


class Able(TypedDict):
    """True if no check failed; null if not all of its checks ran."""

    run: bool | None
    build: bool | None


class DoctorDocument(TypedDict):
    """What doctor found."""

    schema: Literal["xpubuild.doctor/1"]
    """Name and version."""
    status: Literal["ok", "warn", "fail"]
    """`fail`: a check failed or could not complete (exit code 10)."""
    verdict: str
    """The first line of the text output."""
    able: Able
    xpubuild: str
    """Version of xpubuild."""
    profiles: list[Literal["build", "run"]]
    """What was asked about."""
    recipe: str | None
    root: str
    """What was looked at: / is the running machine."""
    python: str | None
    """The interpreter whose torch was looked at."""
    summary: DoctorCounts
    host: HostReport
    checks: list[Result]


class ListedDoctorCheck(TypedDict):
    """A check that doctor can run."""

    id: str
    title: str
    group: str
    severity: Literal["warn", "fail"]
    profiles: list[Literal["build", "run"]]
    needs: list[str]
    """Checks that must end ok or warn before this one says anything."""
    families: list[str]
    """Families of failures that the check foresees."""
    live: bool
    """Whether only the running machine can answer."""
    recipe: bool
    """Whether it asks about a recipe."""
    deadline_s: float
    docs: str | None
    explanation: str
    """What is looked at, why it matters, how to mend it (Markdown)."""


class DoctorChecksDocument(TypedDict):
    """The checks of xpubuild and of plug-ins, in the order they are shown."""

    schema: Literal["xpubuild.doctor-checks/1"]
    """Name and version."""
    checks: list[ListedDoctorCheck]


@frozen
class Report:
    """The results that are shown, and the look and profiles of the run."""

    look: Look
    results: tuple[Result, ...]
    profiles: tuple[Profile, ...]
    whole: bool

    @property
    def bad(self) -> tuple[Result, ...]:
        """The results that make the exit code 10, failures before errors."""
        found = (item for item in self.results if item.bad)
        return tuple(sorted(found, key=lambda item: item.status != "fail"))

    @property
    def status(self) -> Literal["ok", "warn", "fail"]:
        """The worst of all results."""
        return "fail" if self.bad else "warn" if self.counts()["warn"] else "ok"

    def counts(self) -> dict[Status, int]:
        """Return status -> number of results."""
        return {status: sum(item.status == status for item in self.results) for status in STATUSES}

    def first(self, profile: Profile) -> Result | None:
        """Return the first failure that concerns a profile, in the order of the groups."""
        return next((item for item in self.bad if profile in item.profiles), None)

    def able(self) -> dict[Profile, bool | None]:
        """Return profile -> whether no check failed for it; None if not all of its checks were run."""
        able: dict[Profile, bool | None] = {"run": None, "build": None}
        for profile in self.profiles if self.whole else ():
            able[profile] = self.first(profile) is None
        if able["build"] and self.lacking() is not None:
            able["build"] = None
        return able

    def lacking(self) -> Result | None:
        """Return a warning that would be a failure if a recipe, or only a build, had been asked for."""
        if self.look.recipe is not None or self.look.to_build:
            return None
        warned = (item for item in self.results if item.status == "warn" and item.severity == "fail")
        return next((item for item in warned if item.profiles == ("build",)), None)


def make_report(
    look: Look,
    selection: Selection,
    results: tuple[Result, ...],
    profiles: tuple[Profile, ...],
    redact: Callable[[str], str],
) -> Report:
    """Return the report of the selected checks, without secrets.

    If a selected check could not run because of one that was not selected, that one is shown too: otherwise
    the exit code would be 0 and the cause unknown.
    """
    causes = {item.blocked_by for item in results if item.id in selection.shown}
    shown = selection.shown | {item.id for item in results if item.id in causes and item.bad}
    chosen = tuple(item.clean(redact) for item in results if item.id in shown)
    return Report(look, chosen, profiles, selection.whole)


def doctor_document(report: Report, redact: Callable[[str], str] = str) -> dict[str, Any]:
    """Return a run as ``xpubuild.doctor/1``; ``redact`` is applied to every text about the host."""
    look = report.look
    return {
        "schema": "xpubuild.doctor/1",
        "status": report.status,
        "verdict": verdict(report),
        "able": report.able(),
        "xpubuild": __version__,
        "profiles": list(report.profiles),
        "recipe": look.wanted.name if look.wanted else None,
        "root": str(look.root),
        "python": redact(str(look.python)) if look.python else None,
        "summary": report.counts(),
        "host": plain_json(look.host.to_json(), redact),
        "checks": plain(report.results),
    }


def checks_document(checks: Sequence[Check]) -> dict[str, Any]:
    """Return the checks as ``xpubuild.doctor-checks/1``."""

    names = ("id", "title", "group", "severity", "live", "recipe", "deadline_s", "explanation")  # fmt: skip
    listed = [
        {
            **{name: getattr(check, name) for name in names},
            "profiles": sorted(check.profiles),
            "needs": list(check.needs),
            "families": families_of(check.id),
            "docs": check.page,
        }
        for check in checks
    ]
    return {"schema": "xpubuild.doctor-checks/1", "checks": listed}


def verdict(report: Report) -> str:
    """Return the first line of the output: what this host can do, or the first reason why not."""
    line = _of_all(report) if report.whole else _of_a_part(report)
    # An address or the id of a check keeps its spelling.
    plain_word = line.partition(" ")[0].rstrip(":;,").isalpha()
    return line[:1].upper() + line[1:] if plain_word else line


def _of_all(report: Report) -> str:
    here = "This host" if report.look.live else "This image"
    able, lacking = report.able(), report.lacking()
    can = [_deed(report, profile) for profile in report.profiles if able[profile]]
    cannot = [_deed(report, profile) for profile in report.profiles if able[profile] is False]
    first = next((item for profile in report.profiles if (item := report.first(profile))), None)
    fatal = next((item for item in report.bad if item.id in ("machine.platform", "gpu.present")), None)
    # No other result matters on a machine without a GPU, but that it can build; on an unsupported platform
    # nothing works, with or without one.
    if fatal is not None and fatal.id == "gpu.present":
        deed = _deed(report, "build") if report.look.recipe else "build PyTorch for XPU"
        return _sentence(fatal.detail) + (f". {here} can {deed}" if able["build"] else "")
    parts = [f"can {' and '.join(can)}"] if can else []
    if first is not None:
        verb = "cannot" if first.status == "fail" else "may not be able to"
        parts.append(f"{verb} {' or '.join(cannot)}: {_reason(first)}")
    elif lacking is not None and "build" in report.profiles:
        deed = _deed(report, "build")
        parts.append(f"does not meet the requirements to {deed}: {_sentence(lacking.detail)}")
    return f"{here} {'; it '.join(parts)}{'' if len(can) < len(report.profiles) else _reserve(report)}"


def _of_a_part(report: Report) -> str:
    counts = report.counts()
    if report.bad:
        return _reason(report.bad[0])
    if counts["warn"]:
        first = next(item for item in report.results if item.status == "warn")
        more = f" and {counts['warn'] - 1} more" if counts["warn"] > 1 else ""
        rest = f"; {plural(counts['ok'], 'check')} passed" if counts["ok"] else ""
        return f"warning of {first.id}{more}: {_sentence(first.detail)}{rest}"
    if counts["ok"]:
        return f"{plural(counts['ok'], 'check')} passed{_reserve(report)}"
    why = f": {_sentence(report.results[0].detail)}" if len(report.results) == 1 else ""
    return f"{plural(counts['skip'], 'check')} skipped{why}"


def _reserve(report: Report) -> str:
    warnings = report.counts()["warn"]
    reported = f", with {plural(warnings, 'warning')}" if warnings else ""
    return reported if report.look.live else f", according to its files{reported}"


def _deed(report: Report, profile: Profile) -> str:
    recipe = report.look.wanted
    if profile == "run":
        return f"run {recipe.name}" if recipe and recipe.target != "xpu" else "run PyTorch for XPU"
    if recipe is not None:
        return f"build {recipe.name}"
    return "build it" if "run" in report.profiles else "build PyTorch for XPU"


def _reason(result: Result) -> str:
    words = _sentence(result.detail)
    return words if result.status == "fail" else f"{result.id} could not complete: {words}"


def _sentence(text: str) -> str:
    """Return a detail as one line without the full stop at its end."""
    return " ".join(text.split()).rstrip(".")
