"""Locks of a small real channel, solved by py-rattler; what only conda-lock can show, by conda-lock.

conda-lock takes several times as long. It solves one whole lock, and the same again through the command line;
its messages are translated once for each kind.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.conda_channel import VERSION, Tiny, make_channel, usual
from support.conda_tools import CONDA_LOCK, RATTLER, TOOLCHAIN, front, served, solved

from xpubuild.engine.environment import base_environment
from xpubuild.errors import FetchError, RecipeError, ToolchainError, UnsatisfiableError, UsageError
from xpubuild.supply.archives import Supply, bring
from xpubuild.supply.conda.lockfile import read_lock, resolve, write_lock
from xpubuild.supply.conda.solve import Engines, Wanted, make_lock, spec_name


@pytest.fixture
def channel(conda: tuple[Path, str]) -> Path:
    return conda[0]


def conda_lock(folder: Path) -> Engines:
    """Return conda-lock itself, with a stand-in for the conda that it asks."""
    return Engines(conda=front(folder / "bin"), conda_lock=str(CONDA_LOCK))


def test_the_lock_has_the_toolchain_and_nothing_harmful(channel: Path, tmp_path: Path) -> None:
    text = solved(TOOLCHAIN, [str(channel)], RATTLER, tmp_path / "cache")
    lock = read_lock(text)
    assert {item.name: item.version for item in lock.packages} == {
        "cmake": "3.31.2", "libstdcxx-ng": "15.2.0", "mkl-include": "2026.0.0", "mkl-static": "2026.0.0",
        "ninja": "1.13.0", "pip": "25.0", "python": VERSION,
    }  # fmt: skip
    assert lock.left_out == ("tbb",)
    assert lock.channels == (channel.as_uri(),)
    assert all(len(item.sha256) == 64 and item.url.startswith(channel.as_uri()) for item in lock.packages)
    assert write_lock(lock) == text


def test_whoever_solves_the_packages_are_the_same(channel: Path, tmp_path: Path) -> None:
    first, second = (
        read_lock(solved(TOOLCHAIN, [str(channel)], item, tmp_path / "cache"))
        for item in (RATTLER, conda_lock(tmp_path))
    )
    # conda-lock does not hand on the sizes, and that is the only difference.
    assert [(p.url, p.sha256, p.md5, p.dependencies) for p in first.packages] == [
        (p.url, p.sha256, p.md5, p.dependencies) for p in second.packages
    ]
    assert first.content_hash == second.content_hash


def test_conda_lock_reads_what_we_wrote(channel: Path, tmp_path: Path) -> None:
    text = solved(TOOLCHAIN, [str(channel)], RATTLER, tmp_path / "cache")
    (tmp_path / "conda-lock.yml").write_text(text)
    argv = [str(CONDA_LOCK), "render", "--kind", "explicit", "--platform", "linux-64", "conda-lock.yml"]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    rendered = (tmp_path / "conda-linux-64.lock").read_text()
    for package in read_lock(text).packages:
        assert f"{package.url}#{package.md5}" in rendered
    assert len([line for line in rendered.splitlines() if line.startswith("file:")]) == 7


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        (("cmake >=9",), "cmake >=9"),
        (("needs-old", "cmake"), "needs-old"),
    ],
)
def test_what_cannot_be_had_ends_with_the_solvers_reason(
    tmp_path: Path, specs: tuple[str, ...], said: str
) -> None:
    odd = Tiny("needs-old", depends=["libstdcxx-ng <10"])
    channel = make_channel(tmp_path / "channel", [*usual(), odd])
    with pytest.raises(UnsatisfiableError) as caught:
        solved(specs, [str(channel)], RATTLER, tmp_path / "cache")
    assert caught.value.exit_code == 22
    assert said in caught.value.why
    assert caught.value.evidence["packages"] == list(specs)


def test_what_conda_lock_cannot_solve_is_explained_by_rattler(channel: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    both = replace(conda_lock(tmp_path), rattler=sys.executable)
    wanted = Wanted(("cmake >=9",), resolve([str(channel), "http://127.0.0.1:9/c"]))
    with pytest.raises(FetchError):
        make_lock(wanted, both, environment=base_environment(), cache=tmp_path / "cache", report=lines.append)
    assert any(line.startswith("conda-lock has no solution: ") for line in lines)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/c", "file:///no/such/channel"])
def test_a_channel_out_of_reach_is_told_from_a_missing_package(tmp_path: Path, address: str) -> None:
    with pytest.raises(FetchError) as caught:
        solved(("cmake",), [address], RATTLER, tmp_path / "cache")
    assert caught.value.exit_code == 30
    assert address.rpartition("/")[2] in caught.value.why or "Connection refused" in caught.value.why


def test_what_is_no_specification_is_a_fault_of_the_recipe(channel: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError):
        solved(("cmake ake >>",), [str(channel)], RATTLER, tmp_path)
    with pytest.raises(RecipeError, match="is not a conda specification"):
        spec_name(">=3")
    with pytest.raises(UsageError):
        solved((), [str(channel)], RATTLER, tmp_path)
    assert [spec_name(item) for item in ("a", "c::a-b >=1", "a==1", "a[build=x]")] == ["a", "a-b", "a", "a"]


def test_a_harmful_package_that_is_needed_ends_with_22(tmp_path: Path) -> None:
    numpy = Tiny("numpy", depends=["mkl"])
    channel = make_channel(tmp_path / "channel", [*usual(), numpy, Tiny("mkl", "2025.0.0")])
    with pytest.raises(UnsatisfiableError) as caught:
        solved((*TOOLCHAIN, "numpy"), [str(channel)], RATTLER, tmp_path / "cache")
    assert "numpy -> mkl" in caught.value.why


class TestLibstdcxx:
    def test_a_newer_one_is_taken_where_the_driver_needs_it(self, tmp_path: Path) -> None:
        """Another package would have held it back."""
        packages = [
            Tiny("libstdcxx-ng", "11.2.0"), Tiny("libstdcxx-ng", "14.2.0"),
            Tiny("tool", "2.0", depends=["libstdcxx-ng <12"]), Tiny("tool", "1.0", depends=["libstdcxx-ng"]),
        ]  # fmt: skip
        channel = make_channel(tmp_path / "channel", packages)
        plain = solved(("tool",), [str(channel)], RATTLER, tmp_path / "cache")
        assert {p.title for p in read_lock(plain).packages} == {"tool 2.0", "libstdcxx-ng 11.2.0"}
        fit = solved(("tool",), [str(channel)], RATTLER, tmp_path / "cache", "GLIBCXX_3.4.32")
        assert {p.title for p in read_lock(fit).packages} == {"tool 1.0", "libstdcxx-ng 14.2.0"}
        # The same question, whatever this machine needs.
        assert read_lock(fit).content_hash == read_lock(plain).content_hash

    def test_without_a_newer_one_it_is_refused_by_name(self, tmp_path: Path) -> None:
        channel = make_channel(tmp_path / "channel", [Tiny("libstdcxx-ng", "11.2.0")])
        with pytest.raises(UnsatisfiableError, match=r"libstdcxx-ng 11\.2\.0 is older") as caught:
            solved(("libstdcxx-ng",), [str(channel)], RATTLER, tmp_path / "cache", "GLIBCXX_3.4.32")
        assert "GCC 13.2" in caught.value.why
        assert "--conda-channel" in caught.value.fix


def test_a_login_of_netrc_is_used_and_is_nowhere_afterwards(
    channel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password tk-0123456789\n")
    (tmp_path / ".netrc").chmod(0o600)
    lines: list[str] = []
    with served(channel, login="me:tk-0123456789") as url:
        wanted = Wanted(TOOLCHAIN, resolve([url]))
        text = make_lock(
            wanted, RATTLER, environment=base_environment(), cache=tmp_path / "cache", report=lines.append
        )
        archive = read_lock(text).packages[0].archive
        assert bring(archive, Supply(tmp_path / "cache"), lines.append).path.is_file()
    assert archive.url.startswith(f"{url}/linux-64/")
    assert "tk-0123456789" not in text + "".join(lines)


class TestWithoutTools:
    def test_the_way_out_is_named(self, channel: Path, tmp_path: Path) -> None:
        with pytest.raises(ToolchainError) as caught:
            solved(("cmake",), [str(channel)], Engines(), tmp_path)
        assert caught.value.exit_code == 40
        assert " -m pip install " in caught.value.commands[0]
        assert "'py-rattler<1,>=0.28'" in caught.value.commands[0]
        assert "xpubuild[" not in caught.value.commands[0]
