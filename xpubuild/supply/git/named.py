"""Records the commit of a tag or branch when a mirror is filled, for offline runs."""

from __future__ import annotations

from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.failures import Failure, error_for, require
from xpubuild.supply.git.remote import remote_commit

_NAMED = "refs/xpubuild/named"
#: A repository's ids are taken to be SHA-1 as long as none of them is known.
_SOME_ID = "0" * 40


def named_commit(store: RepositoryStore, url: str, ref: str) -> str:
    """Return the commit that ``ref`` of ``url`` is at: as a stock remembers it, else as the server says.

    Offline, what the user's own mirror remembers counts too.

    Raises:
        FetchError: offline, and no mirror remembers it; or the server cannot be asked.
        RecipeError: ``url`` or ``ref`` is not one that git may be given.
    """
    own = [store.mirror(url, _SOME_ID).path] if store.offline else []
    for place in (*store.stocked(url, _SOME_ID), *own):
        name = f"{_NAMED}/{ref}^{{commit}}"
        known = store.git.query(["rev-parse", "--quiet", "--verify", name], git_dir=place)
        if known.ok:
            return known.text
    if store.offline:
        raise error_for(Failure("offline"), url, ref)
    return remote_commit(url, ref, git=store.git, cancel=store.cancel)


def remember(store: RepositoryStore, url: str, ref: str, commit: str) -> None:
    """Note in the mirror of ``url``, which holds ``commit``, that ``ref`` is at it.

    Raises:
        NoSpaceError, ToolchainError: it cannot be written.
    """
    git_dir = store.mirror(url, commit).path
    answer = store.git.query(["update-ref", f"{_NAMED}/{ref}", commit], git_dir=git_dir)
    require(answer, f"noting {ref} of {url}")
