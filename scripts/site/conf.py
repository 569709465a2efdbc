"""The documentation as a site, by scripts/release.sh. Pages are the Markdown files that GitHub shows as well.

Sphinx with furo and MyST: it reads these pages as they are, links that lead nowhere are warnings, which end
the build, and the search works in the browser alone. Material for MkDocs, the other candidate, is no longer
developed (its maintenance ends in May 2027, as it says at each build).
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

_TOP = Path(__file__).resolve().parent.parent.parent
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)\)")
_PAGE = re.compile(r"\]\(([\w./-]+)\.md\)")

#: Folders of docs whose README leads to the pages below it.
_WITH_PAGES = ("checks", "evidence", "decisions")

project = "xpubuild"
version = release = _VERSION.findall((_TOP / "xpubuild" / "__init__.py").read_text("utf-8"))[0]
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**.md"]
exclude_patterns = [".venv", "site"]
html_theme = "furo"
html_title = f"xpubuild {version}"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
#: Headings that links may name, as GitHub makes them.
myst_heading_anchors = 4


def contents(index: str) -> str:
    """Return the tree of pages for the sidebar: the lists of docs/README.md, each below its caption."""
    parts, caption = [], "Start"
    pages: list[str] = ["docs/README", *(f"docs/{name}" for name in ("tutorial", "architecture", "identity"))]
    listed = set(pages)

    def close() -> None:
        if pages:
            lines = "\n".join(pages)
            parts.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n")

    for line in index.splitlines():
        if line and line[0].isupper() and not line.endswith((".", ",")) and "[" not in line:
            close()
            caption, pages = line, []
        elif line.startswith(("- ", "  ")):
            new = [f"docs/{name}" for name in _PAGE.findall(line) if f"docs/{name}" not in listed]
            pages += new
            listed.update(new)
    close()
    more = [f"docs/{name}/README" for name in _WITH_PAGES if name != "checks"]
    more = [page for page in more if (_TOP / f"{page}.md").is_file()]
    caption, pages = "Project", ["CHANGELOG", "CONTRIBUTING", *more]
    close()
    return "\n".join(parts)


def _read(_app: Sphinx, name: str, source: list[str]) -> None:
    """Add the sidebar to the first page, and take links to folders out: a site has none."""
    folder = (_TOP / name).parent

    def page(found: re.Match[str]) -> str:
        return found[1] if (folder / found[2]).is_dir() else found[0]

    text = _LINK.sub(page, source[0])
    if name == root_doc:
        text += "\n" + contents((_TOP / "docs" / "README.md").read_text("utf-8"))
    if name in {f"docs/{part}/README" for part in _WITH_PAGES}:
        below = sorted(path.relative_to(folder).with_suffix("") for path in folder.rglob("*.md"))
        pages = "\n".join(str(path) for path in below if str(path) != "README")
        text += f"\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
    source[0] = text


def _begin_with_the_first_page(app: Sphinx, error: Exception | None) -> None:
    """Write the page that servers show for a folder."""
    if error is None:
        shutil.copyfile(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> None:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    app.connect("build-finished", _begin_with_the_first_page)
