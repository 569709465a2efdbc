"""A pin, the one tree that a component is built from, and the git URLs that lead to it: which of them may
reach git, which mirror they belong to, how a relative one is resolved; its checkout as shell commands.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from xpubuild.engine.redact import recordable
from xpubuild.errors import RecipeError
from xpubuild.frozen import frozen
from xpubuild.supply.git.git import PROTOCOLS

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# git check-ref-format, narrowed: what the tag or branch of a release is called, and nothing more.
_REF = re.compile(r"(?![-/.])(?!.*(?:\.\.|//|@\{|\.lock$|/\.|[./]$))[A-Za-z0-9._/+@-]{1,200}")
_SCP = re.compile(r"(?:(?P<user>[^@/\s:]+)@)?(?P<host>[^:/@\s]+):(?P<path>.+)", re.DOTALL)
_DEFAULT_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
#: The user that git servers give to everybody; any other one of http may be a token.
_ANYBODY = "git"
_LOGINS = ("https", "http", "git")
_SLUG_LENGTH = 60


@frozen
class Pin:
    """A commit (40 or 64 hex digits) of the repository at ``url``, with its recursive submodules.

    ``tree`` is the id of the commit's tree, where the lock knows it. ``ref`` is a tag or branch that has
    held the commit, for people and locks; never trusted. ``skip`` are paths of
    submodules, below the top and at any depth, that the build does not need and that are not fetched.

    Raises:
        RecipeError: a field is not what it should be.
    """

    url: str
    commit: str
    tree: str | None = None
    submodules: bool = True
    ref: str | None = None
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        reason = problem_with(self.url)
        if reason is not None:
            fix = "use an https, http, ssh, git or file URL, or an absolute path"
            why = f"'{recordable(self.url)}': {reason}"
            raise RecipeError("a source has an invalid URL", why=why, fix=fix)
        ids = {"commit": self.commit, **({} if self.tree is None else {"tree": self.tree})}
        for name, value in ids.items():
            if not is_id(value) or len(value) != len(self.commit):
                raise RecipeError(
                    f"the {name} of the source {self.url} is not a full object id",
                    why=f"'{value}' is not 40 (or 64, both of them) lower-case hexadecimal digits",
                    fix="tags, branches and short ids can change their meaning; use the full id",
                    commands=(f"git ls-remote -- {shlex.quote(self.url)}",),
                )
        if self.ref is not None and not is_ref(self.ref):
            raise RecipeError(
                f"the ref of the source {self.url} is not a tag or branch name",
                why=f"'{self.ref}' has characters that git does not allow or interprets",
                fix="use the name of a tag or branch, such as v2.8.0 or refs/heads/main",
            )
        for path in self.skip:
            if path.startswith(("/", "-")) or any(part in ("", ".", "..") for part in path.split("/")):
                raise RecipeError(
                    f"the source {self.url} skips '{path}', which is not the path of a submodule",
                    why="use a path relative to the top of the tree, such as third_party/cutlass",
                    fix="correct skip_submodules in the recipe",
                )

    def key(self) -> dict[str, Any]:
        """Return what the resulting tree depends on; the URL is only the way to it."""
        key: dict[str, Any] = {"commit": self.commit, "tree": self.tree, "submodules": self.submodules}
        # Only where there are some: the key of every other pin stays what it was.
        return {**key, "skip": sorted(self.skip)} if self.skip else key


def is_id(text: str) -> bool:
    """Whether a text is a full object id."""
    return _ID.fullmatch(text) is not None


def is_ref(text: str) -> bool:
    """Whether a text is the name of a tag or branch, and nothing that git would read as an option."""
    return _REF.fullmatch(text) is not None


def is_local(url: str) -> bool:
    """Whether the URL names a folder of this machine."""
    return url.startswith(("/", "file://"))


def problem_with(url: str) -> str | None:
    """Return why a URL must not reach git, or None where it may."""
    for wrong, reason in (
        (not url or url != url.strip(), "it is empty or has leading or trailing spaces"),
        (re.search(r"[\x00-\x1f\x7f]", url), "it has a control character"),
        (url.startswith("-"), "it starts with '-', which git would read as an option"),
        (re.match(r"[A-Za-z0-9+.-]*::", url), "it uses a remote helper (NAME::), which would run a program"),
    ):
        if wrong:
            return reason
    if "://" in url:
        return _problem_with_scheme(url)
    scp = _SCP.fullmatch(url)
    if scp is None:
        return None if url.startswith("/") else "it is neither a URL nor an absolute path"
    if any((part or "").startswith("-") for part in scp.groups()):
        return "a part of it starts with '-', which ssh would read as an option"
    return None


def _problem_with_scheme(url: str) -> str | None:
    scheme = url.partition("://")[0]
    if scheme not in PROTOCOLS:
        return f"its protocol is '{scheme}'; allowed are {', '.join(PROTOCOLS)}"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"it cannot be read as a URL: {error}"
    if scheme == "file":
        return None if parts.path.startswith("/") and not parts.netloc else "file:// needs an absolute path"
    if not parts.hostname:
        return "it has no host"
    if parts.hostname.startswith("-") or (parts.username or "").startswith("-"):
        return "its host starts with '-', which ssh would read as an option"
    return "it has a space" if any(map(str.isspace, url)) else secret_in(url)


def secret_in(url: str) -> str | None:
    """Return what of a URL may be secret: it would be in every plan, lock, mirror and ``.git/config``."""
    parts = urlsplit(url)
    what = None
    if parts.password is not None:
        what = "a password"
    elif parts.scheme in _LOGINS and parts.username not in (None, _ANYBODY):
        what = "a user name, which may be a token"
    elif parts.scheme in (*_LOGINS, "ssh") and parts.query:
        # Nothing that serves git needs one, and tokens are put there.
        what = "a query ('?'), which may have a token"
    return what and f"it has {what}; use git's credential helper instead"


def without_login(url: str) -> str:
    """Return the URL that ``.gitmodules`` of somebody else names, without the user that it names."""
    if "://" not in url or secret_in(url) is None:
        return url
    parts = urlsplit(url)
    return url if parts.password is not None else url.replace(f"{parts.netloc.rpartition('@')[0]}@", "", 1)


def normalised(url: str) -> str:
    """Return one spelling for URLs that differ only in case of the host, default port, user, '/' or '.git'.

    Two repositories that this takes for one (``x`` and ``x.git``) may share a mirror without harm: objects
    are named by their content.
    """
    trimmed = url.rstrip("/").removesuffix(".git").rstrip("/")
    if "://" not in trimmed or trimmed.startswith("file:"):
        return trimmed
    parts = urlsplit(trimmed)
    user = f"{parts.username}@" if parts.scheme == "ssh" and parts.username else ""
    port = "" if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{user}{parts.hostname}{port}{parts.path}"


def mirror_name(url: str, hex_length: int) -> str:
    """Return the folder name of a URL's mirror: readable, then a short hash.

    ``hex_length`` is the length of the commit ids (40 or 64): a repository has one kind of them.
    """
    clean = normalised(url)
    digest = hashlib.sha256(f"{hex_length} {clean}".encode("utf-8", "surrogateescape")).hexdigest()[:12]
    words = clean.partition("://")[2] or clean
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", words).strip("-.")[-_SLUG_LENGTH:].strip("-.")
    return f"{slug or 'repository'}-{digest}.git"


def is_relative(url: str) -> bool:
    """Whether git resolves the URL of a submodule against its parent's."""
    return url.startswith(("./", "../"))


