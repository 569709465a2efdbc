"""What reads each kind of hostile input, and what shows that one was let in."""

from __future__ import annotations

import contextlib
import io
import shutil
import sqlite3
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import yaml

from support.ordeal.attack import Attack, Finished
from support.ordeal.inputs import Hostile
from support.ordeal.intruders import INTRUDERS
from support.ordeal.judge import CARRIED_ON, CLEAR, LetInError, LostError
from support.ordeal.trial import Trial

_LOG = """[1/3] Building CXX object a.o
FAILED: a.o
/usr/bin/c++ -o a.o -c a.cpp
a.cpp:1:10: fatal error: sycl/sycl.hpp: No such file or directory
compilation terminated.
ninja: build stopped: subcommand failed.
"""
_GITCONFIG = "[user]\n\tname = somebody\n[core]\n\tquotePath = false\n"
_PIP_CONF = "[global]\ntimeout = 5\n"


def recipe(attack: Attack) -> str:
    """A recipe: checked, planned, and installed if it is accepted."""
    path = attack.trial.place / "hostile.yaml"
    path.write_bytes(attack.hostile.yaml(attack.trial.world.recipe.read_bytes()))
    attack.ask("recipes", "check", path, "--json")
    if attack.ask("plan", path, "--workspace", attack.trial.workspace, "--json"):
        return CLEAR
    return attack.install(path, "--until", "fast.install")


def lock(attack: Attack) -> str:
    """A lock: one that says anything else than the good one is refused."""
    path, good = attack.trial.place / "small.lock.yaml", attack.good.lock.read_bytes()
    path.write_bytes(attack.hostile.yaml(good))
    code = attack.ask("check", path, "--recipe", attack.trial.world.recipe, "--json")
    planned = attack.ask("plan", "--lock", path, "--workspace", attack.trial.workspace, "--json")
    if code and planned:
        return CLEAR
    if yaml.safe_load(path.read_bytes()) != yaml.safe_load(good):
        raise LetInError(f"a changed lock is accepted: verify-lock {code}, plan {planned}")
    return CARRIED_ON


def mirror(attack: Attack) -> str:
    """A mirror: a file of it damaged, rewritten, or a link to somewhere else."""
    copy = attack.trial.place / "mirror"
    shutil.copytree(attack.good.mirror, copy, symlinks=True)
    path = attack.rng.choice(sorted(found for found in copy.rglob("*") if found.is_file()))
    choice = attack.rng.random()
    if choice < 0.2:
        path.unlink()
        path.symlink_to(attack.rng.choice((attack.hostile.canary, attack.hostile.canary.parent / "planted")))
        attack.hostile.said = "link"
    elif path.suffix == ".json":
        path.write_bytes(attack.hostile.json(path.read_bytes()))
    else:
        made = attack.hostile.flipped(path.read_bytes())
        path.unlink()
        path.write_bytes(made)
    attack.hostile.said = f"{path.relative_to(copy)}: {attack.hostile.said}"
    recipe_file = attack.trial.world.install[1]
    code = attack.ask("fetch", recipe_file, "--mirror", copy, "--offline", "--json")
    attack.ask("fetch", recipe_file, "--mirror", copy, "--json")
    if code:
        return CLEAR
    return attack.install(recipe_file, "--offline", "--mirror", copy, "--until", "fast.install")


def index(attack: Attack) -> str:
    """The page of an index: whatever it says, the wheel that is installed is the one that was meant."""
    served = attack.trial.world.index
    page = served.page_of("tiny-wheel")
    assert page
    text = attack.hostile.text(page[1].replace("<br>", "\n"))
    if attack.rng.random() < 0.3:
        text = attack.hostile.flipped(page[1].encode()).decode("latin-1")
    made = text.encode("utf-8", "replace").decode()
    vars(served)["page_of"] = lambda _: (page[0], made)
    try:
        verdict = attack.install(attack.trial.world.install[1], "--until", "tiny")
    finally:
        del vars(served)["page_of"]
    for path in attack.trial.workspace.glob("env/lib/python3*/site-packages/tiny.py"):
        if verdict == CARRIED_ON and path.read_text() != "version = '1.0+cpu'\n":
            raise LetInError("another wheel is installed")
    return verdict


