"""activate.sh and activate.fish in real shells, asking a stand-in for ``xpubuild env``."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from xpubuild import resources

_PROGRAM = """\
#!{python}
# stand-in for `xpubuild env`: what it prints depends on its own environment, as the real one's answer does
import json, os, sys
from pathlib import Path
from xpubuild.machine.shell_lines import bash_lines, fish_lines

Path({log!r}).open("a").write(json.dumps([sys.argv[1:], os.environ["PATH"]]) + "\\n")
arguments = sys.argv[1:]
assert arguments[:2] == ["env", "--shell"], arguments
workspace = arguments[arguments.index("--workspace") + 1] if "--workspace" in arguments else "default"
if workspace == "broken":
    sys.stderr.write("error: no workspace there\\n")
    sys.exit(2)
lines = {{"bash": bash_lines, "fish": fish_lines}}[arguments[2]]
values = {{
    "PATH": f"{{workspace}}/env/bin:{{os.environ['PATH']}}",
    "LD_LIBRARY_PATH": f"{{workspace}}/lib:" + os.environ.get("LD_LIBRARY_PATH", ""),
    "XPUBUILD_WORKSPACE": workspace,
    "XT_TEXT": "it's\\nexport LOOKS_LIKE=a line\\n$HOME `x` \\\\",
    "XT_GONE": None,
}}
sys.stdout.buffer.write(lines(values).encode("utf-8", "surrogateescape"))
"""


def steady(line: str) -> dict[str, str]:
    """Return a shown environment without what differs from child to child."""
    volatile = ("_", "SHLVL", "PWD", "OLDPWD")
    return {name: value for name, value in json.loads(line).items() if name not in volatile}


@dataclass
class Shell:
    """A shell with the scripts in a folder of their own, and the stand-in on PATH."""

    name: str
    folder: Path

    @property
    def script(self) -> Path:
        return self.folder / "scripts é" / ("activate.fish" if self.name == "fish" else "activate.sh")

    @property
    def path(self) -> str:
        return f"{self.folder}/bin é:/usr/bin:/bin"

    def prepare(self) -> None:
        program = self.folder / "bin é" / "xpubuild"
        program.parent.mkdir()
        program.write_text(_PROGRAM.format(python=sys.executable, log=str(self.folder / "log")))
        program.chmod(0o755)
        self.script.parent.mkdir()
        shutil.copy(resources.setvars_dir() / self.script.name, self.script)

    def run(
        self, *lines: str, env: dict[str, str] | None = None, arguments: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run lines in a new shell; `show` prints its exported environment as one JSON line."""
        show = f"{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
        text = (
            "\n".join(lines)
            .replace("@activate", f"source {shlex.quote(str(self.script))}")
            .replace("@show", show)
        )
        argv = (
            ["fish", "--no-config", "-c", text]
            if self.name == "fish"
            else ["bash", "--noprofile", "--norc", "-c", text, "caller", *arguments]
        )
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={
                "PATH": self.path,
                "HOME": str(self.folder),
                "XT_GONE": "was here",
                "LC_ALL": "C.UTF-8",
                **(env or {}),
            },
        )

    def shown(self, *lines: str, env: dict[str, str] | None = None) -> list[dict[str, str]]:
        """Return the environments that `@show` lines printed; the shell must end well and print no error."""
        result = self.run(*lines, env=env)
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
        return [steady(line) for line in result.stdout.splitlines()]

    def calls(self) -> list[tuple[list[str], str]]:
        return [tuple(json.loads(line)) for line in (self.folder / "log").read_text().splitlines()]  # type: ignore[misc]


@pytest.fixture(params=["bash", pytest.param("fish", marks=pytest.mark.needs("fish"))])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    made = Shell(request.param, tmp_path)
    made.prepare()
    return made


@pytest.fixture
def bash(tmp_path: Path) -> Shell:
    made = Shell("bash", tmp_path)
    made.prepare()
    return made


def test_enter_and_leave(shell: Shell) -> None:
    before, inside, after = shell.shown(
        "@show",
        "@activate --workspace '/my work é/it is'",
        "@show",
        "xpubuild_deactivate",
        "@show",
        env={"LD_LIBRARY_PATH": "/old one/lib"},
    )
    assert inside["PATH"] == f"/my work é/it is/env/bin:{shell.path}"
    assert inside["LD_LIBRARY_PATH"] == "/my work é/it is/lib:/old one/lib"
    assert inside["XT_TEXT"] == "it's\nexport LOOKS_LIKE=a line\n$HOME `x` \\"
    assert "XT_GONE" not in inside
    assert after == before
    assert shell.calls()[0][0] == ["env", "--shell", shell.name, "--workspace", "/my work é/it is"]


