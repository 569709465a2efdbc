"""The compatibility matrix for one host: the verdict first, then its reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xpubuild.ui.parts import Facts, Part, Sentences, Table, TableBuilder

Row = Mapping[str, Any]
_LABELS = {
    "gpu": "GPU",
    "gpu_targets": "its AOT targets",
    "oneapi": "oneAPI",
    "python": "Python",
    "gcc": "GCC",
    "host_compiler": "host compiler",
    "cmake": "CMake",
    "cxx11_abi": "C++ ABI",
    "arch": "AOT targets",
}
_GENERAL = "For the requirements of every release, run `xpubuild recipes matrix` without options."


def answer_view(situation: Mapping[str, Any], rows: Sequence[Row]) -> tuple[Part, ...]:
    """Return the verdict in one line, the situation, the releases with their reasons, and where more is."""
    answer = [verdict(rows)]
    if situation["target"] != "cpu" and rows and all(_lacks_oneapi(row) for row in rows):
        answer.append("for the CPU, no oneAPI is needed: add --target cpu")
    return (Sentences(tuple(answer)), asked_about(situation), verdicts(rows), Sentences((_GENERAL,)))


def _lacks_oneapi(row: Row) -> bool:
    against = _reasons(row, "no", "constraint")
    return row["verdict"]["builds"] == "no" and "oneapi" in against


def verdict(rows: Sequence[Row]) -> str:
    """Return the answer in one sentence; ``rows`` begin with the newest release, branches come last."""
    builds = [row for row in rows if row["verdict"]["builds"] == "yes"]
    perhaps = [row for row in rows if row["verdict"]["builds"] == "unknown"]
    if builds:
        return _newest(builds, rows)
    if perhaps:
        open_ = _shared([_reasons(row, "unknown", "constraint") for row in perhaps])
        return (
            f"no release is known to build here; {_count(perhaps)} may, the newest is {perhaps[0]['release']}"
            + (f"; unknown: {', '.join(_LABELS.get(name, name) for name in open_)}" if open_ else "")
        )
    if not rows:
        return "no release: none of the recipes describes one"
    why = _shared([_reasons(row, "no", "found") for row in rows])
    return f"no release builds here: {'; '.join(why) or 'the table has the reason for each release'}"


def _newest(builds: Sequence[Row], rows: Sequence[Row]) -> str:
    """Return the newest release that builds, whether it runs here, and which one does if it does not."""
    # As plan does without a recipe: what has no commit is built where it is asked for by name.
    first = next((row for row in builds if row.get("pinned", True)), builds[0])
    texts = [f"newest that builds here: {first['release']}"]
    newer = builds[: builds.index(first)]
    if newer:
        texts[0] += f" ({_open(newer)})"
    runs = first["verdict"]["runs"]
    if runs == "yes":
        texts.append("it runs here too")
    elif runs == "unknown":
        texts.append("it is unknown whether it runs here")
    else:
        other = next((row["release"] for row in builds if row["verdict"]["runs"] == "yes"), None)
        texts.append("it does not run here" + (f"; newest that builds and runs: {other}" if other else ""))
    lost = [item["feature"] for item in first["verdict"]["loses"] if item["certain"]]
    texts += [f"it lacks {', '.join(lost)}"] if lost else []
    texts += _newer_that_runs(rows, first)
    return "; ".join((*texts, f"{len(builds)} of {len(rows)} releases build"))


def _open(rows: Sequence[Row]) -> str:
    """Return what is said of releases that build and are newer than the one that plan takes."""
    names = ", ".join(row["release"] for row in rows)
    one = len(rows) == 1
    return (
        f"and {names}, whose {'commit is' if one else 'commits are'} not in the recipe: "
        f"'xpubuild install {rows[0]['recipe']}' looks it up"
    )


def _newer_that_runs(rows: Sequence[Row], first: Row) -> list[str]:
    """Return the newest release that this driver runs although this oneAPI does not build it."""
    for row in rows[: rows.index(first)]:
        verdict = row["verdict"]
        if verdict["runs"] == "yes" and _reasons(row, "no", "constraint") == ["oneapi"]:
            told = "with patches alone" if verdict["toolkit"] else "not"
            return [f"the driver runs {row['release']} too, which this oneAPI builds {told}"]
    return []


def _count(rows: Sequence[Row]) -> str:
    return "1 release" if len(rows) == 1 else f"{len(rows)} releases"


def _reasons(row: Row, answer: str, field: str) -> list[str]:
    """Return ``field`` of each reason that leaves the build of a release at ``answer``."""
    reasons = row["verdict"]["reasons"]
    return [item[field] for item in reasons if (item["concern"], item["answer"]) == ("builds", answer)]


def _shared(texts: Sequence[Sequence[str]]) -> list[str]:
    """Return what is the same for every release."""
    return [text for text in dict.fromkeys(texts[0]) if all(text in others for others in texts)]


def verdicts(rows: Sequence[Row]) -> Table:
    """Return what the solver says of each release in the situation."""
    table = TableBuilder(["release", "builds", "runs", "with oneAPI", "reasons and missing features"])
    for row in rows:
        verdict = row["verdict"]
        table.add(row["release"], verdict["builds"], verdict["runs"], _oneapi(verdict), _why(row))
    return table.build("Here")


def _oneapi(verdict: Mapping[str, Any]) -> str:
    """Return the oneAPI and how upstream stands to it; a dash where none would be used."""
    told = verdict["toolkit"]
    return f"{verdict['oneapi']}: {told['text']}" if told else verdict["oneapi"] or "-"


def _reason(item: Mapping[str, str]) -> str:
    if item["wanted"]:
        return f"needs {item['wanted']}; {item['found']}"
    return item["found"] if item["answer"] == "no" else f"possibly: {item['found']}"


def _why(row: Row) -> str:
    verdict = row["verdict"]
    reasons = [item for item in verdict["reasons"] if item["concern"] != "note"]
    against = [item for item in reasons if item["answer"] == "no"] or reasons
    texts = [_reason(item) for item in against]
    if verdict["builds"] != "no" and not row.get("pinned", True):
        texts.insert(0, "the commit is looked up upstream")
    texts += [
        f"{'lacks' if item['certain'] else 'may lack'} {item['feature']}"
        + (f" ({item['because']})" if item["because"] else "")
        for item in verdict["loses"]
        if verdict["builds"] != "no"
    ]
    texts += [item["found"] for item in verdict["reasons"] if item["concern"] == "note"]
    texts += [f"known patches: {'; '.join(verdict['toolkit']['patches'])}"] if _patched(verdict) else []
    return ". ".join(dict.fromkeys(texts))


def _patched(verdict: Mapping[str, Any]) -> bool:
    return verdict["toolkit"] is not None and bool(verdict["toolkit"]["patches"])


def asked_about(situation: Mapping[str, Any]) -> Facts:
    """Return the situation that the verdicts are about."""
    items = []
    for name, value in situation.items():
        if name == "versions":
            items += [(part, str(version)) for part, version in value.items()]
        elif value not in (None, [], ""):
            text = ", ".join(value) if isinstance(value, list) else str(value)
            items.append((_LABELS.get(name, name), text))
        elif value == [] and name in ("oneapi", "python"):
            items.append((_LABELS[name], "none"))
    return Facts(tuple(items), "Host")
