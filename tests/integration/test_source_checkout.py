"""Pinned checkouts with nested submodules: the same tree as plain git makes, without plain git's traps."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.gitserver import (
    GIT_ENV,
    GitServer,
    Nested,
    Upstream,
    git,
    git_server,
    gitmodules,
    plain_clone,
    snapshot,
)

from xpubuild.engine.environment import base_environment
from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.supply.git.bare import Retry
from xpubuild.supply.git.checkout import CheckoutReport, checkout
from xpubuild.supply.git.edits import WHEEL
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.integrity import begin_build, verify_checkout
from xpubuild.supply.git.own_tree import own_tree
from xpubuild.supply.git.pin import Pin


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Nested:
    return Nested.make(tmp_path_factory.mktemp("srv"))


@pytest.fixture
def server(nested: Nested) -> Iterator[GitServer]:
    with git_server(nested.top.path.parent) as running:
        yield running


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "mein Arbeitsplatz ü" / "src" / "top"


def _checkout(pin: Pin, into: Path, **options: object) -> CheckoutReport:
    arguments = {
        "cache": into.parents[1] / "cache",
        "jobs": 2,
        "env": base_environment(),
        "report": lambda _: None,
        "retry": Retry(attempts=3, first_delay_s=0.01),
        **options,
    }
    return checkout(pin, into, **arguments)  # type: ignore[arg-type]


def test_the_tree_is_the_one_that_plain_git_makes(
    nested: Nested, server: GitServer, into: Path, tmp_path: Path
) -> None:
    pin = Pin(server.url("top.git"), nested.first)
    report = _checkout(pin, into)
    assert snapshot(into) == plain_clone(pin.url, nested.first, tmp_path / "plain")
    assert report.action == "made"
    assert set(report.fetched) == {server.url(f"{name}.git") for name in ("top", "mid", "inner")}
    assert [entry["path"] for entry in report.evidence["submodules"]] == [
        "third_party/mid",
        "third_party/mid/deps/inner",
    ]


def test_again_nothing_is_done_and_the_network_is_not_used(
    nested: Nested, server: GitServer, into: Path
) -> None:
    pin = Pin(server.url("top.git"), nested.first)
    _checkout(pin, into)
    before = {path: path.stat().st_mtime_ns for path in into.rglob("*")}
    asked = len(server.requests)
    shutil.rmtree(into.parents[1] / "cache")
    report = _checkout(pin, into)
    assert (report.action, report.fetched) == ("unchanged", ())
    assert len(server.requests) == asked
    assert {path: path.stat().st_mtime_ns for path in into.rglob("*")} == before


def test_a_second_workspace_needs_no_network(nested: Nested, server: GitServer, into: Path) -> None:
    pin = Pin(server.url("top.git"), nested.first)
    _checkout(pin, into)
    asked = len(server.requests)
    other = into.with_name("other")
    report = _checkout(pin, other, offline=True)
    assert (report.action, report.fetched) == ("made", ())
    assert len(server.requests) == asked
    assert snapshot(other) == snapshot(into)


@pytest.mark.parametrize("there_and_back", [False, True])
def test_a_clean_checkout_moves_to_another_pin(
    nested: Nested, server: GitServer, into: Path, tmp_path: Path, there_and_back: bool
) -> None:
    url = server.url("top.git")
    _checkout(Pin(url, nested.first), into)
    begin_build(into, Pin(url, nested.first), WHEEL)
    (into / "src" / "a.o").write_text("a build output")
    untouched = (into / "run.sh").stat().st_mtime_ns
    git("branch", "my-branch", cwd=into)
    wanted = nested.second
    assert _checkout(Pin(url, wanted), into).action == "moved"
    assert not (into / "third_party" / "mid" / "deps" / "inner").exists()
    if there_and_back:
        wanted = nested.first
        assert _checkout(Pin(url, wanted), into).action == "moved"
    found = snapshot(into)
    assert found.pop("src/a.o") == "- b'a build output'"
    assert found == plain_clone(url, wanted, tmp_path / "plain")
    assert (into / "run.sh").stat().st_mtime_ns == untouched
    assert git("rev-parse", "my-branch", cwd=into) == nested.first
    assert not list((into / ".git").glob("xpubuild-move*"))
    assert not list((into / ".git").glob("xpubuild-trash*"))


def test_an_empty_folder_is_filled_and_a_full_one_is_left_alone(
    nested: Nested, server: GitServer, into: Path
) -> None:
    into.mkdir(parents=True)
    (into / "notes.txt").write_text("mine")
    with pytest.raises(SourceIntegrityError, match="already exists and is not a checkout") as caught:
        _checkout(Pin(server.url("top.git"), nested.first), into)
    assert caught.value.exit_code == 31
    assert caught.value.commands
    assert server.requests == []
    (into / "notes.txt").unlink()
    assert _checkout(Pin(server.url("top.git"), nested.first), into).action == "made"


def test_the_tree_id_of_the_lock_is_checked_before_anything_is_written(
    nested: Nested, server: GitServer, into: Path
) -> None:
    url = server.url("top.git")
    tree = git("rev-parse", f"{nested.first}^{{tree}}", cwd=nested.top.path)
    with pytest.raises(SourceIntegrityError, match="another tree than in the lock"):
        _checkout(Pin(url, nested.first, tree="f" * 40), into)
    assert not into.exists()
    assert _checkout(Pin(url, nested.first, tree=tree), into).evidence["tree"] == tree


def test_the_users_line_end_and_filter_settings_do_not_change_the_tree(
    tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream.make(tmp_path / "srv" / "x.git")
    attributes = "*.bin filter=lfs\n*.txt text\n"
    commit = upstream.commit({".gitattributes": attributes, "a.txt": "1\n2\n", "b.bin": "pointer\n"})
    config = tmp_path / "config"
    config.write_text(
        "[core]\n\tautocrlf = true\n\teol = crlf\n\tsymlinks = false\n\texcludesFile = /dev/null\n"
        f'[filter "lfs"]\n\tsmudge = touch {tmp_path}/ran\n\trequired = true\n'
        "[submodule]\n\trecurse = true\n[init]\n\tdefaultBranch = trunk\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    _checkout(Pin(str(upstream.path), commit), into)
    assert (into / "a.txt").read_bytes() == b"1\n2\n"
    assert (into / "b.bin").read_bytes() == b"pointer\n"
    assert not (tmp_path / "ran").exists()
    assert git("config", "core.autocrlf", cwd=into) == "false"


FILTER = '[filter "my.own"]\n\tsmudge = sed s/ours/theirs/\n\tclean = sed s/theirs/ours/\n\trequired = true\n'


@pytest.mark.parametrize("where", ["user", "environment"])
def test_a_filter_of_the_user_changes_no_file(
    where: str, tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git itself calls such a tree clean: the filter that wrote it also undoes it when git compares."""
    upstream = Upstream.make(tmp_path / "srv" / "x.git")
    attributes = "*.c filter=my.own\n*.bat text eol=crlf\n"
    commit = upstream.commit({".gitattributes": attributes, "a.c": "int ours;\n", "b.bat": "ours\n"})
    config, more = tmp_path / "config", tmp_path / "more"
    more.write_text(FILTER)
    config.write_text("")
    if where == "user":
        config.write_text(FILTER)
    elif where == "condition":
        config.write_text(f'[includeIf "gitdir:{tmp_path}/"]\n\tpath = {more}\n')
    elif where == "process":
        config.write_text('[filter "my.own"]\n\tprocess = false\n\trequired = true\n')
    else:
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "filter.my.own.smudge")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", "sed s/ours/theirs/")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    pin = Pin(str(upstream.path), commit)
    _checkout(pin, into)
    assert (into / "a.c").read_bytes() == b"int ours;\n"
    assert (into / "b.bat").read_bytes() == b"ours\r\n"
    assert verify_checkout(into, pin)["commit"] == commit
    (into / "a.c").write_text("int theirs;\n")
    with pytest.raises(SourceIntegrityError):
        verify_checkout(into, pin)


