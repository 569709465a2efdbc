"""A mirror on another machine over a real ssh, and what a far side that lies or fails comes to."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mirror_served import copy, without_locks
from support.indexes import noise, sha256
from support.ssh_server import SshServer, ssh_server

from xpubuild.errors import FetchError, SourceIntegrityError, UsageError
from xpubuild.supply.mirror.sets import MirrorSet
from xpubuild.supply.mirror.store import Mirror

pytestmark = pytest.mark.needs("ssh", "sshd")

_NAMES = ("demo-1.0-py3-none-any.whl", "tool-2.0-py3-none-any.whl", f"{'long' * 40}-1.0-py3-none-any.whl")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("sshd") / "own") as running:
        yield running


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """Fill a mirror with files, in a folder whose name a shell would take apart."""
    made = Mirror.open(tmp_path / "it's $(here) é" / "mirror", create=True)
    digests = []
    for number, name in enumerate(_NAMES):
        path = tmp_path / name
        path.write_bytes(noise(200_000, seed=number))
        digests.append(sha256(path.read_bytes()))
        made.add_file(path, sha256=digests[-1], name=name, kind="wheel")
    made.add_set(MirrorSet("demo", ("3.11",), (), tuple(sorted(digests))))
    return made.path


@pytest.fixture
def url(server: SshServer, mirror: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GIT_SSH_COMMAND", server.command)
    return server.url(mirror)


def test_a_copy_over_ssh(server: SshServer, mirror: Path, url: str, tmp_path: Path) -> None:
    before = server.logins()
    heard = copy(url, tmp_path / "copy")
    assert heard.sizes == [heard.counted]
    # The index, the sets, and all files at once.
    assert server.logins() - before == 3
    assert without_locks(tmp_path / "copy") == without_locks(mirror)
    assert copy(url, tmp_path / "copy").sizes == []
    assert server.logins() - before == 4


def test_damage_and_loss_on_the_far_side(mirror: Path, url: str, tmp_path: Path) -> None:
    wheel = next(mirror.rglob(_NAMES[0]))
    data = wheel.read_bytes()
    wheel.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(SourceIntegrityError, match=_NAMES[0]) as caught:
        copy(url, tmp_path / "copy")
    assert caught.value.exit_code == 31
    wheel.unlink()
    with pytest.raises(FetchError, match=_NAMES[0]):
        copy(url, tmp_path / "copy")
    wheel.symlink_to("/etc/passwd")
    with pytest.raises(SourceIntegrityError, match="is damaged") as caught:
        copy(url, tmp_path / "copy")
    assert caught.value.why == "it is not a regular file"
    wheel.unlink()
    wheel.write_bytes(data)
    # Two names of one file are two files to who reads them.
    other = next(mirror.rglob(_NAMES[1]))
    twin = mirror.parent / "twin"
    os.link(other, twin)
    heard = copy(url, tmp_path / "copy")
    assert heard.counted == heard.sizes[0]
    assert Mirror.open(tmp_path / "copy").check() == []


def test_a_far_side_that_cannot_be_had(
    server: SshServer, mirror: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FetchError, match="is not a mirror") as caught:
        copy(server.url(tmp_path / "nowhere"), tmp_path / "other")
    assert caught.value.exit_code == 30
    copy(url, tmp_path / "copy")
    key = shlex.split(server.command)[4]
    monkeypatch.setenv("GIT_SSH_COMMAND", server.command.replace(key, "/nonexistent"))
    heard = copy(url, tmp_path / "copy")
    assert "cannot be reached" in heard.notices[0]
    assert "Permission denied" in heard.notices[0]
    with pytest.raises(FetchError, match="cannot be reached"):
        copy(url, tmp_path / "another")
    monkeypatch.setenv("GIT_SSH_COMMAND", "ssh 'unfinished")
    with pytest.raises(UsageError):
        copy(url, tmp_path / "copy")


def _ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program in the place of ssh of a test."""
    program = tmp_path / "an ssh"
    program.write_text(f"#!{sys.executable}\nimport sys, os\nfrom pathlib import Path\n{script}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.delenv("GIT_SSH_COMMAND", raising=False)
    monkeypatch.setenv("GIT_SSH", str(program))


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"9\n../../evinone\n", "is damaged"),
        (b"link\n", "not a regular file"),
        (b"-1\n", "start-up file"),
        (b"9" * 23 + b"\n", "bytes"),
        (b"none\nnone\n", "it has no mirror.json"),
        (b"31\n", "ended early"),
        (b"31\n{", "ended early"),
        (b"none\n31\n{", "ended early"),
        (b"Welcome to the machine!\n" * 30, "start-up file"),
        (b"Welcome to a machine with a long name\n", "start-up file"),
        (b"", "mirror.json"),
    ],
)
def test_what_the_far_side_sends_unasked_goes_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes, says: str
) -> None:
    (tmp_path / "sent").write_bytes(sent)
    data = f"Path({str(tmp_path / 'sent')!r}).read_bytes()"
    _ssh(tmp_path, monkeypatch, f"sys.stdin.buffer.read()\nsys.stdout.buffer.write({data})\n")
    before = set(tmp_path.rglob("*"))
    with pytest.raises((SourceIntegrityError, FetchError)) as caught:
        copy("ssh://somewhere/srv/mirror", tmp_path / "copy")
    assert says in f"{caught.value} {caught.value.why}"
    assert caught.value.exit_code in (30, 31)
    assert set(tmp_path.rglob("*")) == before


def test_the_words_that_ssh_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = tmp_path / "words"
    _ssh(tmp_path, monkeypatch, f"Path({str(words)!r}).write_text('\\n'.join(sys.argv[1:]))\nsys.exit(255)\n")
    with pytest.raises(FetchError):
        copy("ssh://me@far.example:2222/srv/it's%20mine", tmp_path / "copy")
    said = words.read_text().splitlines()
    assert "BatchMode=yes" in said
    assert said[-4:-1] == ["-p", "2222", "me@far.example"]
    inner = shlex.split(said[-1])
    assert inner[:3] == ["exec", "sh", "-c"]
    assert shlex.split(inner[3])[:3] == ["cd", "/srv/it's mine", "&&"]


def test_a_far_side_that_ends_in_the_middle(
    mirror: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed on the way: what came whole is kept, and the next copy carries on with it."""
    whole = tmp_path / "copy"
    program = f"""
import subprocess
words = [word.replace("exec sh", "sh") for word in sys.argv[-1:]]
answer = subprocess.run(["sh", "-c", *words], stdin=sys.stdin, stdout=subprocess.PIPE).stdout
cut = len(answer) > 500_000 and not os.path.exists({str(tmp_path / "went")!r})
sys.stdout.buffer.write(answer[:-100] if cut else answer)
if cut:
    open({str(tmp_path / "went")!r}, "w")
    sys.exit(int(os.environ["XPUBUILD_TEST_STATUS"]))
"""
    for status, says in (("255", "cannot be reached"), ("141", "ended early")):
        (tmp_path / "went").unlink(missing_ok=True)
        shutil.rmtree(whole, ignore_errors=True)
        _ssh(tmp_path, monkeypatch, program.replace('os.environ["XPUBUILD_TEST_STATUS"]', status))
        with pytest.raises(FetchError) as caught:
            copy(url, whole)
        assert says in f"{caught.value} {caught.value.why}"
        heard = copy(url, whole)
        assert heard.counted == heard.sizes[0]
        assert Mirror.open(whole).check() == []
