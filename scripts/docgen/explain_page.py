"""docs/reference/explain.md, from the signatures."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.explain.load import shipped_rules

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

The words round the matches and round the first error are compared with those of the failures of
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

How often it is right for failures that it has not seen is measured with `scripts/score-explain.py` and
`scripts/calibrate-explain.py`.
"""


def page() -> str:
    """Return the page."""
    rules = sorted(shipped_rules().signatures, key=lambda entry: (entry.family, entry.id))
    known = [(md.code(entry.id), entry.family.partition("-")[0], entry.title) for entry in rules]
    return (
        md.head("explain", "xpubuild/explain/signatures")
        + _ABOUT
        + "\n## Kinds and signatures\n\nThe family is shown by the first letters of its name.\n\n"
        + md.table(("signature", "family", "problem"), known)
    )
