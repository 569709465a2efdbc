"""The parts of a report that are computed: ninja's log, lanes, pictures, kept measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.ui.report.pictures import Window, lanes, memory_picture
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.ninja_log import Edge, ninja_builds, read

#: A log of ninja 1.13.2: two runs, of which the second made one output anew; an edge with two outputs.
LOG = """# ninja log v7
0\t20957\t1795441328826929594\tsrc/build_info.cpp.o\t39e22b9f9534f6ed
20958\t60259\t1795441349785651777\tsrc/library.cpp.o\t6003b5fddb468dd3
10\t4010\t1795441474984746026\tsrc/library.cpp.o\t6003b5fddb468dd3
4011\t5011\t1795441478985746026\tlib.so\t55017e2faa716da9
4011\t5011\t1795441478985746026\tlib.so.1\t55017e2faa716da9
"""
FIRST, SECOND = 1795441328.827, 1795441474.975


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".ninja_log"
    path.write_text(text)
    return path


def test_each_edge_is_that_of_its_last_run(tmp_path: Path) -> None:
    (began, first), (again, second) = read(written(tmp_path, LOG))
    assert first == (Edge("src/build_info.cpp.o", 0.0, 20.957),)
    assert set(second) == {Edge("src/library.cpp.o", 0.01, 4.0), Edge("lib.so", 4.011, 1.0)}
    assert (began, again) == (pytest.approx(FIRST, abs=0.001), pytest.approx(SECOND, abs=0.001))


@pytest.mark.parametrize(
    "text",
    [
        "", "# ninja log v7\n", "# ninja log v4\n1\t2\t3\ta.o\tb\n",
        "# ninja log v7\n5\t2\t3\ta\tb\nx\ty\t3\ta\tb\n1\t2\n1\t2\t" + "9" * 400 + "\ta\tb",
    ],
)  # fmt: skip
def test_a_log_without_edges_or_of_another_format_has_no_run(tmp_path: Path, text: str) -> None:
    assert read(written(tmp_path, text)) == []


@pytest.mark.parametrize(
    ("ran", "step"),
    [
        ([("lib.wheel", -5, 6)], "lib.wheel"),
        ([("lib.wheel", -5, 6), ("other.wheel", -15, 100)], "lib.wheel"),
        ([("lib.wheel", -1, 5.02), ("lib.install", 5.03, 5.04)], "lib.wheel"),
        ([("other.wheel", -5, 6), ("lib.install", 1.0, 6)], "other.wheel"),
        ([("lib.wheel", -95, -45)], ""),
        ([], ""),
    ],
)
def test_a_build_belongs_to_the_step_that_ran_then(
    tmp_path: Path, ran: list[tuple[str, float, float]], step: str
) -> None:
    written(tmp_path / "build" / "lib", LOG)
    *_, build = ninja_builds(Layout(tmp_path), [(name, SECOND + a, SECOND + b) for name, a, b in ran])
    assert (build.folder, build.step) == ("build/lib", step)
    assert build.started == (pytest.approx(SECOND, abs=0.001) if step else None)


def test_lanes() -> None:
    assert lanes([]) == []
    assert lanes([(0, 2), (0, 1), (1, 3), (2, 4), (1.5, 1.6)]) == [1, 0, 0, 1, 2]
    assert lanes([(0, 2.01), (2, 3), (2.99, 4)]) == [0, 0, 0]
    assert lanes([(0, 0.02), (0, 0.03)]) == [0, 1]


def test_memory_is_that_of_all_commands_and_none_in_between() -> None:
    commands = [
        {"started": 100.0, "duration_s": 10.0, "memory": [[0.0, 10], [5.0, 40]]},
        {"started": 120.0, "duration_s": 10.0, "memory": [[0.0, 20]]},
    ]
    picture = memory_picture(commands, Window(100.0, 130.0))
    assert picture is not None
    assert picture["most"] == 40
    assert "H333.3V60.0H666.7V31.0H1000.0V60.0" in picture["d"]
    assert memory_picture([{"started": 0.0, "duration_s": 1.0, "memory": []}], Window(0, 1)) is None
