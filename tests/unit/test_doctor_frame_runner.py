"""The runner of doctor: order, deadlines, needs, and checks that do everything a check must not do."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.doctor_frame import a_check, a_context, everything

from xpubuild.doctor import bundle, registry, start
from xpubuild.doctor.kit import Check, Look, Outcome
from xpubuild.doctor.registry import all_checks, arranged, select, shipped
from xpubuild.doctor.report import make_report
from xpubuild.doctor.runner import Result, run_checks
from xpubuild.errors import UsageError, XpuBuildError
from xpubuild.explain.rules import shipped_rules
from xpubuild.machine.readers import LIVE_ROOT


def results(*checks: Check, root: Path = LIVE_ROOT, at_once: int = 16) -> dict[str, Result]:
    found = run_checks(a_context(root), everything(*checks), at_once=at_once)
    return {item.id: item for item in found}


def told(*checks: Check, root: Path = LIVE_ROOT) -> dict[str, tuple[str, str]]:
    return {name: (item.status, item.detail) for name, item in results(*checks, root=root).items()}


def test_checks_run_side_by_side_and_results_keep_their_order() -> None:
    barrier = threading.Barrier(5)

    def meet(_context: Look) -> Outcome:
        place = barrier.wait(5)
        time.sleep(0.01 * place)
        return Outcome("ok", "met")

    checks = [a_check(f"a.c{number}", meet) for number in range(5)]
    found = run_checks(a_context(), everything(*checks))
    assert [(item.id, item.status) for item in found] == [(f"a.c{number}", "ok") for number in range(5)]


def test_one_cause_is_one_failure() -> None:
    found = told(
        a_check("a.cause", Outcome("fail", "broken")),
        a_check("a.effect", needs=("a.cause",)),
        a_check("a.far", needs=("a.effect",)),
        a_check("a.farther", needs=("a.far",)),
        a_check("b.absent", Outcome("skip", "no such thing here")),
        a_check("b.of_it", needs=("b.absent",)),
        a_check("c.broken", lambda _context: 1 / 0),  # type: ignore[arg-type]
        a_check("c.of_it", needs=("c.broken",)),
        a_check("d.free"),
    )
    assert found["a.effect"] == ("skip", "needs a.cause, which failed")
    assert found["a.far"] == ("skip", "needs a.effect, which was skipped because a.cause failed")
    assert found["a.farther"] == ("skip", "needs a.far, which was skipped because a.cause failed")
    assert found["b.of_it"] == ("skip", "needs b.absent, which was skipped: no such thing here")
    assert found["c.of_it"] == ("skip", "needs c.broken, which could not complete")
    assert found["d.free"][0] == "ok"


def test_a_check_past_its_deadline_does_not_hold_the_others() -> None:
    stop = threading.Event()

    def hang(_context: Look) -> Outcome:
        stop.wait(60)
        return Outcome("ok", "too late")

    began = time.monotonic()
    found = told(
        a_check("a.hangs", hang, deadline_s=0.2), a_check("a.effect", needs=("a.hangs",)), a_check("a.well")
    )
    stop.set()
    assert time.monotonic() - began < 5
    assert found["a.hangs"] == ("error", "timed out after 0.2 s")
    assert found["a.effect"] == ("skip", "needs a.hangs, which could not complete")
    assert found["a.well"][0] == "ok"


WRONG = "TypeError: the check returned an Outcome with an unknown status or a fix that is not a Fix"


class _Wrong(BaseException):
    pass


class _Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


@pytest.mark.parametrize(
    ("raised", "detail"),
    [
        (ValueError("a message\nof two lines"), "ValueError: a message\nof two lines"),
        (KeyError(), "KeyError: no message"),
        (SystemExit(3), "SystemExit: 3"),
        (_Wrong("base"), "_Wrong: base"),
        (RecursionError("too deep"), "RecursionError: too deep"),
    ],
)
def test_an_exception_is_a_result(raised: BaseException, detail: str) -> None:
    def throw(_context: Look) -> Outcome:
        raise raised

    assert told(a_check("a.raises", throw), a_check("a.well")) == {
        "a.raises": ("error", detail),
        "a.well": ("ok", "a.well is well"),
    }


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "TypeError: the check returned NoneType, not an Outcome"),
        (Outcome("fine", ""), WRONG),
        (Outcome("ok", "", {}, "rpm"), WRONG),  # type: ignore[arg-type]
        (Outcome("ok", "", {"a": _Unprintable()}), "RuntimeError: no text for you"),
    ],
)
def test_an_answer_that_is_none_is_an_error(answer: Outcome, words: str) -> None:
    assert told(a_check("a.odd", lambda _context: answer))["a.odd"] == ("error", words)


def test_needs_that_lead_nowhere_or_in_a_circle_end() -> None:
    found = told(
        a_check("a.one", needs=("a.two",)),
        a_check("a.two", needs=("a.one",)),
        a_check("a.nowhere", needs=("z.gone",)),
        a_check("a.self", needs=("a.self",)),
    )
    assert found["a.one"] == ("error", "needs a.two, which in turn needs this check")
    assert found["a.two"][0] == "error"
    assert found["a.nowhere"] == ("error", "needs z.gone, which does not exist")
    assert found["a.self"][0] == "error"


def test_a_probe_is_asked_once_by_checks_that_run_side_by_side() -> None:
    asked: list[int] = []

    def look(_context: Look) -> int:
        time.sleep(0.05)
        asked.append(1)
        return len(asked)

    checks = [
        a_check(f"a.c{number}", lambda context: Outcome("ok", str(context.probe(look))))
        for number in range(6)
    ]
    assert {item[1] for item in told(*checks).values()} == {"1"}


# ---- Which checks there are and which a run is about; plug-ins that are broken in every way


CHECKS = (
    a_check("gpu.present", profiles=frozenset({"run"})),
    a_check("gpu.render_node", profiles=frozenset({"run"}), needs=("gpu.present",)),
    a_check("torch.device", profiles=frozenset({"run"}), needs=("gpu.render_node",)),
    a_check("build.cmake", profiles=frozenset({"build"})),
    a_check("build.disk", profiles=frozenset({"build"})),
)


def shown(*only: str, skip: tuple[str, ...] = (), **choice: object) -> list[str]:
    chosen = select(CHECKS, only=only, skip=skip, **choice)  # type: ignore[arg-type]
    return [check.id for check in chosen.checks if check.id in chosen.shown]


def test_a_profile_chooses() -> None:
    assert shown(profiles=("build",)) == ["build.cmake", "build.disk"]
    assert shown(profiles=("run",)) == ["gpu.present", "gpu.render_node", "torch.device"]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("build.disk", ["build.disk"]),
        ("build", ["build.cmake", "build.disk"]),
        ("build.*", ["build.cmake", "build.disk"]),
        ("*.d*", ["torch.device", "build.disk"]),
    ],
)
def test_ids_groups_and_patterns_choose(only: str, expected: list[str]) -> None:
    assert shown(only) == expected


def test_what_is_needed_comes_along_unseen() -> None:
    chosen = select(CHECKS, only=["torch.device"])
    assert [check.id for check in chosen.checks] == ["gpu.present", "gpu.render_node", "torch.device"]
    assert chosen.shown == {"torch.device"}
    assert not chosen.whole


def test_what_is_skipped_is_not_run_even_where_it_is_needed() -> None:
    chosen = select(CHECKS, only=["torch.device"], skip=["gpu.present"])
    assert [check.id for check in chosen.checks] == ["gpu.render_node", "torch.device"]
    found = {item.id: item for item in run_checks(a_context(), chosen)}
    assert found["gpu.render_node"].detail == "needs gpu.present, which was excluded"
    assert shown(skip=("gpu",)) == ["torch.device", "build.cmake", "build.disk"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gpu.rendernode", "gpu.render_node"),
        ("gpus", "gpu"),
        ("disk", "build.disk"),
        ("zzzz", "the groups are"),
    ],
)
def test_an_unknown_name_is_refused_with_what_is_near(name: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(CHECKS, only=[name])
    assert near in caught.value.why
    assert caught.value.exit_code == 2


def test_a_failure_behind_a_skipped_check_is_shown_although_it_only_came_along() -> None:
    broken = a_check("a.cause", Outcome("fail", "broken"))
    chosen = select(
        [broken, a_check("a.mid", needs=("a.cause",)), a_check("a.end", needs=("a.mid",))], only=["a.end"]
    )
    context = a_context()
    report = make_report(context, chosen, run_checks(context, chosen), ("run",), str)
    assert [item.id for item in report.results] == ["a.cause", "a.end"]
    assert report.status == "fail"


def test_an_id_belongs_to_the_first_that_has_it() -> None:
    first, second = a_check("gpu.a"), a_check("gpu.a")
    found = arranged([first, second])
    assert found[0] is first
    assert len(found) == 2
    assert "has the same id 'gpu.a' as" in found[1].problem


# ---- plug-ins

PLUGIN = '''
from xpubuild.doctor.kit import check, ok
@check("site.quota", docs="https://intranet.example/quota")
def quota(look):
    """Scratch has room."""
    return ok("plenty")
'''
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what makes a distribution with an entry point, importable in this process."""

    def make(module: str, text: str, target: str, name: str = "site") -> None:
        (tmp_path / f"{module}.py").write_text(text)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[xpubuild.checks]\n{name} = {target}\n")
        monkeypatch.delitem(sys.modules, module, raising=False)

    monkeypatch.syspath_prepend(str(tmp_path))
    return make


