"""Workspaces, also damaged, moved or half removed ones: what clean, status and env say, whole."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from support.data_files import dumped, placed
from support.entered import make_workspace
from support.shown_places import SITE, error_of, outside, scratch_folder, told_in, write_file
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import WorkspaceLock
from xpubuild.workspace import moved, overview, shells
from xpubuild.workspace.activation import assignments, difference, environment, read_receipt
from xpubuild.workspace.clean import plan_clean, remove
from xpubuild.workspace.clean_many import CACHES, choose, remove_all
from xpubuild.workspace.documents import status_document
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.modulefile import file_name, modulefile
from xpubuild.workspace.odd import require_plain
from xpubuild.workspace.pth_locale import needed_locale

_DAY_S = 86_400.0


def _cleaned() -> str:
    """Return what clean says and leaves of a workspace with everything in it."""
    with scratch_folder() as folder, outside(folder):
        told: dict[str, Any] = {}
        for name, steps in (("whole", ()), ("a step", ("one",)), ("with a file of the user", ())):
            root = folder / name
            inside = [root / "build" / name for name in ("a/file", "a", "link", "gone")]
            write_file(inside[0], "12345")
            (root / "build" / "link").symlink_to("/nowhere")
            write_file(folder / "outside", "x")
            write_file(root / "src" / "checkout" / ".git" / "HEAD", "nothing")
            write_file(root / "logs" / "one.log")
            for empty in ("wheels", "env/lib"):
                (root / empty).mkdir(parents=True)
            with Journal(root / "journal.db") as journal:
                journal.start_run("r", ["install"], "0")
                for step in ("one", "two"):
                    journal.begin(step, "f")
                journal.add_made("one", [str(path) for path in inside[:2]])
                more = [*inside[2:], folder / "outside", root / "src" / "checkout"]
                journal.add_made("two", [str(path) for path in more])
            if name == "with a file of the user":
                shutil.rmtree(root / "src" / "checkout")
                write_file(root / "wheels" / "mine.txt")
                (root / "receipt.json").touch()
            told[name] = {
                "unknown": error_of(partial(plan_clean, root, ("zz", "aa"))),
                "plan": plan_clean(root, steps).to_json(dry_run=True),
                "done": remove(root, steps).to_json(dry_run=False),
                "left": _tree(root),
            }
        with Journal(write_file(folder / "empty" / "journal.db")):
            pass
        told["empty"] = [
            error_of(lambda: plan_clean(folder / "empty", ("zz",))),
            remove(folder / "empty").to_json(dry_run=False),
            (folder / "empty").exists(),
        ]
        return told_in(folder, told)


def _tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*")) if root.exists() else ["nothing"]


def _run_of(root: Path, days: float | None, ended: str | None, **receipt: Any) -> Path:
    """Make a workspace whose last run ended so many days before the first of all days."""
    with Journal(write_file(root / "journal.db")) as journal:
        if days is not None:
            with mock.patch("time.time", return_value=(100 - days) * _DAY_S):
                journal.start_run("of the run", ["install", "x"], "0")
                if ended:
                    journal.end_run(ended)
    if receipt:
        write_file(root / "receipt.json", json.dumps(receipt))
    return root


def _seen() -> str:
    """Return the overview of some workspaces, and which clean would choose."""
    with (
        scratch_folder() as folder,
        mock.patch("xpubuild.workspace.overview.disk_usage", _size),
        mock.patch("xpubuild.workspace.clean_many.disk_usage", _size),
    ):
        workspaces, cache = folder / "workspaces", folder / "cache"
        complete = {"recipe": "r", "status": "complete", "verify": {"status": "pass"}}
        _run_of(workspaces / "complete", 2, "ok", **complete, wheels=[{"name": "torch", "version": "2.8"}])
        prebuilt = [{"name": "x", "version": "1"}, {"name": "torch", "version": 2}]
        _run_of(workspaces / "prebuilt", 40, "ok", recipe="p", prebuilt=prebuilt)
        _run_of(workspaces / "failed", 9, "failed", recipe="f")
        _run_of(workspaces / "cancelled", 6, "cancelled")
        _run_of(workspaces / "interrupted", 8, None)
        _run_of(workspaces / "never", None, None)
        write_file(workspaces / "odd" / "journal.db", "no database " * 100)
        write_file(workspaces / "odd" / "receipt.json", "[]")
        entered = _run_of(folder / "entered", 1, "ok", recipe="e")
        report = write_file(Layout(workspaces / "complete").verify_report)
        os.utime(report, (5, 5))
        for name in (*CACHES, "other"):
            write_file(cache / name / "file")
        (cache / "a-file").touch()
        shutil.rmtree(cache / "oneapi")
        (cache / "oneapi").symlink_to(folder)
        busy = _run_of(workspaces / "busy", 50, "ok")
        told: dict[str, Any] = {"ages": {text: error_of(_age(text)) for text in _AGES}}
        with mock.patch("time.time", return_value=100 * _DAY_S):
            with WorkspaceLock(busy, command="xpubuild test"):
                told["overview"] = overview.overview_document(workspaces, cache, entered)
                told["busy"] = choose(workspaces, cache, None).to_json(dry_run=True)
                told["old while busy"] = choose(workspaces, cache, "7d").to_json(dry_run=True)
            told["nothing entered"] = len(overview.overview_document(workspaces, cache, folder)["workspaces"])
            told["nowhere"] = overview.overview_document(folder / "a", folder / "b", None)
            told["old"] = [
                choose(workspaces, cache, age).to_json(dry_run=True) for age in ("8d", "9d", "45d")
            ]
            chosen = choose(workspaces, cache, None)
            told["caches"] = chosen.to_json(dry_run=True)
            told["refused"] = chosen.refused().to_json(dry_run=False)
            told["removed"] = remove_all(chosen).to_json(dry_run=False)
            old = choose(workspaces, cache, "7d")
            (workspaces / "failed" / "journal.db").unlink()
            told["one is gone"] = remove_all(old).to_json(dry_run=False)
        told["left"] = [_tree(cache), sorted(path.name for path in workspaces.iterdir())]
        return told_in(folder, told)


_AGES = ("1d", "2w", "3m", "4y", "5", "9999", "10000", "0", "d", "", "-1", "x")


def _age(text: str) -> Callable[[], str]:
    return lambda: str(overview.age_of(text))


def _size(path: Path) -> int:
    return len(path.name)


def _entered() -> str:
    """Return what enters a workspace: variables, modulefiles, the start of each shell."""
    with scratch_folder() as folder, outside(folder):
        root = make_workspace(folder / "a workspace", "2.8")
        site = root / "env" / SITE
        write_file(site / "_editable.pth", str(folder / "gr\u00f6\u00dfe"))
        receipt = read_receipt(root)
        caller = {
            "PATH": f"/usr/bin:{root}/env/bin:/bin", "LD_LIBRARY_PATH": "/own", "XT_GONE": "x", "LC_ALL": "C",
        }  # fmt: skip
        told: dict[str, Any] = {
            "assignments": assignments(root, caller),
            "environment": environment(root, {"PATH": "/usr/bin", "PYTHONHOME": "/p", "KEPT": "1"}),
            "without PATH": assignments(root, {})["PATH"],
            "difference": difference(root, receipt).to_json(),
            "difference without oneAPI": difference(root, receipt, oneapi=False).to_json(),
            "without a recipe": modulefile(root, {}, "lmod"),
            "names": [file_name("2.8", form) for form in ("lmod", "tcl")],
        }
        for form in ("lmod", "tcl"):
            for needs in ((), ("oneapi/2025.1", 'gcc "13"')):
                told[f"{form} {' and '.join(needs)}"] = modulefile(root, receipt, form, needs)
        locales: tuple[dict[str, str], ...] = (
            {}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"LC_ALL": "C.utf8"}, {"LANG": "en_US.UTF-8@euro"},
            {"LC_CTYPE": "de_DE.ISO-8859-1"}, {"LANG": "C"}, {"LANG": "de_DE", "LC_CTYPE": "C"},
            {"LC_ALL": "", "LANG": "de_DE"},
        )  # fmt: skip
        told["locales"] = [[given, needed_locale(root / "env", given)] for given in locales]
        (site / "_editable.pth").write_text("ascii")
        told["no locale"] = needed_locale(root / "env", {"LC_ALL": "C"})
        told["shells"] = _shells(root)
        captured = '{"activation": {"oneapi": {"set": 1}}}'
        texts = {"none": None, "no json": "{", "a list": "[]", "captured": captured}
        for name, text in texts.items():
            other = folder / name
            other.mkdir()
            if text is not None:
                (other / "receipt.json").write_text(text)
            told[f"receipt: {name}"] = error_of(partial(assignments, other, {}))
        return told_in(folder, told)


def _shells(root: Path) -> dict[str, Any]:
    env = {"HOME": "/a home", "SHELL": "/bin/x"}
    told: dict[str, Any] = {"asks nobody": asdict(shells.start("/bin/bash", root, "x", env, asks=False))}
    for shell in ("bash", "zsh", "fish", "sh", "dash", "ash", "ksh", "mksh", "ksh93", "tcsh"):
        with mock.patch.object(shells, "_nameless", lambda template, words: template.format(fd=7, **words)):
            begun = shells.start(f"/bin/{shell}", root, "'/a b/xpubuild'", env, asks=True)
        told[shell] = asdict(begun)
    for given in (env, {"ZDOTDIR": "/z d", "HOME": "/h"}, {}):
        made = Path(shells.start("zsh", root, "x", given, asks=True).env["ZDOTDIR"])
        files = {path.name: path.read_text() for path in sorted(made.iterdir())}
        told[f"zsh with {given}"] = json.loads(json.dumps(files).replace(str(made), "{made}"))
        shutil.rmtree(made)
    told["zsh"]["env"]["ZDOTDIR"] = "{made}"
    fd = shells._nameless("{fd} {root}\n", {"root": "\udcff"})
    os.lseek(fd, 0, os.SEEK_CUR)
    told["nameless"] = [os.read(fd, 99).decode("latin-1").replace(str(fd), "{fd}"), os.get_inheritable(fd)]
    os.close(fd)
    with mock.patch("pwd.getpwuid", side_effect=KeyError):
        told["users"] = [shells.users_shell({"SHELL": "/own"}), shells.users_shell({})]
    with mock.patch("pwd.getpwuid", return_value=mock.Mock(pw_shell="")):
        told["users"].append(shells.users_shell({"SHELL": ""}))
    return told


def _moved() -> str:
    """Return what is said and done about workspaces that are in another place than before."""
    with scratch_folder() as folder, outside(folder):
        told: dict[str, Any] = {}
        for kind in ("moved", "copied", "renamed"):
            old, new = folder / f"{kind} old", folder / f"{kind} new"
            with Journal(write_file(old / "journal.db")) as journal:
                journal.settle_at(str(old))
                journal.add_made("one", [f"{old}/build/tree", f"{old}/env", "/elsewhere"])
            write_file(old / "build" / "tree" / "file")
            write_file(old / "build" / "other")
            (old / "env").mkdir()
            for depth, home in (("a", old), ("a/b", old / "x"), ("a/b/c", "/other"), ("a/b/c/d", old)):
                write_file(
                    old / "src" / depth / "CMakeCache.txt", f"# c\nCMAKE_HOME_DIRECTORY:INTERNAL={home}\n"
                )
                write_file(old / "src" / depth / "CMakeFiles" / "x")
            if kind == "renamed":
                new.symlink_to(old)
            elif kind == "copied":
                shutil.copytree(old, new)
            else:
                old.rename(new)
            found = moved.found_at(new)
            assert found is not None
            told[kind] = {
                "kind": found.kind, "told": found.told(), "settled": found.told(settled=True),
                "place": str(moved.place_of(new)), "of the old": str(moved.place_of(old)),
            }  # fmt: skip
            if kind != "renamed":
                with Journal(new / "journal.db") as journal:
                    moved.settle_here(new, journal)
                    told[kind]["made"] = journal.made()
                    told[kind]["now"] = [journal.place(), str(moved.settle_here(new, journal))]
                told[kind]["left"] = [path for path in _tree(new) if not path.startswith("journal")]
        told["nowhere"] = str(moved.found_at(folder / "nowhere"))
        told["damaged"] = str(moved.found_at(write_file(folder / "bad" / "journal.db", "x" * 999).parent))
        return told_in(folder, told)


def _odd() -> str:
    """Return what is said of names that are neither file nor folder, by the folder they are in."""
    told: dict[str, Any] = {}
    for place in (".", "build", "wheels", "build/requirements", "build/held", "src", "logs"):
        for kind in ("a pipe", "a link"):
            with scratch_folder() as folder:
                (folder / place).mkdir(parents=True, exist_ok=True)
                path = folder / place / "odd"
                os.mkfifo(path) if kind == "a pipe" else path.symlink_to("/nowhere")
                found = error_of(partial(require_plain, folder))
                told[f"{kind} in {place}"] = placed(found, {str(folder): "{folder}"})
    return dumped(told)


def _status() -> str:
    with scratch_folder() as folder:
        root = folder / "w"
        with Journal(write_file(root / "journal.db")) as journal, mock.patch("time.time", return_value=100.0):
            journal.start_run("r", ["install", "r"], "0.1")
            for step in ("done", "running", "failed"):
                journal.begin(step, f"of {step}")
            journal.done("done", evidence=[{"proof": "p", "files": 1}], witnesses={}, published=["/a"])
            journal.failed("failed", "why it failed")
            return told_in(folder, [
                status_document("/w", journal, {}), status_document("/w", journal, {"pid": 1})["locked_by"],
            ])  # fmt: skip


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "workspace-cleaned": _cleaned,
    "workspace-entered": _entered,
    "workspace-moved": _moved,
    "workspace-odd": _odd,
    "workspace-overview": _seen,
    "workspace-status": _status,
}
