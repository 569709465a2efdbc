"""A mirror's files, entries, sets and page: what is taken, what is refused, what readers may do."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from xpubuild.engine.redact import recordable
from xpubuild.errors import FetchError, SourceIntegrityError, UsageError
from xpubuild.install.open_wheels import in_mirror
from xpubuild.install.planner import OpenWheel
from xpubuild.supply.mirror.entries import INDEX, EntryError, entry_in
from xpubuild.supply.mirror.index import read_manifest
from xpubuild.supply.mirror.naming import described
from xpubuild.supply.mirror.sets import MirrorSet, RepositoryUse
from xpubuild.supply.mirror.store import Mirror


def wheel(
    tmp_path: Path, name: str = "demo-1.0-py3-none-any.whl", data: bytes = b"a wheel"
) -> tuple[Path, str]:
    source = tmp_path / "downloads" / name
    source.parent.mkdir(exist_ok=True)
    source.write_bytes(data)
    return source, hashlib.sha256(data).hexdigest()


def add(mirror: Mirror, source: Path, digest: str) -> Path:
    return mirror.add_file(
        source, sha256=digest, name=source.name, kind="wheel", dist="demo", version="1.0",
        url="https://me:secret@index.example/demo.whl?token=abc#sha256=1",
    )  # fmt: skip


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror.open(tmp_path / "mirror", create=True)


def test_a_file_is_kept_by_its_hash_and_listed(tmp_path: Path, mirror: Mirror) -> None:
    source, digest = wheel(tmp_path)
    place = add(mirror, source, digest)
    assert place == mirror.path / "files" / digest / source.name
    assert add(mirror, source, digest) == place
    assert mirror.file(digest).read_bytes() == b"a wheel"
    (entry,) = mirror.files()
    assert (entry.dist, entry.version, entry.kind, entry.size) == ("demo", "1.0", "wheel", 7)
    assert entry.url == "https://index.example/demo.whl"
    assert "secret" not in (mirror.path / INDEX).read_text()
    assert f'files/{digest}/{source.name}#sha256={digest}"' in (mirror.path / "wheels.html").read_text()
    assert mirror.check() == []


def test_another_content_is_refused_and_leaves_nothing(tmp_path: Path, mirror: Mirror) -> None:
    source, _ = wheel(tmp_path)
    with pytest.raises(SourceIntegrityError, match="is not the requested file"):
        add(mirror, source, "0" * 64)
    assert mirror.files() == []
    assert sorted(path.name for path in mirror.path.iterdir()) == [".lock", "mirror.json"]


@pytest.mark.parametrize("name", ["../x.whl", "a/b.whl", "-x.whl", ".hidden", "", "a\nb"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, mirror: Mirror, name: str) -> None:
    source, digest = wheel(tmp_path)
    with pytest.raises(SourceIntegrityError, match="cannot be put into a mirror"):
        mirror.add_file(source, sha256=digest, name=name, kind="wheel")


def test_a_damaged_file_is_not_given_and_is_replaced(tmp_path: Path, mirror: Mirror) -> None:
    source, digest = wheel(tmp_path)
    place = add(mirror, source, digest)
    place.write_bytes(b"a wheal")
    with pytest.raises(SourceIntegrityError, match=place.name):
        mirror.file(digest)
    add(mirror, source, digest)
    assert mirror.file(digest).read_bytes() == b"a wheel"
    place.unlink()
    with pytest.raises(SourceIntegrityError, match=place.name):
        mirror.file(digest)
    with pytest.raises(FetchError) as caught:
        mirror.file("1" * 64)
    assert caught.value.exit_code == 30


def test_a_folder_of_somebody_is_refused_and_an_empty_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="is not a mirror"):
        Mirror.open(tmp_path / "theirs", create=True)
    with pytest.raises(UsageError, match="is not a folder"):
        Mirror.open(tmp_path / "theirs" / "thesis.tex", create=True)
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["thesis.tex"]
    with pytest.raises(FetchError) as caught:
        Mirror.open(tmp_path / "nowhere")
    assert caught.value.exit_code == 30
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "empty").mkdir()
    assert Mirror.open(tmp_path / "empty", create=True).check() == []


def test_readers_write_nothing(tmp_path: Path, mirror: Mirror) -> None:
    source, digest = wheel(tmp_path)
    add(mirror, source, digest)
    mirror.add_set(MirrorSet("demo", ("3.11",), (), (digest,)))
    (mirror.path / ".lock").unlink()

    def state() -> list[tuple[str, int]]:
        return [(str(path), path.stat().st_mtime_ns) for path in sorted(mirror.path.rglob("*"))]

    before = state()
    reader = Mirror.open(mirror.path)
    assert reader.file(digest).is_file()
    assert reader.check() == []
    assert [needed.files for needed in reader.sets()] == [(digest,)]
    assert state() == before


def test_a_set_comes_back_as_it_was(mirror: Mirror) -> None:
    use = RepositoryUse("torch", "https://example.com/x.git", "a" * 40, "third_party/x", "v1", True)
    needed = MirrorSet("2.8", ("3.10", "3.11"), (use,), ("b" * 64,), inputs="c" * 64)
    mirror.add_set(needed)
    mirror.add_set(needed)
    assert mirror.sets() == [needed]


def test_every_other_form_of_an_entry_is_damage(tmp_path: Path, mirror: Mirror) -> None:
    source, digest = wheel(tmp_path)
    add(mirror, source, digest)
    data = (mirror.path / INDEX).read_bytes().split(b"\n")[1]
    assert entry_in(data).name == source.name
    wrong_id = data.replace(f"file-{digest}".encode(), b"file-" + b"0" * 64)
    for wrong in (data.replace(b"demo", b"dem0"), data[:-2], b"", b"[]", b'"x"', b"\xff" + data, wrong_id):
        with pytest.raises(EntryError):
            entry_in(wrong)


def test_what_a_killed_writer_left_is_finished_or_removed(tmp_path: Path, mirror: Mirror) -> None:
    source, digest = wheel(tmp_path)
    other, other_digest = wheel(tmp_path, "other-1.0.tar.gz", b"other")
    add(mirror, source, digest)
    # Verified, and killed when one file of it was in its place already.
    finished = tmp_path / "second"
    donor = Mirror.open(finished, create=True)
    add(donor, other, other_digest)
    (mirror.path / ".stage-half").mkdir()
    (mirror.path / ".stage-half" / "junk").write_text("x")
    (mirror.path / ".commit-x").mkdir()
    os.link(finished / INDEX, mirror.path / ".commit-x" / INDEX)
    (finished / "files" / other_digest).rename(mirror.path / "files" / other_digest)
    assert Mirror.open(mirror.path).check() == []
    with mirror.writing():
        pass
    assert mirror.check() == []
    assert {item.name for item in mirror.files()} == {source.name, other.name}
    assert not [path for path in mirror.path.iterdir() if path.name.startswith((".stage", ".commit"))]


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://u:p@h.example:8443/a?x=1#y", "https://h.example:8443/a"),
        ("ssh://git@h.example/a.git", "ssh://git@h.example/a.git"),
        ("ssh://git:pw@h.example/a.git", "ssh://git@h.example/a.git"),
        ("git@h.example:a/b.git", "git@h.example:a/b.git"),
        ("/srv/a.git", "/srv/a.git"),
        ("file:///srv/a.git", "file:///srv/a.git"),
    ],
)
def test_no_credentials_are_kept(url: str, kept: str) -> None:
    assert recordable(url) == kept


def test_an_index_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    mirror = Mirror.open(tmp_path / "mirror", create=True)
    source, digest = wheel(tmp_path)
    add(mirror, source, digest)
    index = mirror.path / INDEX
    index.unlink(missing_ok=True)
    index.mkdir()
    (found,) = read_manifest(mirror.path).damages
    assert (found.path, found.what) == (INDEX, "is damaged")
    assert "not a regular file" in found.why


def test_a_wheel_without_a_known_hash_is_found_with_its_local_label(tmp_path: Path, mirror: Mirror) -> None:
    """As pip does: a pin of 1.0 means 1.0+xpu too, and never another release or a source distribution."""
    digests = {}
    for name in ("demo-1.0+xpu-py3-none-any.whl", "demo-1.0.tar.gz", "demo-1.0.1-py3-none-any.whl"):
        source, digests[name] = wheel(tmp_path, name, name.encode())
        kind, dist, version = described(name)
        mirror.add_file(source, sha256=digests[name], name=name, kind=kind, dist=dist, version=version)
    asked = OpenWheel("torch", "Demo", "1.0", ())
    assert list(in_mirror(mirror, asked)) == [digests["demo-1.0+xpu-py3-none-any.whl"]]
    assert list(in_mirror(mirror, replace(asked, version="2.0"))) == []
    assert list(in_mirror(None, asked)) == []