def by_id() -> dict[str, Check]:
    return {check.id: check for check in all_checks()}


@pytest.mark.parametrize("target", ["site_checks_a:quota", "site_checks_a"])
def test_a_plug_in_names_a_class_or_a_module(install: Install, target: str) -> None:
    install("site_checks_a", PLUGIN, target)
    check = by_id()["site.quota"]
    assert check.title == "Scratch has room"
    assert check.page == "https://intranet.example/quota"
    assert run_checks(a_context(), select([check]))[0].status == "ok"


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        ("import no_such_module_at_all\n", "site_checks_b", "ModuleNotFoundError: No module named"),
        ("raise SystemExit(4)\n", "site_checks_b", "SystemExit: 4"),
        ("def (:\n", "site_checks_b", "SyntaxError"),
        ("x = 1\n", "site_checks_b:missing", "AttributeError"),
        ("x = 1\n", "site_checks_b:x", "is not a check"),
        ("x = 1\n", "site_checks_b", "contains no checks"),
        (PLUGIN.replace('"site.quota"', '"site quota/.."'), "site_checks_b", "is not a sequence of words"),
    ],
)
def test_a_broken_plug_in_is_a_check_with_an_error(
    install: Install, text: str, target: str, words: str
) -> None:
    before = set(by_id())
    install("site_checks_b", text, target)
    found = by_id()
    assert set(found) - before == {"plugin.site"}
    (result,) = run_checks(a_context(), select([found["plugin.site"]]))
    assert result.status == "error"
    assert words in result.detail
    assert result.docs is None


