"""The small parts of the engine: what each answers, as a table of cases."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from xpubuild.engine.environment import base_environment, usable_path
from xpubuild.engine.forecast import Estimate, total
from xpubuild.engine.model import Step
from xpubuild.engine.room import by_space, own_temporary
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


def test_steps_take_the_time_of_the_longest_way() -> None:
    steps = [
        Step(id="a", title=""),
        Step(id="b", title="", needs=("a",)),
        Step(id="c", title="", after=("b",)),
    ]
    found = total(steps, {"a": Estimate(2.0, 3, 5), "b": Estimate(), "c": Estimate(1.0, None, 7)})
    assert (found.seconds, found.download_bytes, found.disk_bytes, found.unknown) == (3.0, 3, 12, ("b",))


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
