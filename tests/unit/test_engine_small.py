"""The small parts of the engine: what each answers, as a table of cases."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from xpubuild.engine import files
from xpubuild.engine.admit import Ledger, Setting, place
from xpubuild.engine.disk import disk_usage
from xpubuild.engine.environment import base_environment, usable_path
from xpubuild.engine.estimate import UNKNOWN, Estimate, span, total
from xpubuild.engine.executables import resolve_executable
from xpubuild.engine.model import Step
from xpubuild.engine.process import ProcessResult
from xpubuild.engine.results import QueryResult, how_ended
from xpubuild.engine.room import by_space, own_temporary
from xpubuild.engine.samples import MOST, Samples
from xpubuild.engine.system_errors import of_machine
from xpubuild.engine.unprintable import without_unprintable
from xpubuild.errors import BuildError, FetchError, ToolchainError, UsageError, XpuBuildError

KEPT = (
    "HOME USER LOGNAME TMPDIR TZ TERM SSH_AUTH_SOCK KRB5CCNAME HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY"
    " NO_PROXY http_proxy https_proxy ftp_proxy all_proxy no_proxy ZE_AFFINITY_MASK ZE_FLAT_DEVICE_HIERARCHY"
    " ONEAPI_DEVICE_SELECTOR CUDA_VISIBLE_DEVICES SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE"
    " CURL_CA_BUNDLE GIT_SSL_CAINFO NETRC PIP_INDEX_URL XDG_CACHE_HOME GIT_CONFIG_COUNT CCACHE_DIR"
    " SCCACHE_DIR"
)
DROPPED = (
    "PIP_REQUIRE_VIRTUALENV PIP_TARGET PIP_PREFIX PIP_USER PIP_ROOT PIP_PYTHON PIP_DRY_RUN PIP_NO_DEPS"
    " PIP_CONSTRAINT PIP_EDITABLE PIP_REQUIREMENT CPATH LANG CC PYTHONPATH GIT_DIR HOMES LC_CTYPE"
)


def test_a_build_gets_these_variables_and_no_other() -> None:
    kept = dict.fromkeys(KEPT.split(), "x")
    caller = dict.fromkeys([*kept, *DROPPED.split(), "PYTHONUNBUFFERED", "LC_ALL"], "x") | {
        "PATH": "/bin:.:rel"
    }
    fixed = {"PATH": "/bin", "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1", "PYTHONNOUSERSITE": "1"}
    assert base_environment(caller) == {**kept, **fixed}
    assert base_environment({}) == {**fixed, "PATH": os.defpath}


@pytest.mark.parametrize(
    ("path", "kept", "ignored"),
    [
        ("", "", ()),
        ("/a:/b", "/a:/b", ()),
        ("/a::/b", "/a:/b", ("",)),
        (".:bin:/a", "/a", (".", "bin")),
        (".", os.defpath, (".",)),
    ],
)
def test_elements_that_depend_on_the_folder_are_no_part_of_a_path(
    path: str, kept: str, ignored: tuple[str, ...]
) -> None:
    assert usable_path(path) == (kept, ignored)


def test_files_count_once_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" * 10_000)
    one = (tmp_path / "a" / "file").stat().st_blocks * 512
    assert disk_usage(tmp_path / "a") == disk_usage(tmp_path / "a" / "file") == one
    os.link(tmp_path / "a" / "file", tmp_path / "a" / "again")
    (tmp_path / "a" / "deep").mkdir()
    (tmp_path / "a" / "deep" / "other").write_bytes(b"x" * 10_000)
    folder = (tmp_path / "a" / "deep").stat().st_blocks * 512
    assert disk_usage(tmp_path / "a", tmp_path / "none") == 2 * one + folder
    (tmp_path / "link").symlink_to("a")
    assert disk_usage(tmp_path / "link") == (tmp_path / "link").lstat().st_blocks * 512
    assert disk_usage() == 0


def test_steps_take_the_time_of_the_longest_way() -> None:
    before: dict[str, tuple[str, ...]] = {"a": (), "b": ("a", "gone"), "c": ("a",), "d": ("b", "c")}
    assert span(before, {"a": 1, "b": 2, "c": 5, "d": 1}) == 7
    assert span({}, {}) == 0
    steps = [
        Step(id="a", title=""),
        Step(id="b", title="", needs=("a",)),
        Step(id="c", title="", after=("b",)),
    ]
    found = total(steps, {"a": Estimate(2.0, 3, 5), "b": UNKNOWN, "c": Estimate(1.0, None, 7)})
    assert (found.seconds, found.download_bytes, found.disk_bytes, found.unknown) == (3.0, 3, 12, ("b",))


def test_programs_are_found_on_the_path_of_the_command(tmp_path: Path) -> None:
    tmp_path = tmp_path / "it's"
    tmp_path.mkdir()
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    for name in ("./tool", str(tool)):
        with pytest.raises(ToolchainError):
            resolve_executable(name, {"PATH": "/nowhere"}, tmp_path)
    with pytest.raises(ToolchainError):
        resolve_executable("tool", {"PATH": "/nowhere"}, tmp_path)
    with pytest.raises(ToolchainError):
        resolve_executable("./none", {"PATH": "/nowhere"}, tmp_path)
    tool.chmod(0o755)
    assert resolve_executable("./tool", {}, tmp_path) == str(tool)
    assert resolve_executable("tool", {"PATH": f".:{tmp_path}"}) == str(tool)


@pytest.mark.parametrize(
    ("result", "ok", "words"),
    [
        (ProcessResult(("x",), 0, 1.0), True, "exited with code 0"),
        (ProcessResult(("x",), 1, 1.0), False, "exited with code 1"),
        (ProcessResult(("x",), -9, 1.0), False, "was killed by SIGKILL"),
        (ProcessResult(("x",), 0, 61.6, timed_out=True), False, "timed out after 62 s"),
        (ProcessResult(("x",), 0, 1.0, cancelled=True), False, "was interrupted"),
        (ProcessResult(("x",), -1000, 1.0), False, "exited with code -1000"),
    ],
)
def test_how_a_command_ended(result: ProcessResult, ok: bool, words: str) -> None:
    assert (result.ok, result.describe()) == (ok, words)
    assert how_ended(-15) == "was killed by SIGTERM"


def test_a_query_is_right_only_if_it_ended_by_itself() -> None:
    assert QueryResult(("x",), 0, "", "").ok
    assert not QueryResult(("x",), 1, "", "").ok
    assert not QueryResult(("x",), 0, "", "", timed_out=True).ok
    assert not QueryResult(("x",), 0, "", "", too_long=True).ok


@pytest.mark.parametrize("log", [None, Path("/log")])
@pytest.mark.parametrize("why", ["", "it said so"])
def test_a_failure_beside_a_full_disk_is_that_of_the_disk(why: str, log: Path | None, tmp_path: Path) -> None:
    for kind in (BuildError, FetchError, ToolchainError):
        with pytest.raises(XpuBuildError):
            raise by_space(kind("it failed", why=why, log=log, evidence={"a": 1}), tmp_path / "none")
    other = UsageError("x")
    assert by_space(other, tmp_path) is other
    error = BuildError("x")
    assert by_space(error, None) is error


def test_a_command_has_a_temporary_folder_that_goes_with_it(tmp_path: Path) -> None:
    base = Path("/tmp") if len(os.fsencode(tmp_path)) > 40 else tmp_path
    with own_temporary({"TMPDIR": str(base), "A": "b"}) as env:
        place_ = Path(env["TMPDIR"])
        assert (place_.parent, place_.is_dir(), env["A"]) == (base, True, "b")
    assert not place_.exists()
    deep = tmp_path / ("x" * 80)
    deep.mkdir()
    with own_temporary({"TMPDIR": str(deep)}) as env:
        assert env == {"TMPDIR": str(deep)}


def test_samples_stay_few_and_keep_the_largest() -> None:
    samples = Samples(4)
    for second in range(9):
        samples.add(second + 0.04, 100 - second if second % 2 else second)
    assert samples.points() == ((0.0, 99), (4.0, 95), (8.0, 8))
    assert MOST == 240


_SHOWN = [
    MemoryError(), RuntimeError("can't start new thread"), OSError(errno.EACCES, "no", "/a b"),
    OSError(errno.EPERM, "no"), OSError(errno.EROFS, "no", "/x"), OSError(errno.EIO, "no", "/x"),
    OSError(errno.ESTALE, "no", "/x"), OSError(errno.ENODEV, "no"), OSError(errno.EREMOTEIO, "no"),
    OSError(errno.ETIMEDOUT, "no"), OSError(errno.EHOSTDOWN, "no"), OSError(errno.EMFILE, "no"),
    OSError(errno.ENFILE, "no"), OSError(errno.EAGAIN, "no"), OSError(errno.ENOMEM, "no"),
    OSError(errno.ENAMETOOLONG, "no", "/x"), OSError(errno.ELOOP, "no", "/x"),
    OSError(errno.ENOSPC, "no", "/none/x"), OSError(errno.EDQUOT, "no"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(_SHOWN)))
def test_a_failure_of_the_machine_says_what_to_do(number: int) -> None:
    with pytest.raises(XpuBuildError) as caught:
        raise of_machine(_SHOWN[number]) or AssertionError
    assert caught.value.fix


def test_what_is_no_failure_of_the_machine_is_a_bug() -> None:
    for error in (RuntimeError("x"), OSError("x"), OSError(errno.EBADF, "x"), ValueError("x")):
        assert of_machine(error) is None


def test_what_nobody_can_see_is_left_out() -> None:
    seen = "a\tb\nü→"
    unseen = "\x00\x08\x0b\x1f\x7f\x9f\u061c\u200b\u200e\u200f\u2028\u202e\u2060\u2069\ufeff\U000e0001"
    assert without_unprintable("".join(f"{one}x" for one in unseen) + seen) == "x" * len(unseen) + seen


def test_odd_places_are_told_in_words(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("elsewhere")
    for number, where in ((errno.ELOOP, link), (errno.EIO, tmp_path / "x"), (errno.ENOSPC, tmp_path / "x")):
        with pytest.raises(XpuBuildError), files.explained(where, "trying"):
            raise OSError(number, "refused")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(XpuBuildError), files.explained(tmp_path / "pipe", "trying"):
        raise OSError(errno.ELOOP, "refused")
    files.sync_filesystems([tmp_path, tmp_path / "none"])


SETTING = "budget 64\njobs 2\nledger {0}\nlearned {0}/learned\nroot /w/\ndefault 8\ngrain 16\n"


def test_a_ledger_holds_memory_and_slots_until_its_file_is_closed(tmp_path: Path) -> None:
    setting = Setting(SETTING.format(tmp_path / "ledger"))
    assert (setting.grains, setting.patience, setting.priors, setting.root) == (4, 10.0, [], "/w/")
    one, two, three = (Ledger(place(setting), setting) for _ in range(3))
    assert place(setting) == str(tmp_path / "ledger" / os.uname().nodename)
    assert stat.S_IMODE(Path(place(setting)).stat().st_mode) == 0o700
    assert one.take(3)
    assert not two.take(2), "one grain is left"
    assert two.take(1)
    assert not three.take(0 + 1), "no slot is left"
    os.close(one.file)
    assert three.take(3)
    assert not os.get_inheritable(three.file)
    three.keep()
    assert os.get_inheritable(three.file)
    os.close(two.file)
    two = Ledger(place(setting), setting)
    two.wait(1)
    assert not Ledger(place(setting), setting).take(1)


def test_a_ledger_of_a_control_group_is_its_own(tmp_path: Path) -> None:
    text = SETTING.format(tmp_path)
    name = Path(place(Setting(f"{text}group yes\n"))).name
    assert name.startswith(f"{os.uname().nodename}-")
    assert len(name) == len(os.uname().nodename) + 9
    assert place(Setting(f"{text}group no\n")) == place(Setting(text))
    assert Setting(text.replace("grain 16\n", "")).grain == 16 << 20
