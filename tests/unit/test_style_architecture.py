"""The arrows of docs/architecture.md, held against what the modules import."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support.imports import PACKAGE, Import, all_imports, module_name, sources

STDLIB = sys.stdlib_module_names
#: What stands above; all other packages know PyTorch, builds and machines, but no terminal.
TOP = {"cli", "ui", "__main__"}
#: Calls that start a process or become another one.
VARIANTS = ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")
PROCESS_CALLS = {
    "system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile",
    *(verb + variant for verb in ("exec", "spawn") for variant in VARIANTS),
}  # fmt: skip
#: Checks run in the target, which has nothing of the engine; this one module starts their programs.
SUITE_CHILDREN = "xpubuild.verify.suite.children"
PROCESS_MODULES = ("subprocess", "multiprocessing", "pty", "asyncio.subprocess", "pexpect", "sh", "commands")
LONGEST_MODULE = 400


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return all_imports()


def none(imports: list[Import], wrong: Callable[[Import], bool]) -> None:
    found = [str(item) for item in imports if wrong(item)]
    assert not found, "\n".join(found)


def test_the_engine_knows_only_itself(imports: list[Import]) -> None:
    allowed = ("xpubuild.engine", "xpubuild.errors", "xpubuild.frozen", "xpubuild.documents", "psutil")
    inside = [item for item in imports if item.inside("xpubuild.engine")]
    none(inside, lambda item: not item.of(*allowed) and item.target.partition(".")[0] not in STDLIB)


def test_errors_and_resources_stand_below_everything(imports: list[Import]) -> None:
    below = tuple(
        f"xpubuild.{name}"
        for name in ("errors", "frozen", "resources", "distribution", "documents", "safe_yaml", "untrusted")
    )
    allowed = {*STDLIB, "yaml", "typing_extensions"}
    inside = [item for item in imports if item.inside(*below)]
    none(inside, lambda item: item.target.partition(".")[0] not in allowed and not item.of(*below))


def test_nothing_below_the_command_line_knows_it_or_the_terminal(imports: list[Import]) -> None:
    users = [item for item in imports if item.of("xpubuild.cli", "xpubuild.ui", "click")]
    none(users, lambda item: item.module.split(".")[1:2] not in ([name] for name in TOP))


def test_the_user_interface_does_not_know_the_command_line(imports: list[Import]) -> None:
    none(imports, lambda item: item.inside("xpubuild.ui") and item.of("xpubuild.cli"))


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("rich", ("xpubuild.ui",)),
        ("click", ("xpubuild.cli",)),
        ("git", ("xpubuild.supply.git.git",)),
        ("elftools", ("xpubuild.artifacts.elf",)),
        ("sqlite3", ("xpubuild.engine.journal",)),
    ],
)
def test_a_library_is_used_in_one_place(imports: list[Import], library: str, homes: tuple[str, ...]) -> None:
    none(imports, lambda item: item.of(library) and not item.typing and not item.inside(*homes))


def test_only_the_process_layer_imports_what_starts_processes(imports: list[Import]) -> None:
    homes = ("xpubuild.engine.child", SUITE_CHILDREN)
    none(imports, lambda item: item.of(*PROCESS_MODULES) and item.module not in homes)


def process_calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "os"
            and node.attr in PROCESS_CALLS
        ):
            yield f"{module_name(path)}:{node.lineno} uses os.{node.attr}"


def test_only_two_scripts_and_one_module_start_processes_or_become_one() -> None:
    allowed = ("xpubuild.engine.supervise:", "xpubuild.engine.child:", "xpubuild.engine.admit:")
    wrong = [use for path in sources() for use in process_calls(path) if not use.startswith(allowed)]
    assert not wrong, "\n".join(wrong)


def package_of(name: str) -> str:
    return name.split(".")[1] if name.startswith("xpubuild.") else name


def arrows(imports: list[Import]) -> dict[str, set[str]]:
    """Return package -> the packages it imports, less what lies below all of them."""
    found: dict[str, set[str]] = {}
    for item in imports:
        here, there = package_of(item.module), package_of(item.target)
        if (PACKAGE / here).is_dir():
            found.setdefault(here, set())
            if item.of("xpubuild") and (PACKAGE / there).is_dir() and here != there:
                found[here].add(there)
    return found


def test_the_page_has_every_arrow_and_no_other(imports: list[Import]) -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE)
    told = {name: set(re.findall(r"`(\w+)`", cell)) for name, cell in rows}
    found = arrows(imports)
    assert told.keys() == found.keys() - {"ops", "_data"}
    wrong = {name: (told[name] ^ found[name]) for name in told if told[name] != found[name]}
    assert not wrong, f"docs/architecture.md and the imports differ: {wrong}"


def test_no_circle_of_packages(imports: list[Import]) -> None:
    refuse_circles(arrows(imports))


def test_no_circle_of_files(imports: list[Import]) -> None:
    known = {module_name(path) for path in sources()}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for item in imports:
        if item.target in known and item.target != item.module:
            graph[item.module].add(item.target)
    refuse_circles(graph)


def refuse_circles(graph: dict[str, set[str]]) -> None:
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def test_no_package_is_named_like_a_folder_of_generated_files() -> None:
    """Linters, viewers and ignore files skip such folders, and with them what is in them."""
    skipped = {"build", "dist", "out", "vendor", "target", "node_modules", "env", "venv", "bin", "obj", "tmp"}
    folders = {part for path in sources() for part in path.relative_to(PACKAGE).parts[:-1]}
    assert "install" in folders
    assert not folders & skipped


def test_modules_stay_readable() -> None:
    lengths = {module_name(path): len(path.read_text("utf-8").splitlines()) for path in sources()}
    too_long = {name: count for name, count in lengths.items() if count > LONGEST_MODULE}
    assert not too_long, f"split these modules: {too_long}"
