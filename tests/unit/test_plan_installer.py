"""What installs hashed requirement files: chosen from facts, shown by the plan, in no fingerprint."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support.plan_files import plan_for

from xpubuild.engine.model import Command, Plan
from xpubuild.install import resolve as supplies
from xpubuild.install.choose import choose
from xpubuild.install.options import EnvKind, InstallerKind, Options
from xpubuild.install.script import script
from xpubuild.install.target import Downloads, Installer
from xpubuild.recipe.load import load
from xpubuild.supply.index.pipconf import Program
from xpubuild.ui.run_views import plan_view

UV = Installer("/opt/my tools/uv", "1.2.3", Path("/somewhere/cache/uv"))


def installs(plan: Plan) -> list[Command]:
    every = [command for step in plan.steps for command in step.commands]
    return [command for command in every if command.shortcut[:3] == ("xpubuild", "plumbing", "link-packages")]


def shortcuts(plan: Plan) -> dict[str, tuple[str, ...]]:
    found = installs(plan)
    return {step.id: item.shortcut for step in plan.steps for item in step.commands if item in found}


def test_uv_is_tried_before_pip_for_every_requirement_file_and_nothing_is_made_again_for_it() -> None:
    pip, uv = plan_for("quickstart"), plan_for("quickstart", facts={"installer": UV})
    assert shortcuts(pip) == {}
    found = shortcuts(uv)
    assert set(found) == {"toolchain", "torch"}
    assert uv.fingerprints == pip.fingerprints
    assert uv.lock_digest == pip.lock_digest
    words = found["torch"]
    assert words[words.index("--uv") + 1] == UV.uv
    assert words[words.index("--index") + 1] == "https://download.pytorch.org/whl/cpu"
    assert words[words.index("--constraint") + 1].endswith("build/held/by-the-recipe.txt")
    assert "--no-deps" not in words
    # What the recipe leaves out of the tools is not asked for.
    assert "--no-deps" in found["toolchain"]
    removal = next(command for command in uv.step("toolchain").commands if "uninstall" in command.argv)
    assert removal.shortcut[:3] == ("xpubuild", "plumbing", "leave-out")
    assert removal.shortcut[4:] == removal.argv[removal.argv.index("--disable-pip-version-check") + 1 :]
    # pip's own command stands behind it, with the report in the same place.
    for command in installs(uv):
        assert "pip" in command.argv
        assert command.argv[command.argv.index("--report") + 1] in command.shortcut


def test_a_build_stays_with_pip() -> None:
    plan = plan_for("2.13", oneapi="2025.3", with_=("vision",), facts={"installer": UV})
    assert "torch.wheel" not in shortcuts(plan)
    assert "torch.install" not in shortcuts(plan)


def test_the_plan_says_what_installs_and_why() -> None:
    shown = "".join(str(part) for part in plan_view(plan_for("quickstart", facts={"installer": UV}), {}))
    assert "uv 1.2.3 (linked from /somewhere/cache/uv), pip where it fails" in shown
    copied = Installer("/uv", "1.2.3", Path("/cache"), links=False)
    assert "copied, on another file system, from /cache" in copied.summary()
    assert Installer(why="uv is not installed").summary() == "pip (uv is not installed)"
    plan = plan_for("quickstart", facts={"installer": Installer(why="uv is not installed")})
    assert plan.summary["packages"] == "pip (uv is not installed)"


def test_a_script_installs_with_pip_and_says_so() -> None:
    text = script(plan_for("quickstart", facts={"installer": UV}))
    assert "link-packages" not in text
    assert shlex.quote(str(UV.uv)) not in text
    assert "pip install" in text


def chosen_installer(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    asked: InstallerKind = "auto",
    packages: EnvKind = "venv",
    program: Program = Program("/opt/uv", "1.2.3"),  # noqa: B008
    pip: dict[str, str] | None = None,
    settings: dict[str, str] | None = None,
) -> Installer:
    monkeypatch.setattr("xpubuild.supply.index.pipconf.find_uv", lambda *_, **_more: program)
    for name, value in (settings or {}).items():
        monkeypatch.setenv(name, value)
    options = Options("quickstart", tmp_path / "not made yet", installer=asked, packages=packages)
    return supplies.installer_for(choose(options, load("quickstart")), Downloads(pip=pip or {}))


def test_uv_is_taken_where_it_can_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = chosen_installer(monkeypatch, tmp_path)
    assert (found.uv, found.version, found.cache.name) == ("/opt/uv", "1.2.3", "uv")
    # Its own settings for an offline build do not rule it out.
    assert chosen_installer(
        monkeypatch, tmp_path, pip={"PIP_NO_CACHE_DIR": "1", "PIP_KEYRING_PROVIDER": "disabled"}
    ).uv


def test_pip_is_taken_otherwise_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert chosen_installer(monkeypatch, tmp_path, asked="pip").summary() == "pip (--installer pip)"
    assert chosen_installer(monkeypatch, tmp_path, packages="conda").why == "the environment is of conda"
    assert (
        chosen_installer(monkeypatch, tmp_path, program=Program(why="uv is not installed")).why
        == "uv is not installed"
    )
    cache = tmp_path / "cache" / "xpubuild" / "uv"
    cache.mkdir(parents=True)
    cache.chmod(0o770)
    found = chosen_installer(monkeypatch, tmp_path, settings={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found.why == f"others can write to {cache}"
    cache.chmod(0o750)
    assert chosen_installer(monkeypatch, tmp_path).cache == cache
    found = chosen_installer(monkeypatch, tmp_path, settings={"PIP_NO_BINARY": ":all:"})
    assert found.why == "pip's setting no-binary has no equivalent in uv"
