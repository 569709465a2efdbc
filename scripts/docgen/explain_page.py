"""docs/reference/explain.md, from the signatures and the results of explain for the excerpts of the tests."""

from __future__ import annotations

import io
import sys
from collections import Counter
from pathlib import Path

import yaml

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

Rules are of two sorts. A *kind* has the shape of a failure (a header that is not found, a symbol that no
library has, a server that refuses) and takes the names from the line, and from the lines round it where its
own has none (an address, a package, a script, an image); tables say what each name is and which
package of which distribution has it. What the tables written by hand do not know is looked up in two that
`scripts/make-entity-tables.py` makes, from the contents of Debian's packages and of Intel's wheels. A
*signature* is for one special failure, and is told instead of a kind on the same line if it is
likely. Names of distributions in the log (apt, dnf, .fc41) decide for which one the next command is; without
any, it is for this host.

If no rule is likely, explain says that the cause is not known and shows the first error with its context,
what kind of step failed, search terms and the command that writes a report for others. A *topic* may then
say what the error is about, by its words and the tool that printed it; its confidence is 0.3, never more.

Signatures are looked for in all of a log, kinds at its beginning, round errors and at its end.

`--here` says that the log is of this host: the checks of doctor that belong to the findings are run. What
they confirm is told with the evidence, what they refute loses most of its confidence. Without it a log is
never judged by this host.

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
_CALIBRATION = """
## Calibration

How often the first finding is of a family that is right for the thread, by its confidence, on the {count}
excerpts that the kinds were written from (`tests/data/explain/kinds.yaml`).

What counts is how failures fare that no rule was written from. Each set was gathered from public threads by
people who write no rules, and scored once, with `scripts/score-explain.py`. Likely and wrong: the first
finding is of a wrong family at 0.5 or more. Helpful: a command or fix has one of the strings that were noted
for the thread when it was gathered.

| scored at | threads | right first | likely and wrong | nothing found | helpful |
| --- | ---: | ---: | ---: | ---: | ---: |
| 20e7c4e | 65 | 55 (85 %) | 3 (5 %) | 6 | 29 of 59 (49 %) |
| 6757546 | 46 | 41 (89 %) | 1 (2 %) | | 23 of 42 (55 %) |
| 9b46876 | 64 | 47 (73 %) | 9 (14 %) | 6 | 42 (66 %) |
| 12029c4 (2026-11-23) | 64 | 49 (77 %) | 5 (8 %) | 9 | 44 (69 %) |
| de17ff0 (2026-11-23) | 60 | 43 (72 %) | 11 (18 %) | 4 | 40 (67 %) |

The first two sets were easier: the third was right for 48 at the commit before the first. Between the sets,
what was missed was learnt from; it carries little to the next set. The labels are not what limits the score:
somebody who saw the third set's texts and causes, and no label, chose the same family for 62 of the 64.
Comparing words with those of 670 labelled excerpts (TF-IDF, 20 nearest) is right for 46 of the third set, and
for 48 together with the rules: no gain that would be worth its size. What the fourth set missed
most: messages without the word error, headers that only some releases of oneAPI have, and advice about
kernels and firmware.

A good part of the last set is about the surroundings of a build: containers, Slurm, pip, CUDA, git. Its
likely and wrong findings took a follow-up error for the cause, read a name from a line of another program, or
did not look at whose file or which platform it was. Of its findings with 0.9 and more, 26 of 27 are right.

The 188 of the last three sets by confidence:

{unseen}

The same excerpts that the kinds were written from:
"""
#: (confidence, findings, right) on the 188 threads of the last three sets, as they were scored.
_UNSEEN = (
    ("0.9 to 1.0", 81, 78),
    ("0.8 to 0.9", 40, 31),
    ("0.7 to 0.8", 24, 17),
    ("0.5 to 0.7", 14, 8),
    ("0.0 to 0.5", 10, 5),
)
_BANDS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.0)


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
    known = [(md.code(entry.id), entry.family.partition("-")[0], entry.title) for entry in _sorted()]
    return (
        md.head("explain", "xpubuild/explain/signatures and tests/data/explain")
        + about
        + "\n"
        + md.table(header, [*rows, summary])
        + _calibration()
        + "\n## Kinds and signatures\n\nThe family is shown by the first letters of its name.\n\n"
        + md.table(("signature", "family", "problem"), known)
    )


def _calibration() -> str:
    entries = yaml.safe_load((_TESTS / "data" / "explain" / "kinds.yaml").read_text("utf-8"))
    told: list[tuple[float, bool]] = []
    for entry in entries:
        found = explain_stream(io.BytesIO(entry["text"].encode())).findings
        if found:
            told.append((found[0].confidence, found[0].family in entry["families"]))
    rows, top = [], 1.1
    for least in _BANDS:
        right = [good for confidence, good in told if least <= confidence < top]
        rows.append((f"{least} to {min(top, 1.0)}", str(len(right)), _share(sum(right), len(right))))
        top = least
    rows.append(("no finding", str(len(entries) - len(told)), "-"))
    header = ("confidence", "excerpts", "right")
    unseen = md.table(header, [(band, str(count), _share(good, count)) for band, count, good in _UNSEEN])
    about = _CALIBRATION.format(count=len(entries), unseen=unseen)
    return f"{about}\n{md.table(header, rows)}\n{_by_family(entries)}"


def _by_family(entries: list[dict[str, md.Any]]) -> str:
    """Return recall and precision of the kinds by the family that is best for each excerpt."""
    total, named, right = Counter[str](), Counter[str](), Counter[str]()
    for entry in entries:
        found = explain_stream(io.BytesIO(entry["text"].encode())).findings
        told = found[0].family if found else ""
        family = told if told in entry["families"] else entry["families"][0]
        total[family] += 1
        named[told] += 1
        right[family] += told == family
    rows = [
        (name, str(total[name]), _share(right[name], total[name]), _share(right[name], named[name]))
        for name in sorted(total)
    ]
    return "\n" + md.table(("family", "excerpts", "recall", "precision"), rows)


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
