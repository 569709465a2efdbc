"""The planned pip commands with the real pip, against indexes on loopback and wheel folders.

``xpufake`` is a stand-in for torch: a tiny wheel with a local version label, so that the questions (which
build answers, from where, what if none) are the same and nothing large moves.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.test_components_held import wheel as small_wheel
from support.artifacts import pack

from xpubuild.artifacts.site_packages import installed_dists
from xpubuild.engine.environment import base_environment
from xpubuild.engine.model import Command
from xpubuild.engine.process import ProcessResult, run
from xpubuild.errors import (
    AuditError,
    FetchError,
    SourceIntegrityError,
    ToolchainError,
    XpuBuildError,
)
from xpubuild.install.environment_steps import explain_held
from xpubuild.machine.make_env import make_env
from xpubuild.machine.pip_failures import explain_pip_failure
from xpubuild.machine.python_environment import (
    env_python,
    install_command,
    leave_out_command,
    write_constraints,
)
from xpubuild.machine.pythons import resolve_python


class Index:
    """A package index on loopback: a folder per package, and a count of what was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        folder.mkdir(parents=True)
        index = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args: object, **kwargs: object) -> None:
                super().__init__(*args, directory=str(index.folder), **kwargs)  # type: ignore[arg-type]

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                index.asked.append(self.path)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def add(self, wheel: Path) -> None:
        folder = self.folder / wheel.name.split("-")[0].lower().replace("_", "-")
        folder.mkdir(exist_ok=True)
        shutil.copy(wheel, folder)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path / "first")
    yield index
    index.close()


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path / "second")
    yield index
    index.close()


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spaces änd more") / "my env"
    make_env(path, resolve_python(None, base_environment()))
    return path


@pytest.fixture(autouse=True)
def _nothing_installed(env: Path) -> Iterator[None]:
    yield
    pip = [env_python(env), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "uninstall", "-q", "-y", "xpufake", "triton", "needs-triton"], check=True,
                   capture_output=True)  # fmt: skip


def make_wheel(
    folder: Path,
    version: str,
    *,
    name: str = "xpufake",
    body: str = "",
    metadata: str = "",
    console: bool = False,
) -> Path:
    """Write a small pure-Python wheel."""
    module = f"version = {version!r}\n{body}\ndef main():\n    print('run', version)\n"
    files = {f"{name}.py": module.encode()}
    if console:
        entry = f"[console_scripts]\n{name}-run = {name}:main\n"
        files[f"{name}-{version}.dist-info/entry_points.txt"] = entry.encode()
    return pack(folder, name, version, files, tag="py3-none-any", metadata=metadata)


def pin(folder: Path, *wheels: Path, version: str | None = None) -> Path:
    """Write a hashed requirements file for one version of the wheels' package."""
    name, found = wheels[0].name.split("-")[:2]
    hashes = [f"--hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}" for wheel in wheels]
    path = folder / "pinned é.txt"
    path.write_text(f"{name}=={version or found} {' '.join(hashes)}\n", "utf-8")
    return path


def perform(command: Command, *, index: str, cwd: Path, **variables: str) -> tuple[int, ProcessResult]:
    """Run a command and its alternatives, as the runner does; return how many ran and the last result."""
    environment = {
        **{name: value for name, value in base_environment().items() if not name.startswith("PIP_")},
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": index,
        "PIP_RETRIES": "1",
        "PIP_DEFAULT_TIMEOUT": "5",
        **variables,
    }
    ran: list[ProcessResult] = []
    for argv in (command.argv, *command.alternatives):
        ran.append(run(argv, env=environment, cwd=cwd, deadline_s=120))
        if ran[-1].ok:
            break
    return len(ran), ran[-1]


