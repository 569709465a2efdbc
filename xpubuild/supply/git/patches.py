"""Patched trees: changes applied on a pinned commit become a commit of their own, whose id they decide.

It is made in the user's mirror of the repository, with the pin as its parent and nothing of the machine in
it, so that the same pin and changes have the same id everywhere. From there it is a pin like any other:
checked out, proved, mirrored and served by what does so for every commit.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from xpubuild.engine.fingerprint import digest
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.bare import PINS, RepositoryStore
from xpubuild.supply.git.failures import require
from xpubuild.supply.git.git import Git, Report
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.serving import NAMED, remember
from xpubuild.supply.git.submodules import require_tree

#: Author, committer and time of every patched commit.
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "xpubuild"), ("EMAIL", "xpubuild@localhost"), ("DATE", "1000000000 +0000"))
}
#: One text for everybody, whatever the user has configured (diff.noprefix, diff.context).
_DIFF = (
    "-c", "core.quotePath=true", "-c", "diff.suppressBlankEmpty=false", "diff-tree", "-r", "--patch", "-U3",
    "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
    "--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=myers", "--indent-heuristic", "--submodule=short",
)  # fmt: skip
_APPLY = ("--whitespace=nowarn", "--no-ignore-whitespace")


@frozen
class Change:
    """The ``text`` of a patch, or a ``commit`` whose change is applied, or taken back with ``revert``."""

    what: str
    text: bytes = b""
    commit: str = ""
    revert: bool = False

    @property
    def key(self) -> str:
        """What the change is, whatever it is called."""
        what = self.commit or f"sha256:{hashlib.sha256(self.text).hexdigest()}"
        return f"{'revert' if self.revert else 'apply'} {what}"


@frozen
class Patched:
    """The commit that changes of ``base`` give, its tree, and all of them as one ``patch``.

    ``name`` is that by which a mirror remembers the commit, ``message`` what the commit says.
    """

    url: str
    base: str
    commit: str
    tree: str
    patch: str
    name: str
    message: str

    def shell_lines(self, git: str) -> tuple[str, ...]:
        """Return bash lines that make the commit on ``base``, which is checked out; ``git`` begins each."""
        who = " ".join(f"{name}={shlex.quote(value)}" for name, value in IDENTITY.items())
        words = f"commit-tree -p {self.base} -m {shlex.quote(self.message)}"
        return (
            f"  {git} apply --index {' '.join(_APPLY)} <<'END-OF-PATCH'\n{self.patch}END-OF-PATCH",
            f'  made=$(env {who} {git} -c i18n.commitEncoding=UTF-8 {words} "$({git} write-tree)")',
            f'  {git} checkout --quiet --detach "$made"',
        )


def patched(
    store: RepositoryStore, pin: Pin, changes: Sequence[Change], *, edits: Mapping[str, tuple[str, str]],
    locked: str | None = None, report: Report,
) -> Patched:  # fmt: skip
    """Apply changes on the tree of ``pin`` in the store, one after the other, unless it is there already.

    ``edits`` are texts that are replaced in files besides: path -> (old, new). ``locked`` is the patch of a
    lock, which is applied instead of the changes: their commits may be gone by now.

    Raises:
        SourceIntegrityError: a change does not apply; the message names file and line.
        FetchError: pin or change cannot be had.
        RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    git, mirror = store.git, store.mirror(pin.url, pin.commit)
    keys = [*(change.key for change in changes), *(f"{path}: {new}" for path, (_, new) in edits.items())]
    # What a lock has may be something else than what the changes give, for which others look by their name.
    name = f"patched-{digest([pin.commit, keys, *([] if locked is None else [locked])])[:40]}"
    message = "\n".join([f"{pin.commit} with changes", "", *keys])
    mirror.ensure(pin.commit, report=report)
    require_tree(mirror, pin)
    # Nothing tells whether what a stock has under the name is what the changes give: it is only asked where
    # they cannot be made without upstream's history.
    asks = locked is None and any(change.commit for change in changes)
    for place in (mirror.path, *(store.stocked(pin.url, pin.commit) if asks else ())):
        commit = git.parse(place, f"{NAMED}/{name}^{{commit}}")
        if commit and _says(git, place, commit, pin, message) and git.is_whole(place, commit):
            mirror.ensure(commit, report=report)
            break
    else:
        with scratch_folder("patch") as folder, mirror.locked(report, shared=True):
            if locked is not None:
                todo = [(Change("the patch of the lock"), locked.encode())]
            else:
                todo = [(change, _text(store, pin.url, change, folder, report)) for change in changes]
            own = Git(git.program, {**git.env, **IDENTITY, "GIT_INDEX_FILE": str(folder / "index")})
            _ask(own, mirror.path, "read-tree", pin.commit)
            for change, text in todo:
                (folder / "patch").write_bytes(text)
                _apply(own, mirror.path, pin, change, folder / "patch")
            for path, (old, new) in edits.items() if locked is None else ():
                # As the changes have left it.
                before = own.query(["cat-file", "blob", f":{path}"], git_dir=mirror.path).stdout
                if old.encode() not in before:
                    raise SourceIntegrityError(
                        f"{path} of {pin.url} cannot name the patched commit",
                        why=f"with the changes it does not have {old}, which it names without them",
                        fix="leave this file out of the patches, or put into them what it should name",
                        evidence={"commit": pin.commit, "path": path},
                    )
                (folder / "file").write_bytes(before.replace(old.encode(), new.encode()))
                blob = _ask(own, mirror.path, "hash-object", "-w", "--no-filters", str(folder / "file"))
                _ask(own, mirror.path, "update-index", "--cacheinfo", f"100644,{blob},{path}")
            tree, utf8 = _ask(own, mirror.path, "write-tree"), ("-c", "i18n.commitEncoding=UTF-8")
            commit = _ask(own, mirror.path, *utf8, "commit-tree", tree, "-p", pin.commit, "-m", message)
            _ask(own, mirror.path, "update-ref", f"{PINS}/{commit}", commit)
    remember(store, pin.url, name, commit)
    patch = os.fsdecode(git.query([*_DIFF, pin.commit, commit], git_dir=mirror.path).stdout)
    tree = git.parse(mirror.path, f"{commit}^{{tree}}")
    return Patched(pin.url, pin.commit, commit, tree, patch, name, message)


