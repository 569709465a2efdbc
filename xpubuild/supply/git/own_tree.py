"""A tree that somebody works in: what of it is theirs, how a build keeps from taking that back, and its copy.

A build clones repositories into the tree and checks them out at every configure: PyTorch's CMake does so with
torch-xpu-ops, at the commit that a pin file names, CMake's own scripts with oneDNN and sycl-tla. Where one of
them has another commit than a build has put there, the pin file follows it, and a git in front of the real
one leaves its work tree as it is.

Builds write into a synced copy, and nothing into the tree. Files have the times of the originals, so that a
build of the copy compiles what was changed and no more. What the tree's own ``.gitignore`` names is left out:
it is what builds there have made. A repository of the copy has the commit and the index of the original, and
reads the objects of that one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path

from xpubuild.engine.files import explained, write_atomic, write_changed
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.redact import recordable
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git import worktree
from xpubuild.supply.git.edits import Built, read_built
from xpubuild.supply.git.failures import require
from xpubuild.supply.git.git import Git, object_format
from xpubuild.supply.git.pin import is_id
from xpubuild.supply.git.serving import ConfigureItem, asked_by
from xpubuild.supply.git.submodules import GITLINK

_SHOWN = 10
_SHIM = """#!/bin/sh
# What is worked on in these folders is built as it is: no configure checks it out again.
case "$(pwd -P)" in
{places}) for word; do
    case "$word" in
      -*) ;;
      fetch | checkout | switch | pull | reset | stash | rebase | submodule) exit 0 ;;
      *) break ;;
    esac
  done ;;