def installed(env: Path) -> dict[str, str]:
    output = subprocess.run(
        [env_python(env), "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return {item["name"]: item["version"] for item in json.loads(output)}


def test_a_wheel_folder_configured_in_pip_answers_and_nothing_else_is_asked(
    env: Path, first: Index, second: Index, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path / "my wheels ü", "2.13.0+cpu", console=True)
    first.add(make_wheel(tmp_path / "w", "2.13.0"))
    command = install_command(str(env), str(pin(tmp_path, wheel)), indexes=[second.url])
    find_links = wheel.parent.as_uri()  # PIP_FIND_LINKS is split at spaces
    count, result = perform(command, index=first.url, cwd=tmp_path, PIP_FIND_LINKS=find_links)
    assert result.ok, result.tail
    assert count == 1
    assert second.asked == []
    assert installed(env)["xpufake"] == "2.13.0+cpu"
    # Scripts work although their interpreter's path holds spaces.
    script = subprocess.run([env / "bin/xpufake-run"], check=True, capture_output=True, text=True)
    assert script.stdout == "run 2.13.0+cpu\n"


def test_nowhere_is_an_error_that_names_both_ways_and_installs_nothing(
    env: Path, first: Index, second: Index, tmp_path: Path
) -> None:
    first.add(make_wheel(tmp_path / "w", "2.13.0"))
    requirements = pin(tmp_path, make_wheel(tmp_path / "w", "2.13.0+cpu"))
    command = install_command(str(env), str(requirements), indexes=[second.url])
    count, result = perform(command, index=first.url, cwd=tmp_path)
    assert count == 2
    assert not result.ok
    error = explain_pip_failure(result.tail, indexes=[second.url])
    assert type(error) is ToolchainError
    assert error.exit_code == 40
    assert "xpufake==2.13.0+cpu" in error.what
    assert "does not have it" in error.why
    assert f"or let this machine reach {second.url}" in error.fix
    assert "xpufake" not in installed(env)


@pytest.mark.parametrize(
    ("wants", "dead", "kind"),
    [
        # What is held is on the index that does not answer: pip's last words are those of a conflict.
        ("torch==2.13.0", True, FetchError),
        ("torch==2.12.0", True, AuditError),
        ("torch==2.12.0", False, AuditError),
    ],
)
def test_a_held_package_whose_index_is_out_of_reach_is_no_replacement(
    env: Path, first: Index, tmp_path: Path, *, wants: str, dead: bool, kind: type[XpuBuildError]
) -> None:
    for version in ("2.12.0", "2.13.0"):
        first.add(small_wheel(tmp_path / "w", "torch", version, "torch/__init__.py"))
    first.add(small_wheel(tmp_path / "w", "vision", "1.0", "vision/__init__.py", requires=wants))
    held = tmp_path / "held.txt"
    held.write_text("torch==2.13.0+xpu\n")
    other = "http://127.0.0.2:9/whl/xpu"
    argv = (str(env_python(env)), "-m", "pip", "install", "--dry-run", "--constraint", str(held), "vision")
    more = ("--extra-index-url", other) if dead else ()
    _, result = perform(Command(argv=(*argv, *more)), index=first.url, cwd=tmp_path)
    assert not result.ok
    error = explain_held(result.tail, indexes=[other])
    assert type(error) is kind, result.tail
    if kind is FetchError:
        assert error.exit_code == 30
        assert "torch==2.13.0+xpu" in error.what
        assert "HTTPS_PROXY" in error.fix


def test_a_replaced_wheel_is_refused_and_named(env: Path, first: Index, tmp_path: Path) -> None:
    requirements = pin(tmp_path, make_wheel(tmp_path / "w", "2.13.0+cpu"))
    first.add(make_wheel(tmp_path / "changed", "2.13.0+cpu", body="import os"))
    _, result = perform(install_command(str(env), str(requirements)), index=first.url, cwd=tmp_path)
    error = explain_pip_failure(result.tail)
    assert type(error) is SourceIntegrityError
    assert error.exit_code == 31
    assert "xpufake==2.13.0+cpu" in error.what
    assert "Expected sha256" in error.why
    assert "xpufake" not in installed(env)


def test_constraints_hold_torch_and_keep_triton_out(env: Path, first: Index, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w", "2.13.0+cpu")
    newer = make_wheel(tmp_path / "w", "2.14.0")
    for item in (wheel, newer, make_wheel(tmp_path / "w", "3.0", name="triton")):
        first.add(item)
    first.add(make_wheel(tmp_path / "w", "1.0", name="needs_triton", metadata="Requires-Dist: triton\n"))
    constraints = tmp_path / "held ü.txt"
    constraints.write_text(write_constraints({"xpufake": "2.13.0+cpu"}, forbidden=("triton",)), "utf-8")
    command = install_command(str(env), str(pin(tmp_path, wheel)), constraints=str(constraints))
    _, result = perform(command, index=first.url, cwd=tmp_path)
    assert result.ok, result.tail

    def later(*words: str) -> ProcessResult:
        argv = (env_python(env), "-m", "pip", "install", "--constraint", str(constraints), *words)
        return perform(Command(argv), index=first.url, cwd=tmp_path)[1]

    later("--upgrade", "xpufake")
    assert installed(env)["xpufake"] == "2.13.0+cpu"
    assert not later("xpufake==2.14.0").ok
    assert not later("needs-triton").ok
    assert "triton" not in installed(env)
    # Without the constraints it would have come in: the test can fail.
    argv = (env_python(env), "-m", "pip", "install", "needs-triton")
    assert perform(Command(argv), index=first.url, cwd=tmp_path)[1].ok
    assert installed(env)["triton"] == "3.0"


def test_what_a_file_leaves_out_is_not_asked_for_and_what_was_there_goes(env: Path, tmp_path: Path) -> None:
    asks = make_wheel(tmp_path, "1.0", metadata="Requires-Dist: needs-triton\n")
    other = make_wheel(tmp_path, "1.0", name="triton")
    run_pip(env, "install", "--no-index", str(other))
    for command in (
        leave_out_command(str(env), ["triton", "needs-triton"]),
        install_command(str(env), str(pin(tmp_path, asks)), whole=False),
    ):
        subprocess.run([*command.argv, *_offline(command, tmp_path)], check=True, capture_output=True)
    site = next((env / "lib").glob("python3*/site-packages"))
    assert {"xpufake", "triton"} & {dist.name for dist in installed_dists(site)} == {"xpufake"}
    whole = install_command(str(env), str(pin(tmp_path, asks)))
    failed = subprocess.run(
        [*whole.argv, "--force-reinstall", *_offline(whole, tmp_path)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert failed.returncode
    assert "needs-triton" in failed.stderr


def _offline(command: Command, folder: Path) -> list[str]:
    return ["--no-index", "--find-links", str(folder)] if "install" in command.argv else []


def run_pip(env: Path, *words: str) -> None:
    subprocess.run([env_python(env), "-m", "pip", *words], check=True, capture_output=True)
