"""The repositories of a mirror as files: which files belong to one, and whether git finds them valid."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from xpubuild.engine.process import Cancel
from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.git.git import Git
from xpubuild.supply.mirror.entries import GIT, IN_REPOSITORY, PIN_FOLDER, Entry, FileRecord
from xpubuild.supply.mirror.reading import digest_of, walk

#: What a writer changes in place; everything else is written once.
_MUTABLE = ("shallow", "refs/xpubuild/heads/", "refs/xpubuild/tags/", "refs/xpubuild/named/")
_SETTINGS = (b"allowAnySHA1InWant", b"repositoryformatversion")
_ORDER = ("objects/", "HEAD", "config", "shallow", "refs/")
_PACK_ORDER = (".pack", ".rev", ".idx")


def records_of(root: Path, name: str, old: Entry | None) -> dict[str, FileRecord]:
    """Return the records of all files that belong to the repository ``git/<name>``.

    What is written once keeps the record that it has: damage is not made right by a second look.

    Raises:
        SourceIntegrityError: a pin's reference holds something else than its commit, or a file that is
            written once is gone.
    """
    known = {record.path: record for record in old.files} if old is not None else {}
    found: dict[str, FileRecord] = {}
    folder = root / GIT / name
    for inside, item in walk(folder):
        if not IN_REPOSITORY.fullmatch(inside) or not item.is_file(follow_symlinks=False):
            continue
        path = f"{GIT}/{name}/{inside}"
        if path in known and not inside.startswith(_MUTABLE):
            found[path] = known[path]
        else:
            found[path] = FileRecord(path, *digest_of(folder / inside))
            if inside.startswith(PIN_FOLDER) and (folder / inside).read_text("utf-8", "replace").strip() != (
                inside.removeprefix(PIN_FOLDER)
            ):
                raise SourceIntegrityError(
                    f"{folder / inside} is damaged",
                    why="it does not have the commit of its name",
                    fix="run the same command again; the repository is fetched again",
                )
    _require_kept(root, name, known, found)
    return found


def _require_kept(root: Path, name: str, known: Mapping[str, FileRecord], found: Collection[str]) -> None:
    prefix = f"{GIT}/{name}/"
    lost = sorted(
        path for path in known if path not in found and not path.removeprefix(prefix).startswith(_MUTABLE)
    )
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise SourceIntegrityError(
            f"{root / lost[0]} is missing{more}",
            why="the index lists it",
            fix="with a network, fetch the same recipe again: only damaged files are downloaded again",
            evidence={"mirror": str(root), "missing": lost},
        )


def pins_of(records: Mapping[str, FileRecord], name: str) -> frozenset[str]:
    """Return the commits that the references among ``records`` keep."""
    prefix = f"{GIT}/{name}/{PIN_FOLDER}"
    return frozenset(path.removeprefix(prefix) for path in records if path.startswith(prefix))


def holds(git: Git, git_dir: Path, commit: str) -> bool:
    """Whether a repository keeps ``commit`` with every object of its tree; nothing is written."""
    if not git_dir.is_dir():
        return False
    pin = git.query(["rev-parse", "--quiet", "--verify", f"{PIN_FOLDER}{commit}^{{commit}}"], git_dir=git_dir)
    whole = ["rev-list", "--objects", "--quiet", "--no-walk", commit]
    return pin.text == commit and git.query(whole, git_dir=git_dir).ok


def is_sound(git: Git, root: Path, name: str, *, cancel: Cancel) -> bool:
    """Whether a repository whose record is lost may stay: nothing foreign in it, every object hashed by git.

    Objects are named by their content, so with the pinned commits known nothing else has to be trusted.
    """
    folder = root / GIT / name
    inside = [path for path, _ in walk(folder)]
    if any(not IN_REPOSITORY.fullmatch(path) or (folder / path).is_symlink() for path in inside):
        return False
    if not is_plain(folder):
        return False
    packs = {path for path in inside if path.endswith(".pack")}
    if packs != {path.removesuffix(".idx") + ".pack" for path in inside if path.endswith(".idx")}:
        return False
    pins = [path.removeprefix(PIN_FOLDER) for path in inside if path.startswith(PIN_FOLDER)]
    if not pins or not all(holds(git, folder, pin) for pin in pins):
        return False
    for line in (folder / "shallow").read_text("ascii", "replace").split() if "shallow" in inside else ():
        if git.query(["cat-file", "-t", line], git_dir=folder).text != "commit":
            return False
    return git.run(["fsck", "--full", "--no-dangling", "--no-reflogs"], git_dir=folder, cancel=cancel).ok


def is_mutable(inside: str) -> bool:
    """Whether a fetch may change a file of a repository in place."""
    return inside.startswith(_MUTABLE)


def is_plain(folder: Path) -> bool:
    """Whether HEAD and config are such as a fresh repository has."""
    try:
        head, config = (folder / "HEAD").read_bytes(), (folder / "config").read_bytes()
    except OSError:
        return False
    sections = {line.strip() for line in config.splitlines() if line.startswith(b"[")}
    allowed = {b"[core]", b"[uploadpack]", b"[gc]", b"[extensions]"}
    lines = [line.strip().partition(b"=")[0].strip() for line in config.splitlines()]
    keys = {line for line in lines if line and not line.startswith(b"[")}
    return (
        head.startswith(b"ref: refs/heads/")
        and sections <= allowed
        and keys <= {*_SETTINGS, b"filemode", b"bare", b"auto", b"objectformat", b"objectFormat"}
    )


def order(path: str) -> tuple[int, int, str]:
    """Return the sort key by which files are put into a repository: references after what they need."""
    inside = path.split("/", 2)[-1]
    rank = next((number for number, start in enumerate(_ORDER) if inside.startswith(start)), len(_ORDER))
    pack = next((number for number, end in enumerate(_PACK_ORDER) if inside.endswith(end)), len(_PACK_ORDER))
    return rank, pack, path


def merged_shallow(*texts: bytes) -> bytes:
    """Return the content of ``shallow`` that ends history wherever one of ``texts`` does."""
    return b"".join(sorted({line + b"\n" for text in texts for line in text.splitlines()}))