esac
exec {git} "$@"
"""


@frozen
class Clone:
    """A repository at ``path`` that a build has cloned into a tree, at the commit ``head``.

    ``kept`` where the build may not move it. ``pin`` is the file that asks for another commit and is to
    follow it, or "". ``followed`` is one that does so, or will.
    """

    path: str
    head: str
    kept: bool
    pin: str = ""
    followed: str = ""


@frozen
class OwnTree:
    """A tree with somebody's work: ``digest`` of what differs, the paths ``files``, and its clones.

    ``git`` is the program that builds are to run, ``base`` is where HEAD is and how far that is from the pin.
    """

    top: str
    digest: str
    base: str
    git: str
    files: tuple[str, ...] = ()
    clones: tuple[Clone, ...] = field(default=())

    def summary(self) -> str:
        """Return in words what is built."""
        shown = [*self.files[:_SHOWN], *(["..."] if len(self.files) > _SHOWN else [])]
        differs = f"{len(self.files)} paths differ: {', '.join(shown)}"
        return f"{self.top} as it is, {self.base}; {differs if shown else 'nothing differs from it'}"

    def shim(self, tree: Path) -> str:
        """Return the text of the git that builds of it run; ``tree`` is where it is built."""
        kept = [str((tree / item.path).resolve()) for item in self.clones if item.kept]
        places = " | ".join(map(shlex.quote, kept)) or "''"
        return _SHIM.format(places=places, git=shlex.quote(self.git))


def own_tree(
    into: Path, *, git: Git, skip: Collection[str] = (), items: Sequence[ConfigureItem] = (),
    pin: str | None = None, whole: bool = False, notes: Path | None = None,
) -> OwnTree | None:  # fmt: skip
    """Return what differs in ``into`` and its submodules from what was checked out; None if nothing does.

    For a developer who builds with edits on purpose: the same edits give the same digest. ``skip`` are
    submodules that need not be there, ``items`` what a build clones into the tree, ``pin`` the commit that
    would be built else. With ``whole`` the tree is somebody's own: the digest is of its commits, too, and
    what its ``.gitignore`` names does not count. ``notes`` is the folder of what builds in place have made.

    Raises:
        SourceIntegrityError: ``into`` is not a checkout, or git cannot read it.
    """
    git_dir = worktree.require_git_dir(into)
    total, files = hashlib.sha256(), list[str]()
    built = read_built(notes or git_dir) if notes or not whole else Built()
    repositories = list(worktree.walk(git, into, git_dir, submodules=True, skip=skip))
    clones = tuple(_clones(git, into, git_dir, items, built))
    clones = tuple(replace(item, kept=True, followed="") for item in clones) if whole else clones
    followed = {clone.followed for clone in clones}
    done = worktree.read_done(git_dir) if worktree.read_move(git_dir) is None else None
    links: dict[str, str | None] = {"": done}
    for item in repositories:
        if isinstance(item, worktree.Missing):
            files.append(item.path)
            total.update(os.fsencode(item.path) + b"\0missing\n")
            continue
        moved = links.get(item.path) not in (None, item.head)
        files += [item.path or "."] if moved else []
        total.update((os.fsencode(item.path) + f"\0{item.head}\n".encode("ascii")) * (moved + whole))
        own = item.links()
        links |= {item.place(link): commit for link, commit in own.items()}
        for change in sorted(item.changes, key=lambda change: os.fsencode(change.path)):
            place = item.place(change.path)
            at_another = change.path in own and not change.staged
            made = change.kind == worktree.IGNORED if notes else left_out(item, change, items)
            no_work = change.extra and (built.explains(place, change) or (whole and made))
            if not at_another and place not in followed and not no_work:
                files.append(place)
                total.update(os.fsencode(place) + b"\0" + _content(item.work_tree / change.path))
    if not files and not whole:
        return None
    base = _base(git, git_dir, pin)
    return OwnTree(str(into), total.hexdigest(), base, git.program, tuple(files), clones)


def left_out(item: worktree.Repository, change: worktree.Change, items: Sequence[ConfigureItem]) -> bool:
    """Whether a file that git does not track is no part of somebody's tree, but was made by a build there."""
    if change.kind == worktree.IGNORED or not change.clone:
        return change.kind == worktree.IGNORED
    ignored = {one.path for one in item.changes if one.kind == worktree.IGNORED and not one.clone}
    parts = change.clone.rstrip("/").split("/")
    asked = {one.path for one in items if one.path is not None and not one.path.startswith("build/")}
    below = any("/".join(parts[:end]) in ignored for end in range(1, len(parts) + 1))
    return below and item.place(change.clone).rstrip("/") not in asked


def _base(git: Git, git_dir: Path, pin: str | None) -> str:
    head = git.parse(git_dir, "HEAD^{commit}")
    branch = git.query(["symbolic-ref", "--quiet", "--short", "HEAD"], git_dir=git_dir).text
    text = f"{head[:12]} of {branch}" if branch else head[:12]
    if pin is None or head == pin:
        return text if pin is None else f"{text}, the pin"
    count = git.query(["rev-list", "--left-right", "--count", f"{pin}...HEAD"], git_dir=git_dir)
    if not count.ok:
        return f"{text}; the pin {pin[:12]} is not in this repository"
    behind, ahead = count.text.split()
    return f"{text}, {ahead} commits ahead of the pin {pin[:12]} and {behind} behind it"


def _content(file: Path) -> bytes:
    """Return one line for what is at ``file``: kind, executable bit and the sha256 of the content."""
    if file.is_symlink():
        return b"link " + os.fsencode(file.readlink()) + b"\n"
    if not file.is_file():
        return b"folder\n" if file.is_dir() else b"gone\n"
    mode = "755" if os.access(file, os.X_OK) else "644"
    return f"file {mode} {file_sha256(file)}\n".encode("ascii")


