"""docs/reference/explain.md, from the signatures and from what explain says of the excerpts of the tests."""

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
the likely causes, best first. `--json` prints an [xpubuild.explain/1](documents.md#xpubuildexplain1)
document, `--list` the signatures. The exit status is 0 also where nothing was found; a log that cannot be
read ends with 2.

`--doctor FILE` takes the report of doctor from the same host: where one text has several causes, its checks
decide.

The confidence is between 0 and 1. A signature states how often its text has had its cause; a finding near
the first error gains a little, and doctor's checks raise or lower it. 0.8 and more is shown as high, 0.5
and more as medium.

## How good it is

Each excerpt of a real failure (`tests/data/explain/teaching.yaml`) stands amid {lines} lines that pip,
CMake, ninja and compilers print although all is well; then come {variants} lines like them with other
versions, paths and words (`variants.yaml`). A family is found where the first finding has it: recall is the
share of its excerpts for which this holds, precision the share of the logs it was named first for that are
its own. {calm} logs without a failure are among the logs. `make docs` measures anew;
`tests/unit/test_explain_teaching.py` holds the shares. The signatures were written from these very
excerpts, so the table shows that nothing was lost, not how often a new failure is known.
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
        + "\n## What it knows\n\nThe letter is the first of the family's name.\n\n"
        + md.table(("signature", "family", "what it is"), known)
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
