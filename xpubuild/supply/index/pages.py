"""Reads what indexes and wheel folders offer: project pages (HTML, JSON), link pages, folders, files."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, urlsplit

import requests
from packaging.utils import canonicalize_name
from pypi_simple import (
    ProjectPage,
    UnexpectedRepoVersionWarning,
    UnsupportedContentTypeError,
    UnsupportedRepoVersionError,
)

from xpubuild.engine.redact import recordable
from xpubuild.engine.watch import Cancel
from xpubuild.supply.index.choice import Offer, offer
from xpubuild.supply.index.config import IndexConfig, local_path
from xpubuild.supply.index.session import MOST_PAGE_BYTES, IndexSession
from xpubuild.supply.index.threads import in_threads
from xpubuild.untrusted import read_bytes

# A newer minor version of the protocol is read all the same (PEP 629): nothing to tell a user.
warnings.filterwarnings("ignore", category=UnexpectedRepoVersionWarning)
# The order of pip (index/collector.py): JSON (PEP 691) first, HTML from an older server.
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.1, text/html;q=0.01"
# How urllib3 names a connection before it says what is wrong with it.
_CONNECTION = re.compile(r"^(?:<[^>]*>|\w+\([^)]*\)): ")
_PAGES = (".html", ".htm")
_ARCHIVES = (".whl", ".tar.gz", ".zip")
_NOT_FOUND = frozenset({404, 410})
_UNREADABLE = (UnsupportedContentTypeError, UnsupportedRepoVersionError, ValueError, KeyError)


class Sources:
    """The places of one configuration; each page is read once.

    ``failures`` says of every place that did not answer why, without credentials. A host that cannot be
    reached is not asked again: with its time limit and retries it would cost minutes for every project.
    """

    def __init__(self, config: IndexConfig, cancel: Cancel | None = None) -> None:
        self.config = config
        self.failures: dict[str, str] = {}
        self._session = IndexSession(config)
        self._cancel = cancel
        self._links: list[Offer] | None = None
        self._of_project: dict[str, list[Offer]] = {}
        self._dead: set[str] = set()
        self._lock = threading.Lock()

    def load(self, projects: Iterable[str]) -> None:
        """Read everything about ``projects`` (canonical names), several pages at a time.

        Raises:
            InterruptedByUserError: it was cancelled.
        """
        if self._links is None:
            places = in_threads(self._link_place, self.config.find_links, self._cancel)
            self._links = [item for place in places for item in place]
        wanted = [name for name in dict.fromkeys(projects) if name not in self._of_project]
        # One page of each index first: an index that is out of reach then costs its time limit once.
        for part in (wanted[:1], wanted[1:]):
            asked = [(index, name) for name in part for index in self.config.indexes]
            pages = iter(in_threads(lambda pair: self._project(*pair), asked, self._cancel))
            for name in part:
                self._of_project[name] = [item for _ in self.config.indexes for item in next(pages)]

    def offers(self, project: str) -> list[Offer]:
        """Return what find-links and then the indexes offer of a project."""
        name = canonicalize_name(project)
        self.load([name])
        return [item for item in self._links or () if item.dist == name] + self._of_project[name]

    def looked(self) -> list[str]:
        """Return a line for each place: its name and, where it failed, why."""
        lines = []
        for place in self.config.places():
            why = self.failures.get(place)
            lines.append(f"{place} ({why})" if why else place)
        return lines

    def _link_place(self, place: str) -> list[Offer]:
        path = local_path(place)
        if path is None:
            is_file = urlsplit(place).path.lower().endswith(_ARCHIVES)
            return _present([offer(place)]) if is_file else self._page(place, place)
        if path.is_dir():
            return [item for entry in sorted(path.iterdir()) for item in self._local(entry, place)]
        if not path.exists():
            self._failed(place, "there is no such file or folder")
        return self._local(path, place)

    def _local(self, path: Path, place: str) -> list[Offer]:
        """Return what one file of a wheel folder offers: itself, or its links where it is a page."""
        if not path.is_file():
            return []
        if path.suffix.lower() in _PAGES:
            return self._local_page(path, place)
        return _present([offer(path.absolute().as_uri())])

    def _local_page(self, path: Path, place: str) -> list[Offer]:
        try:
            return _from_page(
                ProjectPage.from_html(
                    "", read_bytes(path, MOST_PAGE_BYTES), base_url=path.absolute().as_uri()
                )
            )
        except (OSError, *_UNREADABLE) as error:
            self._failed(place, f"{path.name}: {error}")
            return []

    def _project(self, index: str, name: str) -> list[Offer]:
        path = local_path(index)
        if path is None:
            return self._page(f"{index.rstrip('/')}/{quote(name)}/", index)
        if not path.is_dir():
            self._failed(index, "there is no such folder")
            return []
        page = path / name / "index.html"
        return self._local_page(page, index) if page.is_file() else []

    def _page(self, url: str, place: str) -> list[Offer]:
        """Return the links of one page; a project that an index does not have is no failure."""
        host = urlsplit(url).netloc
        if not self.config.trusts(url):
            self._failed(place, "pip accepts plain http only from this machine or a trusted-host")
            return []
        if host in self._dead:
            return []
        try:
            response = self._session.page(url, {"Accept": _ACCEPT})
        except requests.RequestException as error:
            self._dead.add(host)
            self._failed(place, explain(error))
            return []
        return self._read(response, place)

    def _read(self, response: requests.Response, place: str) -> list[Offer]:
        if response.status_code in _NOT_FOUND:
            return []
        if not response.ok:
            self._failed(place, f"answered {response.status_code} {response.reason}")
            return []
        try:
            return _from_page(ProjectPage.from_response(response, ""))
        except _UNREADABLE as error:
            self._failed(place, f"its page could not be read: {error}")
            return []

    def _failed(self, place: str, why: str) -> None:
        shown = recordable(place, tokens_in_path=True) if "://" in place else place
        with self._lock:
            self.failures.setdefault(shown, self.config.shown(why))


def explain(error: requests.RequestException) -> str:
    """Say in a few words why a server did not answer. The caller takes credentials out."""
    kinds = (
        (requests.exceptions.SSLError, "its certificate is not trusted"),
        (requests.exceptions.ProxyError, "the proxy rejected the connection"),
        (requests.exceptions.Timeout, "no answer in time"),
        (requests.exceptions.ConnectionError, "could not be reached"),
    )
    said = next((words for kind, words in kinds if isinstance(error, kind)), type(error).__name__)
    reason = getattr(error.args[0] if error.args else None, "reason", None) or error
    return f"{said}: {_CONNECTION.sub('', str(reason))}"


def _from_page(page: ProjectPage) -> list[Offer]:
    return _present(
        offer(
            item.url,
            sha256=item.digests.get("sha256"),
            size=item.size,
            requires_python=item.requires_python,
        )
        for item in page.packages
    )


def _present(found: Iterable[Offer | None]) -> list[Offer]:
    return [item for item in found if item is not None]