def test_a_failing_submodule_leaves_nothing_at_the_place_and_is_named(
    nested: Nested, server: GitServer, into: Path, tmp_path: Path
) -> None:
    root = tmp_path / "srv"
    shutil.copytree(nested.top.path.parent, root)
    shutil.rmtree(root / "inner.git")
    with pytest.raises(FetchError) as caught:
        _checkout(Pin((root / "top.git").as_uri(), nested.first), into)
    assert caught.value.evidence["reason"] == "not-found"
    assert "inner.git" in caught.value.what
    assert not into.exists()
    shutil.copytree(nested.top.path.parent / "inner.git", root / "inner.git")
    report = _checkout(Pin((root / "top.git").as_uri(), nested.first), into)
    assert report.fetched == ((root / "inner.git").as_uri(),)


def test_a_tampered_mirror_does_not_reach_the_tree(nested: Nested, server: GitServer, into: Path) -> None:
    pin = Pin(server.url("top.git"), nested.first)
    _checkout(pin, into)
    for pack in (into.parents[1] / "cache" / "git").glob("*mid*.git/objects/pack/*.pack"):
        pack.chmod(0o644)
        data = bytearray(pack.read_bytes())
        data[20] ^= 0xFF
        pack.write_bytes(bytes(data))
    other = into.with_name("other")
    report = _checkout(pin, other)
    assert snapshot(other) == snapshot(into)
    assert "mid" in str([*report.fetched, *(into.parents[1] / "cache" / "git").glob("*.damaged")])


_CHILD = """
    import sys
    from pathlib import Path
    from xpubuild.engine.environment import base_environment
    from xpubuild.supply.git.checkout import checkout
    from xpubuild.supply.git.pin import Pin
    url, commit, into, cache = sys.argv[1:]
    report = checkout(Pin(url, commit), Path(into), cache=Path(cache), jobs=2, env=base_environment(),
                      report=lambda _: None)
    print(report.action)
"""