def test_twice_is_once(shell: Shell) -> None:
    before, once, twice, after = shell.shown(
        "@show",
        "@activate --workspace /w",
        "@show",
        "@activate --workspace /w",
        "@show",
        "xpubuild_deactivate",
        "@show",
    )
    assert twice == once
    assert after == before
    assert [path for _, path in shell.calls()] == [shell.path, shell.path]


def test_another_workspace_replaces_the_first(shell: Shell) -> None:
    before, inside, after = shell.shown(
        "@show",
        "@activate --workspace /one",
        "@activate --workspace /two",
        "@show",
        "xpubuild_deactivate",
        "@show",
    )
    assert inside["PATH"] == f"/two/env/bin:{shell.path}"
    assert after == before


def test_nothing_of_the_scripts_stays_in_the_shell(shell: Shell) -> None:
    listing = "set --names; functions --all" if shell.name == "fish" else "compgen -v; declare -F; true"
    result = shell.run("@activate --workspace /w", "xpubuild_deactivate", listing)
    assert result.returncode == 0
    assert "xpubuild" not in result.stdout.replace("XPUBUILD", "")


def test_a_failure_is_told_and_changes_nothing(shell: Shell) -> None:
    tail = "; or echo refused" if shell.name == "fish" else " || echo refused"
    result = shell.run("@show", f"@activate --workspace broken{tail}", "@show")
    first, refused, second = result.stdout.splitlines()
    assert refused == "refused"
    assert steady(first) == steady(second)
    assert "no workspace there" in result.stderr
    assert "activate." in result.stderr


def test_run_instead_of_sourced_is_refused(shell: Shell) -> None:
    result = subprocess.run(
        [shell.name, str(shell.script), "--workspace", "/w"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": shell.path, "HOME": "/"},
    )
    assert result.returncode == 2
    assert "sourced" in result.stderr
    assert "--workspace DIR" in result.stderr
    assert not (shell.folder / "log").exists()


def test_the_program_that_belongs_to_the_script_comes_first(shell: Shell) -> None:
    """A checkout has .venv beside scripts/; a wheel lies in <prefix>/lib/python/site-packages."""
    other = shell.folder / "checkout"
    for script, program in (
        ("scripts/setvars", ".venv/bin/xpubuild"),
        ("venv/lib/python3.11/site-packages/xpubuild/_data/setvars", "venv/bin/xpubuild"),
    ):
        (other / script).mkdir(parents=True)
        (other / program).parent.mkdir(parents=True)
        shutil.copy(shell.script, other / script)
        name = "set -gx" if shell.name == "fish" else "export"
        sign = " " if shell.name == "fish" else "="
        (other / program).write_text(f"#!/bin/sh\necho \"{name} XT_FROM{sign}'{program}'\"\n")
        (other / program).chmod(0o755)
        (inside,) = shell.shown(f"source {shlex.quote(str(other / script / shell.script.name))}", "@show")
        assert inside["XT_FROM"] == program


def test_arguments_of_the_calling_script_are_not_taken_for_our_own(bash: Shell) -> None:
    result = bash.run("@activate", "@show", arguments=("--force", "/some/folder"))
    assert json.loads(result.stdout)["XPUBUILD_WORKSPACE"] == "default"
    assert "are ignored" in result.stderr


@pytest.mark.parametrize(
    "modes", ["set -eu", "set -euo pipefail; shopt -s nullglob", "IFS=:; set -f", "set -o posix"]
)
def test_strict_shells(bash: Shell, modes: str) -> None:
    before, inside, after = bash.shown(
        modes,
        "@show",
        "@activate --workspace '/a b'",
        "@activate --workspace '/a b'",
        "@show",
        "xpubuild_deactivate",
        "@show",
    )
    assert inside["XPUBUILD_WORKSPACE"] == "/a b"
    assert after == before


def test_another_shell_is_told_what_to_type(bash: Shell) -> None:
    for argv in (["sh", "-c", f". {shlex.quote(str(bash.script))}"], ["sh", str(bash.script)]):
        result = subprocess.run(argv, capture_output=True, text=True, check=False, env={"PATH": bash.path})
        assert result.returncode == 2
        assert "xpubuild env --shell bash" in result.stderr
        assert "syntax" not in result.stderr.lower()
