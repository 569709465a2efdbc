"""The one place that knows what a secret looks like: removes secrets from logs, terminals and documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

MASK = "****"
# The last @ before the path ends the credentials, as for curl and git. The scheme is bounded: a very long
# word would otherwise be searched again from each of its letters.
_URL_CREDENTIALS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]{0,30}://)(?P<secret>[^/\s'\"]+)@")
_SECRET_NAME = re.compile(
    r"(TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|PRIVATE_?KEY|AUTH_?HEADER)", re.IGNORECASE
)
_QUERY_SECRET = re.compile(
    r"(?P<name>[?&][^=&\s'\"]{0,60}(?:token|secret|passw|key|auth|sig)[^=&\s'\"]{0,60}=)[^&\s'\"#]+",
    re.IGNORECASE,
)
# As HTTP has it, and as Python and JSON print a mapping of headers.
_AUTH_HEADER = re.compile(
    r"(?P<name>(?:proxy-)?authorization['\"]?\s*:\s*['\"]?(?:basic|bearer|token|negotiate|digest)\s+)"
    r"[^\s'\"]+",
    re.IGNORECASE,
)
# An assignment that names its value: an environment variable, or an option of a program.
_SETTING = re.compile(
    r"(?P<name>(?:(?<![A-Za-z0-9_])[A-Z0-9_]{0,60}(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY)[A-Z0-9_]{0,60}"
    r"|(?<![\w-])--[a-z0-9-]{0,60}(?:token|secret|password|passwd|passphrase|api-?key))=['\"]?)[^\s'\"&]{6,}"
)
# Tokens that name their kind: GitHub, GitLab, the Python index, Hugging Face, Slack, AWS, npm, Docker, JWT.
# https://docs.github.com/en/code-security/secret-scanning/introduction/supported-secret-scanning-patterns
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_-])(?:gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_\w{16,255}|glpat-[\w-]{16,255}|pypi-[\w-]{32,500}"
    r"|hf_[A-Za-z0-9]{16,255}|xox[abprs]-[\w-]{10,255}|AKIA[A-Z0-9]{16}|npm_[A-Za-z0-9]{30,60}|dckr_pat_[\w-]{16,80}"
    r"|eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{10,2000})(?![A-Za-z0-9])"
)
_TOKEN_MARKS = ("gh", "glpat-", "pypi-", "hf_", "xox", "AKIA", "npm_", "dckr_pat_", "eyJ")
# Folders of a URL that nobody would type. The last component is a file or a page; commits and hashes are
# hexadecimal. Of a package index also those, and the one below "t" or "token", as anaconda.org has it (forums
# have their topics there).
_URL_PATH = re.compile(r"(?<=://)[^\s'\"<>?#]{1,2000}")
_RANDOM = re.compile(r"(?![0-9a-f-]{16,}$)(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[A-Za-z0-9]{16,}")
_HEX = re.compile(r"[0-9a-f]{24,}")
_ANNOUNCED = ("t", "token")
_INDEX_NAME = re.compile(r"INDEX|FIND_LINKS|CHANNEL", re.IGNORECASE)
# A shorter value ("1", "yes") would mask unrelated text all over the log.
_SHORTEST_SECRET = 6


class Redactor:
    """Replaces credentials in URLs, authorization headers and the values of secret-looking variables."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        ordered = sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Redactor:
        """Know the values of variables with a secret's name, and the passwords in URLs of all the others."""
        return cls(_secrets_of(environment))

    def __call__(self, text: str) -> str:
        """Return ``text`` without secrets."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        if "://" in text:
            text = _URL_CREDENTIALS.sub(rf"\g<scheme>{MASK}@", text)
            text = _QUERY_SECRET.sub(rf"\g<name>{MASK}", text)
            text = _URL_PATH.sub(lambda found: _path(found[0]), text)
        if "=" in text:
            text = _SETTING.sub(rf"\g<name>{MASK}", text)
        if any(mark in text for mark in _TOKEN_MARKS):
            text = _TOKEN.sub(MASK, text)
        if "uthorization" in text.casefold():
            text = _AUTH_HEADER.sub(rf"\g<name>{MASK}", text)
        return text

    def tree(self, value: Any) -> Any:
        """Return plain JSON without secrets; keys are names of fields and stay."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, (list, tuple)):
            return [self.tree(item) for item in value]
        if isinstance(value, Mapping):
            return {name: self.tree(item) for name, item in value.items()}
        return value

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return a copy of an environment that may be shown."""
        return {
            name: MASK if _SECRET_NAME.search(name) else self(value) for name, value in environment.items()
        }


def _secrets_of(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if _SECRET_NAME.search(name):
            # A key of several lines is printed line by line.
            yield from value.splitlines()
        for found in _URL_CREDENTIALS.finditer(value):
            yield found["secret"].partition(":")[2]
        if _INDEX_NAME.search(name):
            for place in _URL_PATH.findall(value):
                _, *folders = place.split("/")
                yield from (folders[number] for number in _token_folders(folders, of_index=True))


def _path(text: str, *, of_index: bool = False) -> str:
    """Return host and path of a URL without a token that is one of its folders."""
    host, *folders = text.split("/")
    for number in _token_folders(folders, of_index):
        folders[number] = MASK
    return "/".join((host, *folders))


def _token_folders(folders: Sequence[str], of_index: bool) -> Iterator[int]:
    for number, folder in enumerate(folders):
        last = number == len(folders) - 1
        announced = of_index and number > 0 and folders[number - 1] in _ANNOUNCED
        if (
            (announced and len(folder) >= _SHORTEST_SECRET and "." not in folder)
            or (not last and _RANDOM.fullmatch(folder))
            or (of_index and not last and _HEX.fullmatch(folder))
        ):
            yield number


def recordable(url: str, *, tokens_in_path: bool = False) -> str:
    """Return a URL as it may be written down and shown: without password, query (signed links) and fragment.

    With ``tokens_in_path`` folders that look like a token are masked too, as package indexes have them: such
    a URL cannot be asked any more. ssh logs in as a user whose name everybody knows (``git@``); for other
    protocols a user is a credential. Nothing is raised for what is no URL.
    """
    scheme, separator, rest = url.partition("#")[0].partition("?")[0].partition("://")
    if not separator:
        return scheme
    host, slash, path = rest.partition("/")
    login, at, name = host.rpartition("@")
    user = f"{login.partition(':')[0]}@" if at and scheme == "ssh" else ""
    place = f"{name}{slash}{path}"
    return f"{scheme}://{user}{_path(place, of_index=True) if tokens_in_path else place}"
