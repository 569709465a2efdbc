"""docs/reference/explain.md, from the signatures and the results of explain for the excerpts of the tests."""

from __future__ import annotations

import io
import sys
from collections import Counter
from pathlib import Path

from docgen import calibration
from docgen import markdown as md
from xpubuild.explain.document import explain_stream
from xpubuild.explain.estimate import LIKELY, told
from xpubuild.explain.load import shipped_rules
from xpubuild.safe_yaml import read_yaml

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
library has, a server that refuses) and takes the names from the line, and from the lines round it where
its own has none (an address, a package, a script, an image); tables say what each name is and which
package of which distribution has it. What the tables written by hand do not know is looked up in two that
`scripts/make-entity-tables.py` makes, from the contents of Debian's packages and of Intel's wheels. A
*signature* is for one special failure, and is told instead of a kind on the same line if it is likely.
Names of distributions in the log (apt, dnf, .fc41) decide for which one the next command is; without any,
it is for this host.

The words round the matches and round the first error are compared with those of {known} failures of
public threads (`known-failures.txt`, by TF-IDF, the 20 nearest). How many of these are of the family that
a rule names decides how sure the finding is, and so does how well the words of all failures of the family
explain those of the log (naive Bayes); `resembles` names threads. Where no rule fits, the cause of known
failures is told that is surest by both, as possible at most unless they agree.

If no rule is likely, explain says that the cause is not known and shows the first error with its context,
what kind of step failed, search terms and the command that writes a report for others. A *topic* may then
say what the error is about, by its words and the tool that printed it; its confidence is 0.3, never more.

Signatures are looked for in all of a log, kinds at its beginning, round errors and at its end.

`--here` says that the log is of this host: the checks of doctor that belong to the findings are run. What
they confirm is told with the evidence, what they refute loses most of its confidence. Without it a log is
never judged by this host.

The confidence is between 0 and 1. It is an estimate of how often such a finding was right for failures
that neither the rules nor the known failures had, from four things: whether a rule names the family,
whether it is the surest of the rules, the share of the family among the nearest known failures, and its
odds by the words alone. Only what is right in nineteen of twenty is told as likely, with 0.95 and more;
everything else is possible and stays below 0.5, in the same order. A rule that says less than 0.5 of itself
is never more than possible, and the checks of doctor raise or lower what they know. A message that one
project prints for one cause, as its source shows, needs no resemblance (`certain`).

What happened afterwards counts. A cause is possible at most where the log shows no failure at the line, after
it or shortly before it, and the run went on: steps of a training or a build, "Successfully installed". So is
a transfer that a complete one followed, and a distributed run that did not start, once it took a step.

## Accuracy

Each excerpt of a real failure (`tests/data/explain/teaching.yaml`) is embedded in {lines} lines of normal
output of pip, CMake, ninja and compilers, and so are {variants} variants of them with other versions, paths
and words (`variants.yaml`). A family is found if the first finding belongs to it: recall is the share of a
family's excerpts for which this is so, precision the share of correct results among the logs for which the
family was found first. {calm} of the logs have no failure. `make regen` measures again;
`tests/unit/test_explain_teaching.py` enforces the results. The signatures were written from these very
excerpts, so the table shows that no known failure is missed, not how often a new failure is recognised.
"""
_CALIBRATION = """
## Calibration

What counts is how failures fare that no rule was written from. Each set was gathered from public threads
by people who write no rules, and scored once, with `scripts/score-explain.py`. Likely and wrong: the
first finding is of a wrong family at 0.5 or more. Helpful: a command or fix has one of the strings that
were noted for the thread when it was gathered.

| scored at | threads | right first | likely and wrong | nothing found | helpful |
| --- | ---: | ---: | ---: | ---: | ---: |
| 20e7c4e | 65 | 55 (85 %) | 3 (5 %) | 6 | 29 of 59 (49 %) |
| 6757546 | 46 | 41 (89 %) | 1 (2 %) | | 23 of 42 (55 %) |
| 9b46876 | 64 | 47 (73 %) | 9 (14 %) | 6 | 42 (66 %) |
| 12029c4 (2026-11-23) | 64 | 49 (77 %) | 5 (8 %) | 9 | 44 (69 %) |
| de17ff0 (2026-11-23) | 60 | 43 (72 %) | 11 (18 %) | 4 | 40 (67 %) |
| 917b65f (2026-11-24) | 60 | 51 (85 %) | 1 (2 %) | 0 | 53 (88 %) |
| 4852f4b (2026-11-25) | 64 | 49 (77 %) | 3 (5 %) | 5 | 48 (75 %) |
| 88146ac (2026-11-26) | 60 | 52 (87 %) | 0 (0 %) | 5 | 51 (85 %) |
| 96bbc9f (2026-11-26) | 60 | 45 (75 %) | 0 (0 %) | 4 | 51 (85 %) |
| 1121574 (2026-11-27) | 64 | 45 (70 %) | 2 (3 %) | 6 | 50 (78 %) |
| 5c38793 (2026-11-27) | 60 | 47 (78 %) | 0 (0 %) | 2 | 42 (70 %) |
| e302d87 (2026-11-27) | 64 | 55 (86 %) | 0 (0 %) | 3 | 50 (78 %) |

