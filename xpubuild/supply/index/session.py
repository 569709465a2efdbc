"""HTTP as pip does it: retries, proxies with exceptions, authorities, trusted hosts, logins by host."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from xpubuild.supply.index.config import IndexConfig
from xpubuild.supply.index.credentials import origin_of, without_login
from xpubuild.untrusted import described

if TYPE_CHECKING:
    from requests.models import PreparedRequest, Response

# As pip: errors of a server that are likely to pass (network/session.py of pip).
_PASSING = (500, 502, 503, 504, 520, 527)
_BACKOFF_S = 0.25
#: The page of a project with ten thousand files has 10 MB.
MOST_PAGE_BYTES = 64 << 20
_PAGE_DEADLINE_S = 300.0
_CHUNK = 1 << 16


class _TrustingAdapter(HTTPAdapter):
    """For ``trusted-host``: no certificate is checked."""

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        return super().send(request, *args, **{**options, "verify": False})


class IndexSession(requests.Session):
    """A session that knows an ``IndexConfig`` and nothing of the environment of this process."""

    def __init__(self, config: IndexConfig) -> None:
        super().__init__()
        self.config = config
        self.trust_env = False
        self.headers["User-Agent"] = "xpubuild"
        self.cert = config.client_cert
        retry = Retry(
            total=config.retries,
            backoff_factor=_BACKOFF_S,
            status_forcelist=_PASSING,
            raise_on_status=False,
            # A server could ask for an hour.
            respect_retry_after_header=False,
        )
        for prefix in ("https://", "http://"):
            self.mount(prefix, HTTPAdapter(max_retries=retry))
        for host in config.trusted_hosts:
            for end in ("/",) if ":" in host else ("/", ":"):
                self.mount(f"https://{host}{end}", _TrustingAdapter(max_retries=retry))
        if config.trusted_hosts:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def ask(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
    ) -> Response:
        """Send one request, redirects followed.

        Raises:
            requests.RequestException: no answer; its text may hold credentials and goes through ``shown``.
        """
        return self.request(
            method,
            without_login(url),
            auth=self.config.credentials.for_url(url),
            headers=dict(headers or {}),
            stream=stream,
            timeout=self.config.timeout_s,
            allow_redirects=True,
        )

    def page(self, url: str, headers: Mapping[str, str]) -> Response:
        """Return the answer for a page, whole.

        Raises:
            requests.RequestException: no answer, or more of it, unpacked, than any page has, or for too long.
        """
        deadline = time.monotonic() + _PAGE_DEADLINE_S
        response = self.ask(url, headers=headers, stream=True)
        data = bytearray()
        with response:
            for chunk in response.iter_content(_CHUNK):
                data += chunk
                if len(data) > MOST_PAGE_BYTES:
                    raise requests.exceptions.ContentDecodingError(
                        f"its page is larger than {described(MOST_PAGE_BYTES)}"
                    )
                if time.monotonic() > deadline:
                    raise requests.exceptions.ReadTimeout(f"its page took longer than {_PAGE_DEADLINE_S:g} s")
        response._content = bytes(data)
        return response

    def merge_environment_settings(
        self,
        url: Any,
        proxies: Any,  # noqa: ARG002 - the signature is that of requests, here and below
        stream: Any,
        verify: Any,  # noqa: ARG002
        cert: Any,
    ) -> Any:
        """Settle what applies to one URL; ``request`` calls it."""
        return {
            "proxies": self._proxies(str(url)),
            "stream": stream,
            "verify": self.config.verify,
            "cert": cert or self.cert,
        }

    def rebuild_proxies(
        self,
        prepared_request: PreparedRequest,
        proxies: Any,  # noqa: ARG002
    ) -> dict[str, str]:
        """Settle the proxy anew after a redirect: the new host may be one of the exceptions."""
        prepared_request.headers.pop("Proxy-Authorization", None)
        return self._proxies(str(prepared_request.url))

    def rebuild_auth(
        self,
        prepared_request: PreparedRequest,
        response: Response,
    ) -> None:
        """Give the host of a redirect its own login, or none."""
        if origin_of(str(prepared_request.url)) == origin_of(str(response.request.url)):
            return
        prepared_request.headers.pop("Authorization", None)
        login = self.config.credentials.for_url(str(prepared_request.url))
        if login is not None:
            prepared_request.prepare_auth(login)

    def _proxies(self, url: str) -> dict[str, str]:
        proxy = self.config.proxy_for(url)
        return {"http": proxy, "https": proxy} if proxy else {}
