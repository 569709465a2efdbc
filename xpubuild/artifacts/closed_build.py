"""A build without a network: what it would fetch has to be listed, and is refused where it is not."""

from __future__ import annotations

import re

from xpubuild.errors import FetchError
from xpubuild.resources import docs_page

#: No proxy: it has no number as its port. libcurl ends at once, and CMake does not try again for minutes, as
#: it does where a host cannot be reached (Modules/ExternalProject/download.cmake.in, Utilities/cmcurl).
_PROXY = "http://nothing-is-fetched-while-building:x"
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
#: Environment of a build that fetches nothing, as far as programs go by it: git, and all that uses a proxy.
NO_NETWORK = {
    "GIT_ALLOW_PROTOCOL": "file",
    **{name: _PROXY for lower in _PROXIES for name in (lower, lower.upper())},
    "no_proxy": "", "NO_PROXY": "",
}  # fmt: skip
#: What CMake's ExternalProject says, of which FetchContent is made; then git, libcurl, Python and wget.
_NAMED = re.compile(r"(?:Failed to clone repository: |error: downloading )'([^'\s]{1,2000})'")
_OTHER = re.compile(
    r"transport '\w+' not allowed|Unsupported proxy syntax in '|nonnumeric port: 'x'|parsing proxy URL http://nothing"
)


class ClosedBuild:
    """Looks for what the build of ``component`` would have fetched, in the lines of its log."""

    def __init__(self, component: str) -> None:
        self._component = component
        self._seen = ""

    def line(self, text: str) -> FetchError | None:
        """Return the error of a line that names what cannot be fetched."""
        if found := _NAMED.search(text):
            return self._error(f"it would fetch {found[1]}, which the recipe does not list", found[1])
        if not self._seen and _OTHER.search(text):
            self._seen = text.strip()
        return None

    def error(self) -> FetchError | None:
        """Return the error of a build that failed, where a line said that something cannot be fetched."""
        return (
            self._error(f"it would fetch what the recipe does not list: {self._seen}") if self._seen else None
        )

    def _error(self, why: str, url: str | None = None) -> FetchError:
        name = self._component
        return FetchError(
            f"the build of {name} has no network",
            why=why,
            fix=f"list a git repository at components.{name}.source.configure_time and an archive at"
            f" components.{name}.build.archives; see {docs_page('how-to/add-a-component.md')}",
            evidence={"reason": "unlisted", "url": url},
        )
