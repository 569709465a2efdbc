"""What nobody listed: files that git ignores, modules in place of others, foreign text, slow servers."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import yaml

from support import net
from support.ordeal.attack import Attack
from support.ordeal.judge import CARRIED_ON, CLEAR, LetInError, LostError

#: Files of a tree that change what is built, or could: a header that is nearer than the submodule's, one of
#: the system, bytecode of the build backend, an object.
_IGNORED = ("answer.h", "third_party/inner/stdio.h", "Python.h", "src/extra.h", "quick.so", "backend.so",
            "__pycache__/backend.cpython-311.pyc")  # fmt: skip
_RULES = ("user", "excludesFile", "info/exclude", "none")


def ignored_file(attack: Attack) -> str:
    """A file in a checkout that git does not show: no wheel is built with it, and it stays."""
    recipe, rng = attack.trial.world.install[1], attack.rng
    attack.install(recipe, "--until", "fast.source")
    tree, home = attack.trial.workspace / "src" / "fast", attack.trial.place / "home"
    name, rule = rng.choice(_IGNORED), rng.choice(_RULES)
    attack.hostile.said = f"{name}, ignored by {rule}"
    ignored = f"/{name}\n{name}\n"
    files = {
        "user": (home / ".config/git/ignore", ignored),
        "excludesFile": (home / ".gitconfig", f"[core]\n\texcludesFile = {home}/ignored\n"),
        "info/exclude": (tree / ".git/info/exclude", ignored),
    }
    (home / "ignored").write_text(ignored)
    for path, text in (files[rule],) if rule in files else ():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    planted = tree / name
    planted.parent.mkdir(exist_ok=True)
    planted.write_text("#define ANSWER 666\n")
    if attack.install(recipe, "--until", "fast.install") == CARRIED_ON:
        raise LetInError(f"a wheel is built beside {attack.hostile.said}")
    if not planted.exists():
        raise LostError(f"{name} was removed")
    return CLEAR


#: Below site-packages: what is imported, read or run before or in place of what was installed.
_SHADOWS = (
    "fast/__init__.py", "fast.py", "quick/__init__.so", "tiny/__init__.py", "tiny.so", "sitecustomize.py",
    "usercustomize/__init__.py", "zz.pth", "pip/__main__/__init__.py", "../../../bin/tiny.py",
    "../../../bin/git", "../../../bin/python", "../../../pyvenv.cfg",
)  # fmt: skip


def shadowed_import(attack: Attack) -> str:
    """A module, program or setting that decides what is imported: check finds it, and nothing runs it."""
    name = attack.hostile.said = attack.rng.choice(_SHADOWS)
    outside = attack.hostile.canary.parent / "planted"
    with attack.finished() as finished:
        (site,) = finished.workspace.glob("env/lib/python3*/site-packages")
        path = Path(os.path.normpath(site / name))
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"import os; open({str(outside)!r}, 'w')\n"
        if path.name == "pyvenv.cfg":
            text = path.read_text().replace("= false", "= true")
        elif path.parent.name == "bin" and path.suffix != ".py":
            text = attack.hostile.canary.read_text()
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        workspace = str(finished.workspace)
        attack.ask("status", "--workspace", workspace, "--json", trial=finished)
        attack.ask("plan", attack.trial.world.install[1], "--workspace", workspace, "--json", trial=finished)
        if attack.ask("check", workspace, "--json", trial=finished) == 0:
            raise LetInError(f"check does not find {name}")
    return CLEAR


def slow_server(attack: Attack) -> str:
    """A mirror or store whose server keeps its client waiting: the install ends in time."""
    option, kind = attack.rng.choice(("--mirror", "--store")), attack.rng.choice(sorted(net.KEEPS_WAITING))
    attack.hostile.said = f"{option} waits for {kind}"
    attack.limit_s = 150.0
    with net.slow_server(*net.KEEPS_WAITING[kind]) as url:
        return attack.install(attack.trial.world.install[1], option, url, "--until", "fast.install")


#: Lines that mean something where a text of a recipe might end up.
_LINES = (
    "RUN touch /x", "%setup", "%post", "#SBATCH --wrap=x", "#PBS -l x", "syntax=evil/image", "USER root",
)  # fmt: skip
_BREAKS = ("\n", "\r", "\r\n", "\u2028", "\x85", "\x0b", "\\\n", "'\n", '"\n', "\n\n")
_PLACES: dict[str, Callable[[dict[str, object], str], None]] = {
    "title": lambda recipe, text: recipe.update(title=text),
    "name": lambda recipe, text: recipe.update(name=text),
    "dist": lambda recipe, text: _fast(recipe).update(dist=text),
    "name of a variable": lambda recipe, text: _fast(recipe).update(build={"env": {text: "1"}}),
    "value of a variable": lambda recipe, text: _fast(recipe).update(build={"env": {"A": text}}),
    "name of a component": lambda recipe, text: _components(recipe).update({text: _fast(recipe)}),
}


def _components(recipe: dict[str, object]) -> dict[str, dict[str, object]]:
    found = recipe["components"]
    assert isinstance(found, dict)
    return found


def _fast(recipe: dict[str, object]) -> dict[str, object]:
    return _components(recipe)["fast"]


def language_text(attack: Attack) -> str:
    """A text of a recipe that is a second line elsewhere: it is refused, or begins no line of any output."""
    rng, folder = attack.rng, attack.trial.place / "texts"
    line, place = rng.choice(_LINES), rng.choice(sorted(_PLACES))
    text = rng.choice(("", "plain", "a b")) + rng.choice(_BREAKS) + line
    attack.hostile.said = f"{place}: {text!r}"
    document = yaml.safe_load(attack.trial.world.recipe.read_bytes())
    _PLACES[place](document, text)
    recipe = attack.trial.world.recipe.with_name(f"text-{attack.trial.place.parent.name}.yaml")
    recipe.write_text(yaml.safe_dump(document))
    folder.mkdir()
    asked: tuple[tuple[str | Path, ...], ...] = (
        ("plan", recipe, "--format", "sh", "--output", folder / "plan.sh"),
        ("plan", recipe, "--format", "slurm", "--output", folder / "slurm"),
        ("plan", recipe, "--format", "pbs", "--output", folder / "pbs"),
        ("image", recipe, "--output", folder / "Containerfile"),
        ("image", recipe, "--format", "apptainer", "--output", folder / "x.def"),
    )
    try:
        accepted = [attack.ask(*words) == 0 for words in asked]
    finally:
        recipe.unlink()
    for path in (path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".sh":
            said = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
            if said.returncode:
                raise LetInError(f"{path.name} is no shell script: {said.stderr}")
        elif re.search(rf"^\s*{re.escape(line)}", path.read_bytes().decode("utf-8", "replace"), re.MULTILINE):
            raise LetInError(f"{line} begins a line of {path.name}")
    return CARRIED_ON if any(accepted) else CLEAR


INTRUDERS: dict[str, Callable[[Attack], str]] = {
    "ignored file": ignored_file, "shadowed import": shadowed_import, "slow server": slow_server,
    "language text": language_text,
}  # fmt: skip
