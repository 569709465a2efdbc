"""The modulefiles of workspaces, loaded and unloaded by Lmod and by Environment Modules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.entered import CHANGES, make_workspace
from support.modules import Modules, environment_modules, lmod

from xpubuild.errors import UsageError
from xpubuild.workspace.activation import read_receipt
from xpubuild.workspace.modulefile import Modules as Written

BEFORE = {
    "LD_LIBRARY_PATH": "/usr/own:/opt/mine",
    "CMPLR_ROOT": "/before",
    "PYTHONHOME": "/python",
    "XT_GONE": "x",
}
# Neither module system gets a line break into a shell.
LINES: dict[str, Any] = {
    **CHANGES,
    "set": {**CHANGES["set"], "XT_ODD": CHANGES["set"]["XT_ODD"].replace("\n", " ")},
}
# Which module system reads which form: Lmod reads both.
NAME = "2.8-py3.12-0123456"
PAIRS = [("lmod", "lmod"), ("lmod", "tcl"), ("tcl", "tcl")]


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Modules]:
    return {"lmod": lmod(), "tcl": environment_modules(tmp_path_factory.mktemp("environment-modules"))}


def written(
    folder: Path, form: str, *recipes: str, depends_on: tuple[str, ...] = (), default: str = ""
) -> dict[str, Path]:
    found = {}
    for recipe in recipes:
        root = make_workspace(folder / "w s" / recipe, recipe, LINES)
        modules = Written(folder / "modules", form, depends_on, default == recipe)
        modules.write(root, read_receipt(root))
        found[recipe] = root
    return found


@pytest.mark.needs("lmod", "apt-get")
@pytest.mark.parametrize(("system", "form"), PAIRS)
def test_what_is_loaded_is_taken_back(
    systems: dict[str, Modules], tmp_path: Path, system: str, form: str
) -> None:
    root = written(tmp_path, form, "2.8")["2.8"]
    # Only a file in Lua gives back what variables held before, where Lmod reads it.
    kept = {
        name: value for name, value in BEFORE.items() if (system, form) != ("lmod", "tcl") or "PATH" in name
    }
    before, loaded, after = systems[system].environments(
        "@show", f"module load xpubuild/{NAME}", "@show", f"module unload xpubuild/{NAME}", "@show",
        MODULEPATH=str(tmp_path / "modules"), **kept,
    )  # fmt: skip
    assert after == before
    assert loaded["PATH"] == f"{root}/env/bin:/opt/one api/bin:/opt/second/bin:{before['PATH']}"
    assert loaded["LD_LIBRARY_PATH"] == "/opt/lib a:/opt/lib-b:/usr/own:/opt/mine:/opt/last"
    assert {name: loaded[name] for name in LINES["set"]} == LINES["set"]
    assert loaded["VIRTUAL_ENV"] == f"{root}/env"
    assert not loaded.get("PYTHONHOME")
    assert not loaded.get("XT_GONE")


@pytest.mark.needs("lmod", "apt-get")
@pytest.mark.parametrize(("system", "form"), PAIRS)
def test_versions_help_and_conflicts(
    systems: dict[str, Modules], tmp_path: Path, system: str, form: str
) -> None:
    roots = written(tmp_path, form, "2.10", "2.9", "main", default="2.9")
    names = {recipe: NAME.replace("2.8", recipe) for recipe in roots}
    (tmp_path / "modules" / "pytorch").mkdir()
    (tmp_path / "modules" / "pytorch" / "1").write_text("#%Module\n")
    module, place = systems[system], str(tmp_path / "modules")
    (by_default,) = module.environments("module load xpubuild", "@show", MODULEPATH=place)
    assert by_default["VIRTUAL_ENV"] == f"{roots['2.9']}/env"
    (swapped,) = module.environments(
        f"module load xpubuild/{names['2.9']}",
        f"module swap xpubuild/{names['2.10']}",
        "@show",
        MODULEPATH=place,
    )
    assert swapped["PATH"].count("w s") == 1
    told = module.run(
        f"module help xpubuild/{names['2.9']}", f"module whatis xpubuild/{names['2.9']}", MODULEPATH=place
    )
    assert f"Workspace: {roots['2.9']}" in told.stdout + told.stderr
    assert "PyTorch by xpubuild, recipe 2.9" in told.stdout + told.stderr
    both = module.run("module load pytorch/1", "module load xpubuild", "echo $VIRTUAL_ENV", MODULEPATH=place)
    assert re.search("conflict|because these module", both.stderr)
    assert str(roots["2.9"]) not in both.stdout


@pytest.mark.needs("lmod", "apt-get")
@pytest.mark.parametrize(("system", "form"), PAIRS)
def test_oneapi_from_modules_of_the_site(
    systems: dict[str, Modules], tmp_path: Path, system: str, form: str
) -> None:
    root = written(tmp_path, form, "2.8", depends_on=("oneapi/2025.1",))["2.8"]
    site = tmp_path / "modules" / "oneapi" / "2025.1"
    site.parent.mkdir()
    site.write_text("#%Module\nsetenv CMPLR_ROOT /site/compiler\nprepend-path PATH /site/bin\n")
    before, loaded, after = systems[system].environments(
        "@show", f"module load xpubuild/{NAME}", "@show", f"module unload xpubuild/{NAME}", "@show",
        MODULEPATH=str(tmp_path / "modules"),
    )  # fmt: skip
    assert after == before
    assert loaded["CMPLR_ROOT"] == "/site/compiler"
    assert loaded["PATH"] == f"{root}/env/bin:/site/bin:{before['PATH']}"


@pytest.mark.parametrize("form", ["lmod", "tcl"])
def test_nothing_of_somebody_elses_is_overwritten(form: str, tmp_path: Path) -> None:
    root = written(tmp_path, form, "2.8")["2.8"]
    (module,) = (tmp_path / "modules" / "xpubuild").iterdir()
    assert module.name == (f"{NAME}.lua" if form == "lmod" else NAME)
    text, modules = module.read_text(), Written(tmp_path / "modules", form, default=True)
    other = make_workspace(tmp_path / "w s" / "2.8-other", "2.8", LINES)
    with pytest.raises(UsageError, match="leads to another workspace") as caught:
        modules.write(other, read_receipt(other))
    assert f"rm '{module}'" in caught.value.commands or f"rm {module}" in caught.value.commands
    assert module.read_text() == text
    module.write_text("#%Module\n# ours\n")
    with pytest.raises(UsageError, match="is not a modulefile of xpubuild"):
        modules.require_place(root, read_receipt(root))
    module.unlink()
    rc = module.with_name(".modulerc")
    rc.write_text("#%Module\n# chosen by the site\n")
    modules.write(root, read_receipt(root))
    assert rc.read_text() == "#%Module\n# chosen by the site\n"


def test_a_build_that_changed_takes_its_old_name_along_and_stays_the_default(tmp_path: Path) -> None:
    root = written(tmp_path, "lmod", "2.8", default="2.8")["2.8"]
    written(tmp_path, "lmod", "2.9")
    changed = {**read_receipt(root), "lock_digest": "fedcba9876543210"}
    Written(tmp_path / "modules", "lmod").write(root, changed)
    folder = tmp_path / "modules" / "xpubuild"
    names = sorted(path.name for path in folder.iterdir())
    assert names == [".modulerc", "2.8-py3.12-fedcba9.lua", "2.9-py3.12-0123456.lua"]
    assert "module-version xpubuild/2.8-py3.12-fedcba9 default" in (folder / ".modulerc").read_text()


def test_install_writes_the_file_that_env_prints(tmp_path: Path) -> None:
    root = written(tmp_path, "lmod", "2.8")["2.8"]
    assert json.loads((root / "receipt.json").read_text())["recipe"] == "2.8"
    assert 'family("xpubuild")' in (tmp_path / f"modules/xpubuild/{NAME}.lua").read_text()
