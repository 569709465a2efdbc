"""Captures are remembered by content: a stand-in script that counts its runs tells when one is used again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from integration import oneapi_standin as standin

from xpubuild.errors import ToolchainError
from xpubuild.machine.oneapi_cache import cache_key
from xpubuild.machine.oneapi_capture import Request
from xpubuild.machine.oneapi_environment import OneapiEnvironment, OneapiNeeds, oneapi_environment


class Host:
    """An installation, a cache folder and a counter of captures."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "one api é"
        self.cache = folder / "cache é"
        self.counter = folder / "counter"
        self.count = f"echo run >> '{self.counter}'"
        standin.build_root(self.place, before={"compiler": self.count})
        self.caller = {"HOME": "/root"}
        self.components = standin.NEEDED

    def get(self, mode: str = "components") -> OneapiEnvironment:
        return oneapi_environment(
            OneapiNeeds(">=2025.1,<2025.2", self.components),
            explicit_root=self.place,
            caller_env=self.caller,
            cache_dir=self.cache,
            mode=mode,  # type: ignore[arg-type]
        )

    def runs(self) -> int:
        return len(self.counter.read_text().splitlines())

    def file(self) -> Path:
        (path,) = (self.cache / "oneapi").iterdir()
        return path


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_second_time_no_script_runs(host: Host) -> None:
    first = host.get()
    assert host.get() == first
    assert host.runs() == 1


def test_warnings_and_values_come_back_exactly(host: Host) -> None:
    standin.add_component(
        host.place, "umf", "0.10", before=standin.BYTES + "\n" + standin.NEWLINES, after=standin.returns(1)
    )
    first = host.get()
    second = host.get()
    assert host.runs() == 1
    assert [finding.code for finding in second.warnings] == ["oneapi-script-status"]
    assert second == first
    assert second.digest == first.digest


def test_a_changed_script_is_run_again(host: Host) -> None:
    host.get()
    standin.add_component(host.place, "umf", "0.10", after="export UMF_NEW=1")
    assert host.get().diff.set["UMF_NEW"] == "1"
    assert host.runs() == 2


def test_a_changed_file_beside_a_script_counts(host: Host) -> None:
    helper = standin.write(host.place / "umf" / "0.10" / "env" / "more.sh", "export UMF_MORE=1\n")
    standin.add_component(host.place, "umf", "0.10", after='. "$here/env/more.sh"')
    assert host.get().diff.set["UMF_MORE"] == "1"
    helper.write_text("export UMF_MORE=2\n")
    assert host.get().diff.set["UMF_MORE"] == "2"


@pytest.mark.needs("root")
def test_an_unreadable_file_beside_a_script_does_no_harm(host: Host) -> None:
    secret = standin.write(host.place / "umf" / "0.10" / "env" / "secret", "x", mode=0o600)
    request = Request(host.place, "components", (secret.with_name("vars.sh"),), {})
    readable = cache_key(request, ())
    try:
        os.seteuid(65534)
        assert cache_key(request, ()) != readable
    finally:
        os.seteuid(0)


def test_another_order_mode_home_or_version_is_another_capture(host: Host) -> None:
    host.get()
    host.components = tuple(reversed(standin.NEEDED))
    host.get()
    assert host.runs() == 2
    host.get(mode="setvars")
    assert host.runs() == 3
    host.caller = {"HOME": "/home/other"}
    host.get(mode="setvars")
    assert host.runs() == 4
    standin.add_component(host.place, "umf", "0.11")
    host.get(mode="setvars")
    assert host.runs() == 5


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"schema": "xpubuild.oneapi-capture/1"}', b"\xff\xfe\0", b"[" * 100_000],
    ids=["empty", "cut", "list", "null", "bare", "binary", "deep"],
)
def test_a_damaged_file_is_ignored_and_rewritten(host: Host, content: bytes) -> None:
    host.get()
    good = host.file().read_bytes()
    host.file().write_bytes(content)
    assert host.get().warnings == ()
    assert host.runs() == 2
    assert host.file().read_bytes() == good


def test_a_file_with_changed_values_is_ignored_and_rewritten(host: Host) -> None:
    host.get()
    good = host.file().read_bytes()
    document = json.loads(good)
    document["diff"]["set"]["CCL_CONFIGURATION"] = "tampered"
    host.file().write_text(json.dumps(document))
    assert host.get().diff.set["CCL_CONFIGURATION"] == "cpu_gpu_dpcpp"
    assert host.file().read_bytes() == good


def test_no_secret_is_written(host: Host) -> None:
    standin.add_component(host.place, "umf", "0.10", before="echo using $http_proxy")
    host.caller = {"HOME": "/root", "http_proxy": "http://user:hunter22@proxy.invalid:3128"}
    host.get()
    assert "hunter22" not in host.file().read_text()


def test_a_script_that_copies_a_proxy_is_never_remembered(host: Host) -> None:
    standin.add_component(host.place, "umf", "0.10", before='export COPY="proxy=$http_proxy"')
    for user in ("one", "two"):
        host.caller = {"HOME": "/root", "http_proxy": f"http://{user}:hunter22@proxy.invalid:3128"}
        assert user in host.get().diff.set["COPY"]
    assert not host.cache.exists()


def test_a_cache_that_cannot_be_written_is_a_warning(host: Host) -> None:
    host.cache.write_text("a file where the folder should be")
    environment = host.get()
    assert [finding.code for finding in environment.warnings] == ["oneapi-cache-unwritable"]
    assert environment.compiler_version == "2025.1.1"


def test_a_remembered_capture_does_not_excuse_writable_scripts(host: Host) -> None:
    host.get()
    (host.place / "umf" / "0.10" / "env" / "vars.sh").chmod(0o666)
    with pytest.raises(ToolchainError, match="everybody"):
        host.get()


def test_a_remembered_capture_does_not_excuse_a_broken_compiler(host: Host) -> None:
    host.get()
    (host.place / "compiler" / "2025.1" / "bin" / "icx").unlink()
    with pytest.raises(ToolchainError, match="icx"):
        host.get()


def test_a_failed_capture_is_not_remembered(host: Host) -> None:
    standin.add_component(host.place, "umf", "0.10", before=standin.EXITS)
    for _ in range(2):
        with pytest.raises(ToolchainError):
            host.get()
    assert host.runs() == 2
    assert not host.cache.exists()