# ---- the checks that ship


SHIPPED = arranged(shipped())


def test_the_shipped_checks_load() -> None:
    assert SHIPPED
    assert not any(check.problem for check in SHIPPED)


def test_what_explain_asks_doctor_about_is_a_check() -> None:
    ids = {check.id for check in SHIPPED}
    asked = {check for entry in shipped_rules().rules for check in entry.checks}
    assert asked
    assert sorted(asked - ids) == []


# ---- The newest internal errors, a module of checks that is damaged, how a run begins


def test_the_newest_internal_errors_of_this_user_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for number in range(5):
        file = tmp_path / f"xpubuild-bug-{number}.txt"
        file.write_text("\n".join(f"line {line}" for line in range(450)))
        os.utime(file, (1000 - number, 1000 - number))
    (tmp_path / "other.txt").touch()
    found = bundle.internal_errors()
    assert list(found) == [f"xpubuild-bug-{number}.txt" for number in range(3)]
    assert found["xpubuild-bug-0.txt"] == [f"line {line}" for line in range(50, 450)]
    monkeypatch.setattr("xpubuild.doctor.bundle.os.geteuid", lambda: os.getuid() + 1)
    assert bundle.internal_errors() == {}


def test_a_damaged_module_of_checks_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    really = registry.importlib.import_module

    def load(name: str) -> object:
        if name.endswith(".gpu"):
            raise SyntaxError("damaged")
        return really(name)

    monkeypatch.setattr(registry.importlib, "import_module", load)
    found = {check.id: check for check in registry.all_checks()}
    assert "gpu.present" not in found
    assert found["plugin.gpu"](a_context()) == Outcome("error", "SyntaxError: damaged")
    assert found["plugin.gpu"].title == "The checks of gpu can be loaded"
    assert "gpu.kernel_driver" in found


@pytest.mark.parametrize(
    "begin",
    [
        lambda folder: start.begin({}, root=folder / "none"),
        lambda folder: start.begin({"PATH": ""}, root=folder, target="xpu"),
        lambda folder: start.begin({"PATH": "/nowhere"}, python="python9"),
        lambda folder: start.begin({}, python=f"{folder}/python9"),
    ],
)
def test_a_run_that_cannot_begin(tmp_path: Path, begin: Callable[[Path], object]) -> None:
    with pytest.raises(XpuBuildError):
        begin(tmp_path)


def test_a_machine_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_HOST_DEADLINE_S", 0.01)
    monkeypatch.setattr("xpubuild.machine.host_report.host_report", lambda *_a, **_k: time.sleep(1))
    wait = start.begin({}, root=tmp_path)
    with pytest.raises(XpuBuildError):
        wait()


def test_a_run_knows_what_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    place, root = tmp_path / "ws", tmp_path / "image"
    python = root / "usr/bin/python3"
    asked = {"recipe": "2.8", "target": "cpu", "workspace": place, "profiles": ("run",)}
    context = start.begin({"A": "b"}, root=root, python="/usr/bin/python3", **asked)()
    assert (context.environ, context.root, context.python, context.workspace) == ({}, root, python, place)
    assert context.profiles == {"run"}
    assert context.recipe.recipe.target == "cpu"
    assert not context.to_build
    assert context.host.disk.path == str(tmp_path)


def test_the_workspace_that_was_entered(tmp_path: Path) -> None:
    assert start.entered({"XPUBUILD_ENTERED": str(tmp_path)}) == tmp_path
    assert start.entered({"XPUBUILD_ENTERED": str(tmp_path / "gone")}) is None
    assert start.entered({}) is None
