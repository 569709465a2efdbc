"""docs/reference/explain.md, from the rules."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.explain.rules import ORDER, shipped_rules

_ABOUT = """
`xpubuild explain LOG` reads a build or run log once and prints the first error, whole and with its
place, the kind of step that failed, and its cause if that is known. LOG is a file, `-` for standard
input, or a workspace (its folder, or the recipe that was built there): then the log of the step that
failed last is read. `--json` prints an [xpubuild.explain/1](documents.md#xpubuildexplain1) document,
`--list` the rules. The exit code is 0 even if no cause was found; it is 2 if the log cannot be read.

A rule is a literal message of a known program, with the file and release in which it is written ([add
one](../how-to/add-a-rule.md)). What varies in the message is read and used: names, versions, sizes.
Nothing is guessed from resemblance. A rule of a family (a header, a library, a symbol, a module, a package
of CMake, an error of the system, a result code of the runtime) has a row for each value whose owner is
known; for any other value it is possible at most. Rules of the family *by-kind* know the form of an error
alone (whose file the compiler rejects, in whose code a traceback ends): they are possible, and only for a
first error of which no other rule says anything. If no rule fits, explain says that the cause is not
known, and shows the first error with its context, what to search for (without paths, user names and
numbers) and the command that writes a report for others.

The confidence is one of three words, and a rule of the data, not of taste. *certain*: the message has one
cause, and its text names one. *likely*: the cause is one, and the rule says what in the log decides for it
(the soname of a library, the path of a header, the versions that pip names). *possible*: the text names
several, or the message proves none. A rule whose cause lists alternatives cannot be more (it is refused).

What is more than possible stands at the first error: in the lines that belong to it, or at most three lines
above. What is found elsewhere is possible at most. The first error is the specific line, not the summary
below it: of git the reason and not "Could not read from remote repository", of ocloc what it printed and not
its exit code, of a launcher the failed assertion and not its banner. A complaint of a program without a form
for errors, a traceback without its end, or the message of a rule is the first error where nothing else is.

What happened afterwards counts. A cause is possible at most where the run went on after the message and
nothing failed later: steps of a training or a build, "Successfully installed". So is a warning that no
failure follows, a transfer that a complete one followed, and a distributed run that "did not start" once
it took a step. After the end of a good run (a status of 0, steps, "Build succeeded") there is no first error.
What complains beside a process that was killed, or could not write, is possible at most: it saw half a file.
If no rule knows the first error and its message names a setting, an option or a package that is missing, that
is shown as possible; messages that name a harmful command, or only how to see more, do not count.
In an excerpt of at most eight lines without any error, the line that only says what is not so (not
supported, denied, a mismatch) is the first error.

Numbers of results (of Unified Runtime, OpenCL, Level Zero with and without 0x, ocloc) are read as the
names that they stand for. Where a download failed, the command asks the server that the log names, no other.

A rule for a general message (a wrapped error, a crash, a failed command) gives way to
one that says more.

`--here` says that the log is of this host, and runs the checks of `doctor` that belong to the findings.
They decide: a check that fails makes its cause certain, checks that all pass make it no more than possible,
and the text says which check decided. Without it a log is never judged by this host.

A suggested command looks, or sets a variable for one run; none removes, reinstalls or downgrades what
was built. Packages are named for the distribution of the log, or else of this host.

The messages of all rules are looked for at the beginning of a log, round errors and at its end; in the
rest of it, in lines with words like error, failed and killed.
"""


def page() -> str:
    """Return the page."""
    rules = sorted(shipped_rules().rules, key=lambda entry: (entry.family, entry.id))
    known = [
        (
            md.code(entry.id),
            entry.family.partition("-")[0],
            entry.title,
            min((row.sure or entry.sure for row in entry.rows.values() or (entry,)), key=ORDER.index),
        )
        for entry in rules
    ]
    return (
        md.head("explain", "xpubuild/explain/rules")
        + _ABOUT
        + "\n## Rules\n\nThe family is shown by its first letters; a {name} is read from the message.\n\n"
        + md.table(("rule", "family", "problem", "at most"), known)
    )