def log(attack: Attack) -> str:
    """A log: explain ends, quotes no secret, and prints nothing that a terminal obeys."""
    path = attack.trial.place / "some.log"
    made = attack.hostile.text(_LOG * attack.rng.choice((1, 200))).encode("utf-8", "surrogatepass")
    path.write_bytes(attack.hostile.flipped(made) if attack.rng.random() < 0.3 else made)
    for words in (("explain", path), ("explain", path, "--json")):
        if attack.ask(*words):
            raise LostError(f"explain fails: {attack.trial.answers[-1]}")
    return CARRIED_ON


def configuration(attack: Attack) -> str:
    """The user's configuration of git and pip, and recipes of a site."""
    home = attack.trial.place / "home"
    files: dict[str, Callable[[], bytes]] = {
        ".gitconfig": lambda: attack.hostile.text(_GITCONFIG).encode("utf-8", "replace"),
        ".config/git/config": lambda: attack.hostile.text(_GITCONFIG).encode("utf-8", "replace"),
        ".config/git/attributes": lambda: b"* filter=x diff=x merge=x eol=crlf ident\n",
        ".config/pip/pip.conf": lambda: attack.hostile.text(_PIP_CONF).encode("utf-8", "replace"),
        ".netrc": lambda: attack.hostile.flipped(b"machine 127.0.0.1 login a password b\n"),
        ".config/xpubuild/recipes/site.yaml": lambda: attack.hostile.yaml(
            attack.trial.world.recipe.read_bytes()
        ),
    }
    for name in attack.rng.sample(sorted(files), attack.rng.randint(1, 3)):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(files[name]())
        attack.trial.note(name)
    attack.trial.variables["PIP_CONFIG_FILE"] = str(home / ".config/pip/pip.conf")
    attack.ask("recipes", "list", "--json")
    return attack.install(
        attack.trial.world.install[1], "--until", attack.rng.choice(("fast.source", "tiny"))
    )


def environment(attack: Attack) -> str:
    """Variables of the environment."""
    attack.trial.variables.update(attack.hostile.variables())
    attack.ask("status", "--workspace", attack.good.trial.workspace, "--json")
    return attack.install(
        attack.trial.world.install[1], "--until", attack.rng.choice(("fast.source", "tiny"))
    )


def wheel(attack: Attack) -> str:
    """A wheel: no change of what it holds passes audit; installed from an index it writes nothing outside."""
    source = attack.rng.choice(
        [attack.trial.world.wheel, *(attack.good.trial.workspace / "wheels").glob("*.whl")]
    )
    path = attack.trial.place / source.name
    good = source.read_bytes()
    path.write_bytes(attack.hostile.flipped(good) if attack.rng.random() < 0.6 else _rezipped(attack, good))
    accepted = attack.ask("check", path, "--json") == 0
    if accepted and _members(path.read_bytes()) != _members(good):
        raise LetInError(f"audit accepts {_members(path.read_bytes())}")
    index = attack.trial.world.index
    if source == attack.trial.world.wheel:
        kept = index.files[source.name]
        index.files[source.name] = path.read_bytes()
        try:
            attack.install(attack.trial.world.install[1], "--until", "tiny")
        finally:
            index.files[source.name] = kept
    return CARRIED_ON if accepted else CLEAR