The first two sets were easier: the third was right for 48 at the commit before the first. Between the
sets, what was missed was learnt from; it carries little to the next set. The labels are not what limits
the score: somebody who saw the third set's texts and causes, and no label, chose the same family for 62
of the 64. What the fourth set missed most: messages without the word error, headers that only some
releases of oneAPI have, and advice about kernels and firmware.

A good part of the fourth set is about the surroundings of a build: containers, Slurm, pip, CUDA, git. Its
likely and wrong findings took a follow-up error for the cause, read a name from a line of another
program, or did not look at whose file or which platform it was. Of its findings with 0.9 and more, 26 of
27 are right.

The set of 917b65f is the first with known failures beside the rules; 40 of its 41 likely findings are right.
What could help was noted in wider words for that set than before. Four of its nine wrong ones are faults
of an upstream project that were told as something else. 208 further threads, gathered by the same
rules and not sealed, gave at the same commit 169 right (81 %), 9 likely and wrong (4 %), 181 helpful
(87 %).

104 more (2026-11-25) were gathered by somebody who then learnt from them. At a32fc3b, 83 were right
(80 %), 2 likely and wrong (2 %), 79 helpful (76 %). Rules were written from one half first; of the other
56, which were looked at once after that, 47 were right (84 %) where 44 (79 %) had been, and 2 likely and
wrong both times. What was missed: whose the name is that the compiler does not find, said in other words
(of other compilers and languages), and messages that name a wrapper of the program that failed. Of ten
that were gathered when both halves had been learnt, 5 were right before and after, and none of them was
likely and wrong: what such a set teaches is mostly about itself. The last sealed set says the same:
a32fc3b, without what was learnt from these, had as many right (49) and helpful (48), and 2 likely and
wrong. About half of that set does not concern PyTorch itself; of its 42 findings with 0.9 and more, 39
are right.

Before the set of 88146ac, 474 more threads were gathered by people who write no rules. Of the first 244,
most of them of the families that had been weakest, 190 (78 %) were right at 250ce19, 4 (2 %) likely and
wrong, 204 (84 %) helpful; a dozen rules were written from what was missed. Of the other 230, evenly of all
families, from which none was written, 197 (86 %) were right with these rules, 6 (3 %) likely and wrong,
206 (90 %) helpful. Both, and the set itself since it was scored, are compared with now (`compared.yaml`).
250ce19, without all of this, has as many right of the 230 (197) and of the set (52), with one more likely
and wrong and one less helpful: these sets are easier than that of 4852f4b, and what is learnt from some
threads carries little to others, once more. All 40 findings of the last set with 0.9 and more are right.
Missed were messages without the word error, and faults of an upstream project or of its pins.

On the set of 96bbc9f the commit before that day's work, 3b87f34, has 44 right and 250ce19 43: it is a harder
set than the one before. All 33 findings with 0.9 and more are right. For 15 of its threads no settled cause
was to be seen. It is compared with now, too, but for two texts that do not show their cause.

The set of 1121574 has only threads whose settled cause was to be seen, in excerpts of one to twenty lines;
5 of its texts have no error in any form that explain knows. 4429438, before 78 more threads of the same
search were learnt from, has the same figures. 28 of 30 findings with 0.9 and more are right: one is a cache
of a compiler in a folder of root, for which no family fits, the other took a submodule whose server has a
wrong certificate for one that is gone. It is compared with now.

Of the set of 5c38793 all 40 findings with 0.9 and more are right. At 4429438 and at 3b87f34, 48 are
right and 41 helpful. What helped was noted more strictly than before: no remedy that the thread had
tried in vain. Nine of the 13 that were missed had a rule for another family, which said more than it
knew: a crash of GCC as GCC 12's, any library that torch misses as oneAPI's, symbols of two revisions in
a source tree as two installations, a header that setup.py misses as the run-time compiler's. 54 more
threads of the same search gave 47 right (87 %) and 2 likely and wrong. After that the rules alone were
held against all 852 samples that they had not been written from: 723 (85 %) were right. The commonest
messages without a rule, such as a changed size of NumPy's array, have one now; with those it is
761 (89 %), no longer of what they had not seen.

The set of e302d87 has at most four threads of a family and few texts of one line. 5c38793, before the
rules that the set before it led to, has the same figures. All 37 findings with 0.9 and more are right.
Of its 46 threads whose cause was confirmed in what the gatherer saw, 40 (87 %) are right and 36 (78 %)
helpful. The sets of one day differ by sixteen points, by what sort of threads was gathered; of the 188
together, 147 (78 %) were right and 2 (1 %) likely and wrong. Both of that day's later sets are among
the known failures now.