def _clones(
    git: Git, top: Path, git_dir: Path, items: Sequence[ConfigureItem], built: Built
) -> Iterator[Clone]:
    for item in items:
        place = worktree.find_git_dir(top / item.path) if item.path else None
        if place is None or item.path is None:
            continue
        head, pin = git.parse(place, "HEAD^{commit}"), item.pin_file
        asked, base, text, url = None, None, "", item.replaces or item.url
        if pin is not None:
            file, blob = top / pin, git.query(["cat-file", "blob", f"HEAD:{pin}"], git_dir=git_dir)
            text = file.read_text("utf-8", "replace") if file.is_file() else ""
            asked, base = asked_by(text, url), asked_by(blob.stdout.decode("utf-8", "replace"), url)
        words = [word for word in (asked, base) if word is not None]
        ids = {word: word if is_id(word) else git.parse(place, f"{word}^{{commit}}") for word in words}
        # A build has put it there: who edits the pin file then, or moves the tree, wants the build to follow.
        builds = f"{item.path}/@{head}" in built.made or head == ids.get(base or "")
        there = asked is not None and ids[asked] == head
        owned = built.pins.get(pin or "")
        # Where the file is as we wrote it, who moved the clone back to the pin wants it to follow there, too.
        own = pin is not None and (not builds or asked == owned != base) and len(text.split()) == 1
        follows = own and not there and asked in (base, owned)
        yield Clone(
            item.path, head, not builds or there or asked is None or follows,
            pin or "" if follows else "", pin or "" if own and not builds and (there or follows) else "",
        )  # fmt: skip


def prepare_build(top: Path, items: Sequence[ConfigureItem]) -> Iterator[str]:
    """Write the commits of clones that are somebody's work into the pin files of a tree; yield what was done.

    Raises:
        SourceIntegrityError: ``top`` is not a checkout.
    """
    git, git_dir = Git.open(), worktree.require_git_dir(top)
    for clone in _clones(git, top, git_dir, items, read_built(git_dir)):
        if clone.pin:
            built = read_built(git_dir)
            replace(built, pins={**built.pins, clone.pin: clone.head}).write(git_dir)
            write_atomic(top / clone.pin, f"{clone.head}\n".encode())
            yield f"{clone.pin} follows {clone.path}, which is at {clone.head}"


_LIST = "xpubuild-copied.json"
#: FICLONE of linux/fs.h: both files share their blocks, where the file system can do that.
_CLONE = 0x40049409


def synchronise(source: Path, into: Path, items: Sequence[ConfigureItem], skip: Sequence[str]) -> int:
    """Make ``into`` hold what ``source`` does; return how many files were copied or removed.

    What builds have made in ``into`` stays. ``items`` are repositories that a build clones into the tree, and
    ``skip`` submodules that need not be there.

    Raises:
        SourceIntegrityError: ``source`` is no checkout, lacks a submodule, or git cannot read it.
        NoSpaceError, ToolchainError: ``into`` cannot be written.
    """
    git, wanted, changed = Git.open(), dict[str, Path](), 0
    with explained(into, f"copying {source}"):
        for item in _repositories(git, source, items, skip):
            repository = into / item.path
            if repository.is_symlink() or repository.is_file():
                repository.unlink()
            repository.mkdir(parents=True, exist_ok=True)
            _make_repository(git, item, repository / ".git")
            names = [entry.path for entry in item.entries if entry.mode != GITLINK]
            own = (one for one in item.changes if one.extra and not one.clone)
            names += [one.path for one in own if not left_out(item, one, items)]
            for name in names:
                file = item.work_tree / name
                if file.is_symlink() or file.is_file():
                    wanted[item.place(name)] = file
        note = into / ".git" / _LIST
        with contextlib.suppress(OSError, ValueError):
            for name in sorted(set(json.loads(note.read_text("utf-8"))) - wanted.keys()):
                changed += _remove(into, name)
        # Before the first of them is there: a copy that is cut short knows what it has to remove.
        write_atomic(note, json.dumps(sorted(wanted)).encode())
        for name, file in wanted.items():
            changed += _copy(file, into / name)
    return changed