def _members(data: bytes) -> list[tuple[str, int, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return sorted(
            (info.filename, info.external_attr >> 28, archive.read(info)) for info in archive.infolist()
        )


def _rezipped(attack: Attack, good: bytes) -> bytes:
    made, rng = io.BytesIO(), attack.rng
    with zipfile.ZipFile(io.BytesIO(good)) as archive, zipfile.ZipFile(made, "w") as target:
        chosen = rng.choice(archive.infolist())
        for info in archive.infolist():
            data = archive.read(info)
            if info is chosen:
                name = str(attack.hostile.value()).replace("\0", "")[:20000] or "x"
                attack.hostile.said = f"member {name[:60]!r} for {info.filename}"
                if rng.random() < 0.3:
                    info.external_attr = 0o120777 << 16
                    data = str(attack.hostile.canary.parent / "planted").encode()
                elif rng.random() < 0.5:
                    target.writestr(name.encode("utf-8", "replace").decode(), data)
                else:
                    info.filename = name.encode("utf-8", "replace").decode()
            target.writestr(info, data)
    return made.getvalue()


def _in_workspace(attack: Attack, change: Callable[[Path], None]) -> str:
    """Change the finished workspace; the same install then carries on, or says what is wrong."""
    with attack.finished() as finished:
        change(finished.workspace)
        workspace = str(finished.workspace)
        for words in (
            ("status", "--workspace"),
            ("check",),
            ("plan", attack.trial.world.install[1], "--workspace"),
        ):
            attack.ask(*words, workspace, "--json", trial=finished)
        _activate(attack, finished)
        if attack.ask(*finished.install_words, trial=finished):
            return CLEAR
        finished.look()
        return CARRIED_ON


def _activate(attack: Attack, finished: Trial) -> None:
    answer = finished.run("env", "--workspace", str(finished.workspace), "--shell", "bash")
    answer.must_be_clear()
    if answer.code == 0:
        subprocess.run(
            ["sh", "-c", 'eval "$1"', "_", answer.out], capture_output=True, check=False, timeout=60
        )


def journal(attack: Attack) -> str:
    """The journal: bytes, values of cells, something else in its place."""

    def change(workspace: Path) -> None:
        path = workspace / "journal.db"
        choice = attack.rng.random()
        if choice < 0.5:
            _change_cell(attack, path)
        elif choice < 0.9:
            path.write_bytes(attack.hostile.flipped(path.read_bytes()))
        else:
            attack.hostile.said = "a link in its place"
            path.unlink()
            path.symlink_to(attack.hostile.canary)

    return _in_workspace(attack, change)


def schema_byte(attack: Attack) -> str:
    """One bit of the first pages of the journal, where the text of its schema is."""

    def change(workspace: Path) -> None:
        path = workspace / "journal.db"
        made = bytearray(path.read_bytes())
        at = attack.rng.randrange(min(8192, len(made)))
        made[at] ^= 1 << attack.rng.randrange(8)
        attack.hostile.said = f"byte {at}"
        path.write_bytes(made)

    return _in_workspace(attack, change)


def _change_cell(attack: Attack, path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        tables = [
            row[0]
            for row in database.execute("select name from sqlite_master where type = 'table' order by 1")
        ]
        table = attack.rng.choice(tables)
        column = attack.rng.choice([row[1] for row in database.execute(f"pragma table_info({table})")])
        attack.hostile.said = f"{table}.{column}"
        value = attack.hostile.value()
        if (isinstance(value, int) and abs(value) >= 1 << 63) or isinstance(value, list | dict):
            value = str(value)
        with contextlib.suppress(sqlite3.Error):  # of a type or a constraint: then nothing is changed
            value = str(value) if hasattr(value, "isoformat") else value
            database.execute(f"update {table} set {column} = ?", (value,))  # noqa: S608 - names of its own


def receipt(attack: Attack) -> str:
    """The receipt and the other small documents of a workspace."""

    def change(workspace: Path) -> None:
        names = ("receipt.json", "receipt.json", "build/plan.json", "env/.xpubuild-env.json",
                 "env/pyvenv.cfg", "build/held/tiny.txt", ".lock.owner",
                 "resolved.json", "build/verify.json")  # fmt: skip
        path = workspace / attack.rng.choice(names)
        good = path.read_bytes() if path.exists() else b"{}"
        made = attack.hostile.json(good) if path.suffix == ".json" else attack.hostile.flipped(good)
        attack.hostile.said = f"{path.name} {attack.hostile.said}"
        path.write_bytes(made)

    return _in_workspace(attack, change)


TARGETS: dict[str, Callable[[Attack], str]] = {
    "recipe": recipe, "lock": lock, "journal": journal, "receipt": receipt, "mirror": mirror, "wheel": wheel,
    "index": index, "log": log, "configuration": configuration, "environment": environment,
    "schema byte": schema_byte, **INTRUDERS,
}  # fmt: skip


def attack_with(trial: Trial, target: str, good: Finished) -> str:
    """Make a hostile input for a target and let it be read; return the verdict."""
    hostile = Hostile(trial.rng, trial.place.parent / "outside")
    hostile.prepare()
    trial.world.environment(trial.place)
    try:
        verdict = TARGETS[target](Attack(trial, hostile, good))
    finally:
        trial.note(hostile.said)
    hostile.must_be_kept()
    return verdict
