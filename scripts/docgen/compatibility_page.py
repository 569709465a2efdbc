"""docs/reference/compatibility.md, from the recipes that ship with xpubuild."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.recipe.matrix import matrix_document
from xpubuild.recipe.releases import Release, releases
from xpubuild.resources import recipes_dir
from xpubuild.ui.parts import markdown
from xpubuild.ui.recipe_views import matrix_view

_ABOUT = """
Which release of PyTorch for Intel GPUs is compatible with which oneAPI, driver, Python, GCC, triton, vision
and audio. The tables are generated from the recipes; `xpubuild recipes show RELEASE -v` shows each value with
its source and confidence. `unknown` means that upstream does not state the value, `any` that the release has
no requirement, `-` that it does not exist for the release.

`xpubuild recipes matrix --here` compares the tables with the machine it runs on, and

```console
$ xpubuild recipes matrix --gpu max --driver lts-2350 --oneapi 2025.3 --gcc 12 --python 3.11
```

with the host that the options describe: it shows for each release whether it can be built and run there, the
reason, and the features that would be disabled. `plan` and `install` use the same verdicts: if a release
cannot be built on this host, they fail with exit code 22 and list the releases that can. A host without any
oneAPI is reported first, with exit code 40.

Two questions are kept apart. What a release builds with is decided by oneAPI: *upstream's pairing* is the
line that upstream builds the release with; a *tolerated* one builds it too, though upstream promises the
two newest lines alone; *only with patches* means that a site that keeps this line takes changes out of
the sources. `xpubuild recipes matrix --oneapi 2025.3.1` lists them with their addresses; none was tried
here. What a build runs on is decided by the driver: it runs releases that the oneAPI beside it cannot
build.

Versions are written as requirements: `>=2025.3,<2026` is oneAPI 2025.3 and later ones before 2026. GPUs:
`max` is the Data Center GPU Max, `flex` the Data Center GPU Flex, `arc-a` and `arc-b` the Arc series,
`core-ultra` the graphics of Meteor, Arrow and Lunar Lake. Drivers: `lts-2350` is Intel's first LTS stream
(compute runtime 23.43.27642), `lts2-2523` the second (25.18.33578), `rolling` everything newer.
"""
_UNKNOWN = """
## Unknown values

No source states these values. If a build needs one, it is looked up upstream when the plan is made, and
recorded in the receipt.
"""


def page() -> str:
    """Return the page."""
    known = releases(recipes_dir())
    tables = markdown("", matrix_view(matrix_document(known, None)), "## {}")
    text = md.head("Compatibility", "recipes/*.yaml") + _ABOUT + "\n" + tables
    unknown = _unknown(known)
    if not unknown:
        return text
    return text + _UNKNOWN + "\n" + md.table(("release", "value", "what was looked at"), unknown)


def _unknown(known: tuple[Release, ...]) -> list[tuple[str, str, str]]:
    rows: dict[tuple[str, str], list[str]] = {}
    for release in known:
        for path, fact in release.recipe.facts.items():
            if fact.confidence == "unknown":
                rows.setdefault((path, fact.note or fact.source), []).append(release.version)
    return [(", ".join(names), md.code(path), text) for (path, text), names in rows.items()]