def is_copy(tree: Path) -> bool:
    """Whether a tree is a copy of xpubuild's: what somebody works in is elsewhere."""
    return (tree / ".git" / _LIST).is_file()


def _repositories(
    git: Git, source: Path, items: Sequence[ConfigureItem], skip: Sequence[str]
) -> Iterator[worktree.Repository]:
    """Yield those of the tree, and those that a build has cloned into it, by their places below the top."""
    clones = []
    for item in worktree.walk(git, source, worktree.require_git_dir(source), submodules=True, skip=skip):
        if isinstance(item, worktree.Missing):
            raise SourceIntegrityError(
                f"the submodule {item.path} of {source} is not checked out",
                why="a build of the tree as it is needs it",
                fix="check it out",
                commands=(f"git -C '{source}' submodule update --init --recursive",),
            )
        yield item
        clones += [item.place(one.clone).rstrip("/") for one in item.changes
                   if one.kind == worktree.COMMIT and not left_out(item, one, items)]  # fmt: skip
    for place in clones:
        git_dir = worktree.find_git_dir(source / place)
        for item in (
            worktree.walk(git, source / place, git_dir, submodules=False) if git_dir is not None else ()
        ):
            if isinstance(item, worktree.Repository):
                yield replace(item, path=f"{place}/{item.path}".rstrip("/"))


def _make_repository(git: Git, item: worktree.Repository, place: Path) -> None:
    """Make or renew the repository of a copy, at the commit and with the index of the original."""
    common = Path(git.query(["rev-parse", "--git-common-dir"], git_dir=item.git_dir).text)
    common = common if common.is_absolute() else item.git_dir / common
    head = item.head or "0" * 40
    url = git.query(["config", "--get", "remote.origin.url"], git_dir=item.git_dir).text
    kind = f"--object-format={object_format(head)}"
    commands = [["init", "--quiet", "--template=", kind, str(place.parent.absolute())]]
    set_url = ["--git-dir", str(place.absolute()), "config", "remote.origin.url", recordable(url)]
    for words in [*commands, set_url] if url else commands:
        require(git.query(words), f"copying {item.work_tree}")
    alternates = f"{common.resolve() / 'objects'}\n".encode("utf-8", "surrogateescape")
    write_changed(place / "objects/info/alternates", alternates)
    write_changed(place / "HEAD", f"{head}\n".encode())
    for name, theirs in (("index", item.git_dir), ("shallow", common)):
        if (theirs / name).is_file():
            _copy(theirs / name, place / name)


def _remove(into: Path, name: str) -> int:
    file = into / name
    if not os.path.lexists(file) or (file.is_dir() and not file.is_symlink()):
        return 0
    file.unlink()
    with contextlib.suppress(OSError):
        for folder in file.parents:
            if folder == into:
                break
            folder.rmdir()
    return 1


def _copy(file: Path, place: Path) -> int:
    """Make ``place`` the same file or link, unless size, mode and time say that it is."""
    theirs = file.lstat()
    with contextlib.suppress(FileNotFoundError):
        own = place.lstat()
        if _mark(own) == _mark(theirs) and (
            not stat.S_ISLNK(theirs.st_mode) or place.readlink() == file.readlink()
        ):
            return 0
        if stat.S_ISDIR(own.st_mode):
            shutil.rmtree(place)
        else:
            place.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(theirs.st_mode):
        place.symlink_to(file.readlink())
    else:
        with file.open("rb") as one, place.open("xb") as other:
            try:
                fcntl.ioctl(other.fileno(), _CLONE, one.fileno())
            except OSError:
                shutil.copyfileobj(one, other, 1 << 20)
        place.chmod(stat.S_IMODE(theirs.st_mode) | stat.S_IWUSR)
    os.utime(place, ns=(theirs.st_atime_ns, theirs.st_mtime_ns), follow_symlinks=False)
    return 1


def _mark(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mode | stat.S_IWUSR, status.st_size, status.st_mtime_ns
