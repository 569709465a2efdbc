"""Reads an HTML page strictly: what would be loaded or run, and what a screen reader needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

_VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})
#: Attributes whose value the browser may ask for.
_ADDRESSES = ("src", "href", "action", "data", "poster", "srcset", "xlink:href")


@dataclass
class Page(HTMLParser):
    text: str
    tags: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    headings: list[int] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._labels: list[str] = []
        self.feed(self.text)
        self.close()
        self.problems += [f"<{tag}> is not closed" for tag in self._open]
        self.problems += [f"no element has the id {name}" for name in self._labels if name not in self.ids]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.handlers += [name for name in about if name.startswith("on")]
        self.addresses += [about[name] for name in _ADDRESSES if name in about]
        if "id" in about:
            self.ids.append(about["id"])
        if "aria-labelledby" in about:
            self._labels.append(about["aria-labelledby"])
        if tag[0] == "h" and tag[1:].isdigit():
            self.headings.append(int(tag[1:]))
        named = about.get("aria-label") or about.get("aria-labelledby")
        if (tag == "svg" or "tabindex" in about) and not named:
            self.unnamed.append(self.get_starttag_text() or tag)
        if tag == "th" and about.get("scope") not in ("row", "col"):
            self.problems.append("a header of a table without its scope")
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.problems.append(f"</{tag}> in {'/'.join(self._open)}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.words).split())


def faults(page: Page) -> list[str]:
    """Return what keeps a page from being well-formed, closed in itself and readable for everybody."""
    inside = {item[1:] for item in page.addresses if item.startswith("#")}
    steps = zip(page.headings, page.headings[1:], strict=False)
    return [
        *page.problems,
        *(f"it has the handler {name}" for name in page.handlers),
        *(f"it asks for {item}" for item in page.addresses if not item.startswith("#") and item != "data:,"),
        *(f"#{name} leads nowhere" for name in sorted(inside - set(page.ids))),
        *(f"two elements are {name}" for name in sorted(set(page.ids)) if page.ids.count(name) > 1),
        *(f"it has no name: {text}" for text in page.unnamed),
        *(f"a heading {after} follows one of {before}" for before, after in steps if after > before + 1),
        *(() if page.headings.count(1) == 1 else ("it needs one heading of the first level",)),
        *(() if "script" not in page.tags else ("it has a script",)),
        *(() if "url(" not in page.text else ("its style asks for something",)),
        *(() if '<html lang="en">' in page.text else ("its language is not named",)),
    ]


def page_of(path: Path) -> Page:
    """Return the page in a file.

    Raises:
        ValueError: it has faults.
    """
    page = Page(path.read_text("utf-8"))
    if found := faults(page):
        raise ValueError("\n".join(found))
    return page