def _says(git: Git, git_dir: Path, commit: str, pin: Pin, message: str) -> bool:
    """Whether a commit says that it is made of the pin by these changes; in a shallow repository too."""
    head, _, body = git.query(["cat-file", "commit", commit], git_dir=git_dir).text.partition("\n\n")
    parents = [line for line in head.splitlines() if line.startswith("parent ")]
    return parents == [f"parent {pin.commit}"] and body == message


def _text(store: RepositoryStore, url: str, change: Change, folder: Path, report: Report) -> bytes:
    """Return a change as a patch; that of a commit needs its parent, which no pin was fetched with."""
    if not change.commit:
        return change.text
    history = replace(store, cache=folder, stocks=()).mirror(url, change.commit)
    history.ensure_parents(change.commit, report=report)
    sides = [f"{change.commit}^", change.commit]
    answer = store.git.query([*_DIFF, *(reversed(sides) if change.revert else sides)], git_dir=history.path)
    require(answer, f"reading the change of {change.commit}")
    return answer.stdout


def _apply(git: Git, git_dir: Path, pin: Pin, change: Change, file: Path) -> None:
    # The index alone, of which the tree is written: nothing is checked out yet that could be half patched.
    answer = git.query(["apply", "--cached", *_APPLY, "--verbose", str(file)], git_dir=git_dir)
    if answer.ok:
        return
    lines = [line for line in answer.stderr.splitlines() if not line.startswith("Checking patch")]
    failed = [line.removeprefix("error: ") for line in lines if line.startswith("error: patch failed: ")]
    raise SourceIntegrityError(
        f"{change.what} does not apply on {pin.commit[:12]} of {pin.url}",
        why="; ".join(failed) or "; ".join(lines[-2:]) or "git apply failed",
        fix="make the patch for this commit, or remove it from the recipe",
        evidence={"change": change.key, "commit": pin.commit, "hunk": lines},
    )


def _ask(git: Git, git_dir: Path, *words: str) -> str:
    return require(git.query(words, git_dir=git_dir), "making a patched tree")