The others show how the rules alone did. What is added by comparing with known failures is measured by
cross-validation, on the {count} samples for which it is known what the rules answered before they were
written from them (`tests/data/explain/answers-before.txt`). The samples are split into ten parts by a
hash of the address of their thread; each is compared with known failures of the other nine, and judged
with weights that were fitted to the other nine. `scripts/calibrate-explain.py` prints this and the
weights.

{summary}

By confidence:

{bands}

By family, the best that is accepted for each sample:

{families}

Of the set of 60 that was scored at {misses} only the {missed} that the rules missed or gave a useless
command for became samples. They count for the weights, not above; of them {missed_wrong} are likely and
wrong now, and were {missed_before}.

The excerpts that the kinds were written from, each of which is a known failure too:

"""
_BANDS = (0.95, 0.9, 0.4, 0.3, 0.2, 0.0)
_HEADER = ("confidence", "excerpts", "right")
#: The confidence that is shown, and what is told first.
_Answer = tuple[float, calibration.Candidate | None]


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
    about = _ABOUT.format(
        lines=_BEFORE + _AFTER, variants=len(others), calm=_CALM, known=calibration.count_known()
    )
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
    entries = read_yaml((_TESTS / "data" / "explain" / "kinds.yaml").read_text("utf-8"))
    seen: list[tuple[float, bool]] = []
    for entry in entries:
        found = explain_stream(io.BytesIO(entry["text"].encode())).findings
        if found:
            seen.append((found[0].confidence, found[0].family in entry["families"]))
    rows = [*_by_band(seen), ("no finding", str(len(entries) - len(seen)), "-")]
    return f"{_cross_validated()}\n{md.table(_HEADER, rows)}"


def _by_band(answers: list[tuple[float, bool]]) -> list[tuple[str, str, str]]:
    rows, top = [], 1.1
    for least in _BANDS:
        right = [good for confidence, good in answers if least <= confidence < top]
        if right:
            rows.append((f"{least} to {min(top, 1.0)}", str(len(right)), _share(sum(right), len(right))))
        top = least
    return rows


def _cross_validated() -> str:
    answers = calibration.cross_validated(calibration.cases())
    unseen = [item for item in answers if item[0].rules_of != calibration.MISSES]
    missed = [item for item in answers if item[0].rules_of == calibration.MISSES]
    now = [(told(sure), best) for _, sure, best in unseen]
    before = [_rules_alone(case) for case, _, _ in unseen]
    noted = sum("helpful" in case.sample for case, _, _ in unseen)
    return _CALIBRATION.format(
        count=len(unseen),
        summary=md.table(
            ("", "right first", "likely and wrong", "nothing found", "helpful"),
            [_summary("rules alone", noted, before), _summary("with known failures", noted, now)],
        ),
        bands=md.table(_HEADER, _by_band([(sure, best.right) for sure, best in now if best])),
        families=_by_family(unseen),
        misses=calibration.MISSES,
        missed=len(missed),
        missed_wrong=sum(_misleads(told(sure), best) for _, sure, best in missed),
        missed_before=sum(_misleads(*_rules_alone(case)) for case, _, _ in missed),
    )


def _rules_alone(case: calibration.Case) -> _Answer:
    first = next(iter(case.stated), None)
    return (first.rule or 0.0 if first else 0.0), first


def _misleads(sure: float, best: calibration.Candidate | None) -> bool:
    return best is not None and not best.right and sure >= LIKELY


def _summary(name: str, noted: int, answers: list[_Answer]) -> tuple[str, ...]:
    """Return a row; ``noted`` is for how many excerpts it is known what helped."""
    counts = (
        sum(bool(best and best.right) for _, best in answers),
        sum(_misleads(sure, best) for sure, best in answers),
        sum(best is None for _, best in answers),
    )
    helpful = sum(bool(best and best.helps) for _, best in answers)
    shares = (f"{count} ({count / len(answers):.0%})" for count in counts)
    return (name, *shares, f"{helpful} of {noted} ({helpful / noted:.0%})")


def _by_family(answers: list[tuple[calibration.Case, float, calibration.Candidate | None]]) -> str:
    total, named, right = Counter[str](), Counter[str](), Counter[str]()
    for case, _, best in answers:
        told_first = best.family if best else ""
        accepted = case.sample["families"]
        family = told_first if told_first in accepted else accepted[0]
        total[family] += 1
        named[told_first] += 1
        right[family] += told_first == family
    rows = [
        (name, str(total[name]), _share(right[name], total[name]), _share(right[name], named[name]))
        for name in sorted(total)
    ]
    return md.table(("family", "excerpts", "recall", "precision"), rows)


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
