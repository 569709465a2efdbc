"""run, shell and env in real shells: what is entered, and that nothing of it stays."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.cli import XPUBUILD
from support.entered import CHANGES, make_workspace

SHOW = f"{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
VOLATILE = {
    "_", "SHLVL", "PWD", "OLDPWD", "LINES", "COLUMNS", "TERMCAP", "GROUP", "HOST", "HOSTTYPE", "MACHTYPE",
    "OSTYPE", "REMOTEHOST", "VENDOR", "LC_CTYPE", "TERM",
}  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "a w'ø" / "2.8")


def environment(text: str) -> dict[str, str]:
    found = json.loads(text.strip().splitlines()[-1])
    return {name: value for name, value in found.items() if name not in VOLATILE}


def expected(workspace: Path, before: dict[str, str]) -> dict[str, str]:
    libraries = ["/opt/lib a", "/opt/lib-b", "/usr/own", "/opt/last"]
    path = [f"{workspace}/env/bin", "/opt/one api/bin", "/opt/second/bin", before["PATH"]]
    after = {
        **before, **CHANGES["set"], "PATH": ":".join(path), "LD_LIBRARY_PATH": ":".join(libraries),
        "VIRTUAL_ENV": f"{workspace}/env", "XPUBUILD_ENTERED": str(workspace),
    }  # fmt: skip
    return {name: value for name, value in after.items() if name not in ("XT_GONE", "PYTHONHOME")}


CALLER = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LD_LIBRARY_PATH": "/usr/own",
    "XT_GONE": "here",
    "CMPLR_ROOT": "/before",
}
SHELLS = [
    ("bash", ["bash", "--norc", "-c"], 'eval "$({program} env --format bash)"\n'),
    ("zsh", ["zsh", "-f", "-c"], 'eval "$({program} env --format zsh)"\n'),
    ("dash", ["dash", "-c"], 'eval "$({program} env)"\n'),
    ("fish", ["fish", "--no-config", "-c"], "{program} env --format fish | source\n"),
    ("csh", ["tcsh", "-f", "-c"], 'eval "`{program} env --format csh`"\n'),
]


@pytest.mark.needs("zsh", "fish", "tcsh", "dash")
@pytest.mark.parametrize(("name", "argv", "activate"), SHELLS, ids=[item[0] for item in SHELLS])
def test_each_shell_gets_the_same(workspace: Path, name: str, argv: list[str], activate: str) -> None:
    program = " ".join(XPUBUILD)
    env = {**os.environ, **CALLER, "XPUBUILD_WORKSPACE": str(workspace)}
    before, after = (
        subprocess.run(
            [*argv, text.format(program=program) + SHOW], env=env, capture_output=True, text=True, check=True,
        ).stdout
        for text in ("", activate)
    )  # fmt: skip
    wanted = expected(workspace, environment(before))
    found = environment(after)
    if name == "csh":  # its backquotes know no line breaks: only a file brings them
        found["XT_ODD"] = found["XT_ODD"].replace("two\\ lines", "two\nlines")
    assert found == wanted


def run(workspace: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*XPUBUILD, "run", str(workspace), "--", *words],
        env={**os.environ, **CALLER, **settings}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_run_gives_the_environment_and_passes_the_words_on(workspace: Path) -> None:
    plain = json.loads(
        subprocess.run(
            ["sh", "-c", SHOW], env={**os.environ, **CALLER}, capture_output=True, text=True, check=True
        ).stdout
    )
    before = {name: value for name, value in plain.items() if name not in VOLATILE}
    assert environment(run(workspace, "python").stdout) == expected(workspace, before)
    assert run(workspace, "printf", "%s|", "a  b", "$HOME", "--help", "-q").stdout == "a  b|$HOME|--help|-q|"


def test_run_takes_nothing_of_the_configuration_along(tmp_path: Path) -> None:
    config = tmp_path / "xpubuild" / "config.toml"
    config.parent.mkdir()
    config.write_text('[proxies]\nhttp = "http://proxy.example"\n[places]\ndata = "data"\n')
    make_workspace(config.parent / "data" / "xpubuild" / "2.8")
    done = subprocess.run(
        [*XPUBUILD, "run", "2.8", "--", "python"],
        env={"PATH": CALLER["PATH"], "HOME": os.environ["HOME"], "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    env = environment(done.stdout)
    assert env["XPUBUILD_ENTERED"] == str(config.parent / "data" / "xpubuild" / "2.8")
    assert not {"http_proxy", "XDG_DATA_HOME"} & env.keys()


def test_run_passes_the_exit_status_and_signals_on(workspace: Path) -> None:
    assert run(workspace, "sh", "-c", "exit 77").returncode == 77
    assert run(workspace, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM
    piped = subprocess.run(
        ["bash", "-c", '"$@" -- yes | head -n 1; echo ${PIPESTATUS[0]}', "-", *XPUBUILD, "run", workspace],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert piped.stdout.split() == ["y", str(128 + signal.SIGPIPE)]
    argv = [
        *XPUBUILD,
        "run",
        str(workspace),
        "--",
        "sh",
        "-c",
        "trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done",
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.wait(timeout=30) == 9


class Session:
    """A shell on a terminal of its own, as a person has it."""

    def __init__(self, workspace: Path, shell: str, home: Path) -> None:
        env = {**os.environ, **CALLER, "SHELL": shell, "HOME": str(home), "TERM": "xterm", "PS1": "own> "}
        env |= {"XDG_CONFIG_HOME": f"{home}/.config", "TMPDIR": f"{home}/tmp"}
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.execvpe(XPUBUILD[0], [*XPUBUILD, "run", str(workspace)], env)  # noqa: S606
        self.text = ""

    def type(self, line: str) -> None:
        os.write(self._fd, line.encode() + b"\n")

    def wait_for(self, pattern: str, timeout_s: float = 60) -> str:
        deadline = time.monotonic() + timeout_s
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, self.text
            if select.select([self._fd], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self._fd, 65536).decode("utf-8", "replace")
                except OSError:  # the shell has ended
                    break
        return self.text

    def end(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        os.close(self._fd)
        return os.waitstatus_to_exitcode(status)


RCS = {
    "bash": ".bashrc",
    "zsh": ".zshrc",
    "fish": ".config/fish/config.fish",
    "tcsh": ".tcshrc",
    "dash": None,
}


@pytest.mark.needs("zsh", "fish", "tcsh", "dash")
@pytest.mark.parametrize("shell", list(RCS))
def test_shell_is_the_users_own_with_a_marked_prompt(workspace: Path, tmp_path: Path, shell: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    rc = RCS[shell]
    if rc is not None:
        (home / rc).parent.mkdir(parents=True, exist_ok=True)
        verb = (
            "setenv OWN_RC read"
            if shell == "tcsh"
            else "set -gx OWN_RC read"
            if shell == "fish"
            else "export OWN_RC=read"
        )
        (home / rc).write_text(verb + "\n")
    (home / "tmp").mkdir()
    session = Session(workspace, shell, home)
    if rc is not None and shell != "tcsh":
        session.wait_for(re.escape("(xpubuild 2.8) "))
    session.type(f"python > '{home}/seen'; echo at-$XPUBUILD_ENTERED-end")
    session.wait_for(r"at-/.*-end")
    session.type("exit 7")
    assert session.end() == 7
    env = json.loads((home / "seen").read_text())
    assert env["PATH"].split(":")[0] == f"{workspace}/env/bin"
    assert env["CMPLR_ROOT"] == "/opt/one api/compiler"
    assert rc is None or env["OWN_RC"] == "read"
    assert "ZDOTDIR" not in env
    assert not [path for path in (home / "tmp").iterdir() if path.name.startswith("xpubuild")]


def test_shell_without_a_terminal_reads_its_commands(workspace: Path) -> None:
    done = subprocess.run(
        [*XPUBUILD, "run", str(workspace)],
        input="python; exit 5\n", env={**os.environ, **CALLER, "SHELL": "/bin/bash"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 5
    assert environment(done.stdout)["XPUBUILD_ENTERED"] == str(workspace)