def test_several_at_once_share_one_mirror_and_one_place(
    nested: Nested, server: GitServer, into: Path
) -> None:
    script = into.parents[2] / "child.py"
    script.write_text(textwrap.dedent(_CHILD))
    places = [into, into, into.with_name("other")]
    children = [
        subprocess.Popen(
            [sys.executable, str(script), server.url("top.git"), nested.first, str(place),
             str(into.parents[1] / "cache")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for place in places
    ]  # fmt: skip
    ended = [(*child.communicate(timeout=60), child.returncode) for child in children]
    assert [code for _, _, code in ended] == [0, 0, 0], ended
    assert sorted(out.strip() for out, _, _ in ended) == ["made", "made", "unchanged"]
    assert snapshot(into) == snapshot(places[2])
    assert len(server.requests) == 6  # two requests for each of three repositories, once


_HOSTILE = {
    "option as url": gitmodules(("s", "-u./payload")),
    "helper as url": gitmodules(("s", "ext::sh -c touch% ran")),
    "local folder": gitmodules(("s", "/etc")),
    "above the host": gitmodules(("s", "../../../../x")),
    "name with dots": '[submodule "../../hooks"]\n\tpath = s\n\turl = ../inner.git\n',
    "name as option": '[submodule "-x"]\n\tpath = s\n\turl = ../inner.git\n',
    "no url": '[submodule "s"]\n\tpath = s\n',
    "not named": gitmodules(("other", "../inner.git")),
    "not a configuration": '[submodule "s\n',
}


@pytest.mark.parametrize("kind", list(_HOSTILE))
def test_hostile_gitmodules_are_refused_before_anything_is_written(
    kind: str, tmp_path: Path, into: Path
) -> None:
    upstream = Upstream.make(tmp_path / "srv" / "top.git")
    commit = upstream.commit({".gitmodules": _HOSTILE[kind]}, links={"s": "1" * 40})
    # Some of these git's check of incoming objects stops already; ours alone is tested with the parser.
    with git_server(tmp_path / "srv") as server, pytest.raises(SourceIntegrityError) as caught:
        _checkout(Pin(server.url("top.git"), commit), into)
    assert caught.value.exit_code == 31
    assert not into.exists()
    assert not list(tmp_path.rglob("ran"))


def test_names_that_are_no_utf8_survive(tmp_path: Path, into: Path) -> None:
    upstream = Upstream.make(tmp_path / "srv" / "top.git")
    blob = git("hash-object", "-w", "--stdin", cwd=upstream.path, stdin=b"x\n")
    line = b"100644 blob " + blob.encode() + b"\tcaf\xe9 \n\0"
    tree = subprocess.run(
        ["git", "mktree", "-z"], cwd=upstream.path, env=GIT_ENV, input=line, capture_output=True, check=True
    ).stdout.decode().strip()  # fmt: skip
    commit = git("commit-tree", "-m", "x", tree, cwd=upstream.path)
    git("update-ref", "refs/heads/main", commit, cwd=upstream.path)
    _checkout(Pin(str(upstream.path), commit), into)
    assert _checkout(Pin(str(upstream.path), commit), into).action == "unchanged"
    name = b"caf\xe9 \n"
    (into / name.decode("utf-8", "surrogateescape")).write_text("edit")
    with pytest.raises(SourceIntegrityError):
        _checkout(Pin(str(upstream.path), commit), into)


def test_a_skipped_submodule_is_neither_fetched_nor_missed(
    nested: Nested, server: GitServer, into: Path
) -> None:
    pin = Pin(server.url("top.git"), nested.first, skip=("third_party/mid/deps/inner",))
    report = _checkout(pin, into)
    assert set(report.fetched) == {server.url(f"{name}.git") for name in ("top", "mid")}
    assert [entry["path"] for entry in report.evidence["submodules"]] == ["third_party/mid"]
    assert not any((into / "third_party/mid/deps/inner").iterdir())
    assert not any("inner.git" in request for request in server.requests)
    assert _checkout(pin, into).action == "unchanged"
    assert own_tree(into, git=Git.open(), skip=pin.skip) is None
    # Without the skip the same folder is not the pin; the next checkout brings what is missing.
    whole = Pin(pin.url, pin.commit)
    with pytest.raises(SourceIntegrityError, match="not the pinned source"):
        verify_checkout(into, whole)
    assert _checkout(whole, into).action == "moved"
    assert (into / "third_party/mid/deps/inner/inner.h").exists()
    # One that is there although it could be skipped does no harm, and is looked at like the others.
    assert _checkout(pin, into).action == "unchanged"
    (into / "third_party/mid/deps/inner/inner.h").write_text("edited")
    with pytest.raises(SourceIntegrityError, match="has local changes"):
        _checkout(pin, into)
