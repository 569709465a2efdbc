"""The first line of the output: what this host can do, or the first reason why not."""

from __future__ import annotations

from xpubuild.doctor.context import Profile
from xpubuild.doctor.report import Report, Result

#: On an unsupported platform nothing works, with or without a GPU.
PLATFORM = "machine.platform"
#: Its detail is used as the verdict: no other result matters on a machine without a GPU.
NO_GPU = "gpu.present"


def verdict(report: Report) -> str:
    """Return the verdict as one line."""
    line = _verdict(report)
    # An address or the id of a check keeps its spelling.
    plain = line.partition(" ")[0].rstrip(":;,").isalpha()
    return line[:1].upper() + line[1:] if plain else line


def _verdict(report: Report) -> str:
    if not report.whole:
        return _of_a_part(report)
    blocking = {profile: _first(report, profile) for profile in report.profiles}
    first = next((item for item in report.bad if item.id in (PLATFORM, NO_GPU)), None)
    if first is not None and first.id == NO_GPU:
        line = _sentence(first.detail)
        can_build = "build" in blocking and blocking["build"] is None and _lacking(report) is None
        return f"{line}. {_here(report)} can {_deed(report, 'build', alone=True)}" if can_build else line
    return _whole(report, blocking)


def able(report: Report) -> dict[Profile, bool | None]:
    """Return profile -> whether no check failed for it; None if not all of its checks were run."""
    answers: dict[Profile, bool | None] = {"run": None, "build": None}
    for profile in report.profiles if report.whole else ():
        answers[profile] = _first(report, profile) is None
    if answers["build"] and _lacking(report) is not None:
        answers["build"] = None
    return answers


def _whole(report: Report, blocking: dict[Profile, Result | None]) -> str:
    lacking = None if blocking.get("build") else _lacking(report)
    can = [
        _deed(report, profile)
        for profile, result in blocking.items()
        if result is None and not (profile == "build" and lacking)
    ]
    cannot = [_deed(report, profile) for profile, result in blocking.items() if result is not None]
    first = next((result for result in blocking.values() if result is not None), None)
    parts = [f"can {' and '.join(can)}"] if can else []
    if first is not None:
        verb = "cannot" if first.status == "fail" else "may not be able to"
        parts.append(f"{verb} {' or '.join(cannot)}: {_reason(first)}")
    elif lacking is not None:
        parts.append(
            f"does not meet the requirements to {_deed(report, 'build')}: {_sentence(lacking.detail)}"
        )
    return f"{_here(report)} {'; it '.join(parts)}{'' if first or lacking else _reserve(report)}"


def _lacking(report: Report) -> Result | None:
    """Return a warning that would be a failure if only a build was requested.

    With a recipe, or with ``--profile build`` alone, it would be a failure.
    """
    if report.context.recipe is not None or report.context.to_build:
        return None
    return next(
        (
            item
            for item in report.results
            if item.status == "warn" and item.severity == "fail" and item.profiles == ("build",)
        ),
        None,
    )


def _here(report: Report) -> str:
    return "This host" if report.context.live else "This image"


def _of_a_part(report: Report) -> str:
    if report.bad:
        return _reason(report.bad[0])
    counts = report.counts()
    if counts["warn"]:
        first = next(item for item in report.results if item.status == "warn")
        more = f" and {counts['warn'] - 1} more" if counts["warn"] > 1 else ""
        rest = f"; {_checks(counts['ok'])} passed" if counts["ok"] else ""
        return f"warning of {first.id}{more}: {_sentence(first.detail)}{rest}"
    if counts["ok"]:
        return f"{_checks(counts['ok'])} passed{_reserve(report)}"
    why = f": {_sentence(report.results[0].detail)}" if len(report.results) == 1 else ""
    return f"{_checks(counts['skip'])} skipped{why}"


def _checks(count: int) -> str:
    return f"{count} check{'s' if count != 1 else ''}"


def _reserve(report: Report) -> str:
    warnings = report.counts()["warn"]
    told = f", with {warnings} warning{'s' if warnings > 1 else ''}" if warnings else ""
    return told if report.context.live else f", according to its files{told}"


def _deed(report: Report, profile: Profile, *, alone: bool = False) -> str:
    recipe = report.context.recipe
    if profile == "run":
        for_cpu = recipe is not None and recipe.recipe.target != "xpu"
        return f"run {recipe.recipe.name}" if recipe is not None and for_cpu else "run PyTorch for XPU"
    if recipe is not None:
        return f"build {recipe.recipe.name}"
    return "build it" if "run" in report.profiles and not alone else "build PyTorch for XPU"


def _first(report: Report, profile: Profile | None) -> Result | None:
    """Return the first failure that concerns a profile (None: any), in the order of the groups."""
    return next((item for item in report.bad if profile is None or profile in item.profiles), None)


def _reason(result: Result) -> str:
    words = _sentence(result.detail)
    return words if result.status == "fail" else f"{result.id} could not complete: {words}"


def _sentence(text: str) -> str:
    """Return a detail as one line without the full stop at its end."""
    return " ".join(text.split()).rstrip(".")
