"""docs/reference/distributions.md, from the table of distributions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from docgen import markdown as md
from xpubuild.distribution import NOT_TRIED, System, install, install_oneapi, table

_ABOUT = """
What `doctor`, the errors of `install` and `explain` say to type on a host that has no GPU driver or no
oneAPI: how to add Intel's package repositories, and the packages that exist there. A repository that is set
up is not added again. One unknown name makes apt refuse the whole line, so no line names a package that the
distribution does not have.

The lines of Debian were tried with `apt-get -s` against its archive. Nothing else on this page was tried: it
is what the vendor's pages and upstream's CI say.
"""
_BUNDLE = "intel-deep-learning-essentials"


def page() -> str:
    """Return the page."""
    body = "".join(section for row in table()["systems"] for section in _sections(row))
    return md.head("Distributions", "xpubuild/distributions.yaml") + _ABOUT + body


def _sections(row: Mapping[str, Any]) -> Iterator[str]:
    version = row["gpu_versions"]["lts2"][-1] if "gpu_versions" in row else row["version"]
    system = System((row["ids"][0], row["family"]), version)
    tried = f"tried with {row['tried']}" if "tried" in row else NOT_TRIED
    yield f"\n## {row['title']}\n\n{tried[0].upper()}{tried[1:]}.\n\n"
    yield from _listed(row)
    driver = install(("driver", "ocloc", "kernel-module", "firmware"), system)
    for title, lines in (("The driver", driver), ("oneAPI", install_oneapi([_BUNDLE], system))):
        yield f"{title}:\n\n```sh\n" + "".join(f"{line}\n" for line in lines) + "```\n\n"
    yield "Sources:\n\n" + "".join(f"- {table()['sources'][name]}\n" for name in row["sources"])


def _listed(row: Mapping[str, Any]) -> Iterator[str]:
    told = [*row.get("lacks", {}).values(), *row.get("notes", {}).values()]
    if told:
        yield "".join(f"- {text}\n" for text in dict.fromkeys(told)) + "\n"
