"""docs/reference/explain.md, from the signatures and the results of explain for the excerpts of the tests."""

from __future__ import annotations

import io
import sys
from collections import Counter
from pathlib import Path

from docgen import markdown as md
from xpubuild.explain.document import explain_stream
from xpubuild.explain.load import shipped_rules

_TESTS = Path(__file__).resolve().parent.parent.parent / "tests"
_BEFORE, _AFTER, _CALM = 600, 200, 20
_ABOUT = """
`xpubuild explain LOG` (`-` for standard input) reads a build or run log once and prints the first error and
the likely causes, most likely first. `--json` prints an [xpubuild.explain/1](documents.md#xpubuildexplain1)
document, `--list` the signatures. The exit code is 0 even if no cause was found; it is 2 if the log cannot be
read.

`--doctor FILE` reads the report of `xpubuild doctor` from the same host. If an error message has several
possible causes, the report decides.

The confidence is between 0 and 1. A signature states the share of known cases in which its text had this
cause; a finding near the first error gains a little, and the checks of doctor raise or lower it.
0.8 and more is shown as high, 0.5 and more as medium.

## Accuracy

Each excerpt of a real failure (`tests/data/explain/teaching.yaml`) is embedded in {lines} lines of normal
output of pip, CMake, ninja and compilers, and so are {variants} variants of them with other versions, paths
and words (`variants.yaml`). A family is found if the first finding belongs to it: recall is the share of a
family's excerpts for which this is so, precision the share of correct results among the logs for which the
family was found first. {calm} of the logs have no failure. `make docs` measures again;
`tests/unit/test_explain_teaching.py` enforces the results. The signatures were written from these very
excerpts, so the table shows that no known failure is missed, not how often a new failure is recognised.
"""


def page() -> str:
    """Return the page."""
    sys.path.insert(0, str(_TESTS))
    from support.explain_logs import embed, ordinary, samples, variants  # noqa: PLC0415

    rules = shipped_rules()
    cases = [
        (sample.family, sample.id, embed(sample.lines, before=_BEFORE, after=_AFTER)) for sample in samples()
    ]
    others = variants()
    cases += [
        (rules.by_id(name).family, name, embed([text], before=_BEFORE, after=_AFTER)) for name, text in others
    ]
    cases += [("", "", "\n".join(ordinary(_BEFORE, seed)).encode()) for seed in range(_CALM)]
    rows, summary = _measured(cases)
    about = _ABOUT.format(lines=_BEFORE + _AFTER, variants=len(others), calm=_CALM)
    header = ("family", "excerpts", "recall", "precision", "right signature first")
    known = [(md.code(entry.id), entry.family[0], entry.title) for entry in _sorted()]
    return (
        md.head("explain", "xpubuild/explain/signatures and tests/data/explain")
        + about
        + "\n"
        + md.table(header, [*rows, summary])
        + "\n## Signatures\n\nThe family is shown by the first letter of its name.\n\n"
        + md.table(("signature", "family", "problem"), known)
    )


def _sorted() -> list[md.Any]:
    return sorted(shipped_rules().signatures, key=lambda entry: (entry.family, entry.id))


def _measured(cases: list[tuple[str, str, bytes]]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    total, named, right, exact = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for family, name, data in cases:
        found = explain_stream(io.BytesIO(data)).findings
        told = found[0].family if found else ""
        total[family] += 1
        named[told] += 1
        right[family] += told == family
        exact[family] += bool(found) and found[0].id == name
    families = sorted(name for name in total if name)
    rows = [
        (name, str(total[name]), _share(right[name], total[name]), _share(right[name], named[name]),
         _share(exact[name], total[name]))
        for name in families
    ]  # fmt: skip
    count, good = sum(total[name] for name in families), sum(right[name] for name in families)
    stated = sum(named[name] for name in named if name)
    summary = (
        "all", str(count), _share(good, count), _share(good, stated),
        _share(sum(exact[name] for name in families), count),
    )  # fmt: skip
    return rows, summary


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"