def resolve_relative(base: str, url: str) -> str:
    """Resolve a submodule's URL against the URL of the repository that holds it, as git does.

    Each leading ``../`` takes the last component off ``base``; in ``host:path`` the last one that can go is
    the path, and the separator is a colon from then on.

    Raises:
        ValueError: there is no component left to take off.
    """
    if not is_relative(url):
        return url
    rest, separator = base.removesuffix("/"), "/"
    while is_relative(url):
        if url.startswith("./"):
            url = url[2:]
            continue
        url = url[3:]
        head, slash, _ = rest.rpartition("/")
        if not slash:
            head, colon, _ = rest.rpartition(":")
            if not colon:
                raise ValueError(f"cannot take one component off '{base}'")
            separator = ":"
        rest = head
    return f"{rest}{separator}{url}".removesuffix("/")


def repository_name(url: str) -> str:
    """Return the last component without ``.git``, to show to a person."""
    return PurePosixPath(normalised(url).replace(":", "/")).name or url


_CALLERS = (
    "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_COMMON_DIR GIT_NAMESPACE"
    " GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES"
)
_ALL_BRANCHES = "'+refs/heads/*:refs/remotes/origin/*'"


class ShellWord(str):
    """Text that is a shell word already, such as ``"$WORKSPACE"/src/ops``: it is not quoted again."""

    __slots__ = ()


def portable_commands(
    pin: Pin, into: str, *, url: ShellWord | None = None, base: str | None = None,
    patching: Callable[[str], Iterable[str]] = lambda _: (),
) -> tuple[str, ...]:  # fmt: skip
    """Return bash lines that fetch the tree of ``pin`` into ``into`` with plain git.

    For a shell with ``set -e``; the lines stand for themselves and must not be indented or reordered. A tree
    that is there already is only checked. Submodules that the pin skips come too: the build does not use
    them. ``url`` replaces the pin's, where it holds a shell variable. A patched pin is made of ``base`` by
    the lines that ``patching`` returns for a git command.
    """
    start = pin.commit if base is None else base
    where, origin = _word(into), _word(pin.url if url is None else url)
    local = ["-c protocol.file.allow=always"] if url is not None or is_local(pin.url) else []
    git = " ".join(["git", "-c core.autocrlf=false", *local, f"-C {where}"])
    lines = [
        f"unset {_CALLERS}",
        f"head=$(test ! -e {where}/.git || {git} rev-parse --quiet --verify HEAD || true)",
        f'if test "$head" != {pin.commit}; then',
        f"  git init --quiet {where}",
        f"  {git} config core.autocrlf false",
        f"  {git} config remote.origin.url {origin}",
        f"  {git} config remote.origin.fetch {_ALL_BRANCHES}",
        f"  {git} fetch --no-tags --depth 1 origin {start} || {git} fetch --tags origin",
        f"  {git} checkout --quiet --detach {start}",
        *patching(git),
        "fi",
    ]
    if pin.submodules:
        deepen = "git fetch --unshallow --tags origin || git fetch --tags origin"
        lines += [
            f"{git} submodule --quiet update --init --recursive --depth 1 || {{",
            "  # a server that gives no single commits: fetch whole histories, one level after the other",
            "  for level in 1 2 3 4; do",
            f"    {git} submodule --quiet foreach --recursive {shlex.quote(deepen)} || true",
            f"    if {git} submodule --quiet update --init --recursive; then break; fi",
            "  done; }",
        ]
    lines.append(f'test "$({git} rev-parse HEAD)" = {pin.commit}')
    if pin.tree is not None:
        lines.append(f'test "$({git} rev-parse HEAD^{{tree}})" = {pin.tree}')
    ignore = "untracked" if pin.submodules else "all"
    lines.append(f"{git} diff --quiet --ignore-submodules={ignore} HEAD")
    return tuple(lines)


def _word(text: str) -> str:
    return text if isinstance(text, ShellWord) else shlex.quote(text)
