"""The rules of explain: each message names its rule, each command is harmless."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.explain_logs import embed, ordinary, samples

from xpubuild.distribution import System
from xpubuild.errors import RecipeError
from xpubuild.explain.document import Circumstances, _filled, explain_stream
from xpubuild.explain.prefilter import Prefilter
from xpubuild.explain.rules import (
    ALTERNATIVES,
    FOLDER,
    Command,
    Message,
    Rule,
    command_for,
    load_rules,
    shipped_rules,
)  # fmt: skip
from xpubuild.explain.watch import LogWatcher

RULES = shipped_rules().rules
SYSTEMS = (
    System(), System(("debian",)), System(("ubuntu", "debian"), "24.04"), System(("fedora",)),
    System(("rhel", "fedora"), "9.4"), System(("sles", "suse"), "15.6"), System(("arch",)),
)  # fmt: skip


def nexts(rule: Rule) -> list[Command]:
    return [rule.next, *(row.next for row in rule.rows.values() if row.next)]


def commands(rule: Rule) -> list[str]:
    return [command_for(text, system) for text in nexts(rule) for system in SYSTEMS]


def line_of(message: Message, rule: Rule) -> str:
    """Return a line with the message, its places filled."""
    code = re.sub(r"\[.*?\]", "A", next(iter(rule.rows), "INVALID_VALUE").split("|")[0]).replace("*", "x")

    def value(place: re.Match[str]) -> str:
        if place[3]:
            return place[3].split("|")[0]
        return code if place[1] == rule.by and place[2] != "#" else "7" if place[2] == "#" else f"w{place[1]}"

    place = r"\{([a-z_]*)([#*]?)\}|<(?:[a-z]+:)?([^<>]*\|[^<>]*)>"
    text = re.sub(place, value, message.text.removeprefix("^"))
    return (text if message.text.startswith("^") else f"x {text}") + ("x" if text.endswith(" ") else "")


def test_the_rules_are_of_a_size_that_one_can_read() -> None:
    lines = sum(path.read_text("utf-8").count("\n") for path in FOLDER.parent.rglob("*.yaml"))
    assert len(RULES) > 150
    assert lines <= 2500


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_message_is_found_wherever_it_stands(rule: Rule) -> None:
    facts = frozenset(rule.needs)
    for message in rule.says:
        near = [line_of(rule.near[0], rule)] if rule.near else []
        text = line_of(message, rule)
        sizes = {name: how for name, how in rule.where.items() if not how.startswith("outside ")}
        for name, condition in sizes.items():
            other = condition[2:] if condition.startswith("> ") else ""
            text = text.replace(f"w{name}", "0.5 GiB").replace(f"w{other}", "0.1 GiB")
            near = [line.replace(f"w{name}", "0.5 GiB").replace(f"w{other}", "0.1 GiB") for line in near]
        before = "RuntimeError: it ended" if rule.beside else "before"
        log = "\n".join([before, *near, text, "Error: it ended", ""]).encode()
        answer = explain_stream(io.BytesIO(log), Circumstances(facts=facts))
        found = answer.findings
        if rule.family == "by-kind" and answer.first_error and answer.first_error.line != 2 + len(near):
            continue  # the kind is that of the first error, of which this line is only a part
        at = [item for item in found if item.id == rule.id]
        assert at or any(item.line == 2 + len(near) for item in found), text
        if not rule.general and at:
            assert at[0].line == 2 + len(near)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_it_says_where_the_message_is_written_and_what_to_do(rule: Rule) -> None:
    assert rule.sources[0]
    assert rule.cause.strip()
    assert rule.fix.strip()
    assert all(command.strip() for command in commands(rule))
    assert rule.next or rule.rows


_HARM = re.compile(
    r"\brm\b|\brmdir\b|uninstall|force-reinstall|--reinstall|\bpurge\b|downgrade|autoremove|\bprune\b|mkfs|swapoff"
    r"|git (?:reset|clean|checkout|stash)|--depth"
    r"|pip install (?:-U|--upgrade|torch)|reboot|\bdd\b|chmod|chown|kill\b"
)


def test_no_command_removes_reinstalls_or_downgrades_anything() -> None:
    assert not [command for rule in RULES for command in commands(rule) if _HARM.search(command)]


def test_a_shell_can_read_every_command() -> None:
    shell = shutil.which("bash") or "sh"
    text = "\n".join(sorted({command for rule in RULES for command in commands(rule)}))
    filled = re.sub(r"\{[a-z_]+\}", "name", text.replace("{print $", "{print $"))
    done = subprocess.run(
        [shell, "-n"], input=filled, text=True, capture_output=True, check=False, timeout=60
    )
    assert done.stderr == ""


def test_a_package_manager_is_that_of_the_system() -> None:
    for rule in RULES:
        if isinstance(rule.next, dict) and "install" in rule.next:
            assert "apt" not in command_for(rule.next, System(("sles", "suse"), "15.6"))
            assert "zypper" not in command_for(rule.next, System(("ubuntu", "debian"), "24.04"))


@pytest.mark.parametrize(
    "hostile", ["$(touch x)", "`id`", "a;rm", "--help", "x|sh", "a&&b", "'q'", "${HOME}", "a>b"]
)
def test_what_a_log_says_is_no_part_of_a_command_unless_it_is_a_plain_word(hostile: str) -> None:
    log = f"ld: cannot find -l{hostile}\nerror: {hostile}.so: cannot open shared object file: No such file\n"
    for item in explain_stream(io.BytesIO(log.encode())).findings:
        assert hostile not in item.next_command


def test_nothing_is_found_in_a_build_that_works() -> None:
    for seed in range(3):
        answer = explain_stream(io.BytesIO("\n".join(ordinary(4000, seed)).encode()))
        assert (answer.first_error, answer.findings) == (None, ())


def test_a_message_amid_a_long_log_is_found_at_its_line() -> None:
    (best,) = explain_stream(io.BytesIO(embed(["libsycl.so.8: cannot open shared object file"]))).findings
    assert (best.id, best.line) == ("libsycl-not-found", 3001)


@pytest.mark.parametrize(
    "broken",
    [
        "rules: {F: [{id: a, says: [ab], title: t, cause: c, fix: f, next: n, file: x}]}",
        "rules: {F: [{id: a, says: ['a  b c d e'], title: t, cause: c, fix: f, next: n, file: x}]}",
        "rules: {F: [{id: a, says: [abcdef], title: t, cause: c, fix: f, next: {a: n}, file: x}]}",
        "rules: {F: [{id: a, says: [abcdef], title: t, cause: c, fix: f, next: n, file: x, fatal: 1}]}",
        "rules: {F: [{id: b, says: [abcde], title: t,fix: f, cause: c, next: n, file: x, needs: [y]}]}",
        "rules: {F: [{id: b, says: [abcdef], title: t, fix: f, cause: c, next: n}]}",
        "rules: [",
    ],
)
def test_a_broken_rule_file_is_refused_with_its_name(broken: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(broken)
    with pytest.raises(RecipeError) as caught:
        load_rules([path])
    assert "rule" in caught.value.what


def test_an_allocation_is_judged_by_its_sizes() -> None:
    text = (
        "Error: XPU out of memory. Tried to allocate {}. GPU 0 has a total capacity of 64.00 GiB."
        " Of the allocated memory {} is allocated by PyTorch, and 1.00 MiB is reserved by PyTorch.\n"
    )
    for tried, used, first in (
        ("2.00 MiB", "10.00 MiB", "xpu-refused-with-room"), ("20.00 GiB", "50.00 GiB", "xpu-out-of-memory"),
        ("80.00 GiB", "1.00 MiB", "xpu-more-than-the-device"),
    ):  # fmt: skip
        found = explain_stream(io.BytesIO(text.format(tried, used).encode())).findings
        assert found[0].id == first
        assert (found[0].confidence == "certain") is (first != "xpu-refused-with-room")
        assert tried in found[0].title


def test_a_result_code_has_its_own_cause() -> None:
    def best(code: str) -> tuple[str, str]:
        item = explain_stream(io.BytesIO(f"RuntimeError: error: 20 ({code})\n".encode())).findings[0]
        return item.title, item.confidence

    lost = "The GPU was lost (DEVICE_LOST: it hung, its memory ran out, or it was reset)"
    assert best("UR_RESULT_ERROR_DEVICE_LOST") == (lost, "possible"), "three causes"
    assert best("ZE_RESULT_ERROR_DEVICE_LOST") == best("UR_RESULT_ERROR_DEVICE_LOST")
    assert best("UR_RESULT_ERROR_INVALID_VALUE")[1] == "possible"
    assert best("UR_RESULT_ERROR_COMPILER_NOT_AVAILABLE")[1] == "certain"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        # https://github.com/pytorch/pytorch/issues/121535, intel/xpumanager: zeInit without 0x
        ("RuntimeError: Native API failed. Native API returns: -36 (PI_ERR", "INVALID_QUEUE"),
        ("[2022-07-13 08:59:51] [E] [85075] GPUDeviceStub::init zeInit error: 70020000", "misses a library"),
        ("Triton Error [ZE]: 0x7800000F", "INVALID_NATIVE_BINARY"),
        ("RuntimeError: level_zero backend failed with error: 40", "OUT_OF_RESOURCES"),
        (
            "RuntimeError: Native API failed. Native API returns: -6 (PI_ERROR_OUT_OF_HOST_MEMORY)",
            "memory of the host",
        ),
    ],
)
def test_a_number_is_read_as_the_name_that_it_stands_for(line: str, name: str) -> None:
    (found,) = explain_stream(io.BytesIO(f"{line}\n".encode())).findings
    assert found.id == "runtime-error-code"
    assert name in found.title


# ---- Confidence is a rule of the data


def entries(rule: Rule) -> list[tuple[str, str, str]]:
    """Return (confidence, cause, what decides) of a rule without rows, or of each of its rows."""
    return [
        (row.sure or rule.sure, (row.cause or rule.cause).replace("{what}", row.what or rule.what),
         row.decides or rule.decides)
        for row in rule.rows.values() or (rule,)
    ]  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_cause_that_is_surer_than_possible_is_one(rule: Rule) -> None:
    assert not any("{" in row.what for row in (rule, *rule.rows.values()))
    for sure, cause, decides in entries(rule):
        assert sure == "possible" or not ALTERNATIVES.search(cause)
        assert sure != "likely" or decides


@pytest.mark.parametrize(
    ("sure", "cause", "refused"),
    [
        ("certain", "The disk is full or broken.", "alternatives"),
        ("certain", "One of these is full.", "alternatives"), ("likely", "The disk is full.", "decides"),
    ],
)  # fmt: skip
def test_a_rule_that_is_surer_than_its_cause_is_refused(
    sure: str, cause: str, refused: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    entry = f"id: a, says: [abcdef], title: t, cause: '{cause}', fix: f, next: n, file: x, sure: {sure}"
    path.write_text(f"rules: {{F: [{{{entry}}}]}}")
    with pytest.raises(RecipeError) as caught:
        load_rules([path])
    assert refused in str(caught.value.why)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_text_has_a_hole(rule: Rule) -> None:
    near = {name for message in rule.near for name in re.findall(r"[{<]([a-z_]+)[#*]?[}:]", message.text)}
    for message in rule.says:
        hit = message.pattern.search(line_of(message, rule))
        assert hit
        words = {name: text for name, text in hit.groupdict().items() if text}
        sizes = {*re.findall("[a-z]+", " ".join(f"{name} {how}" for name, how in rule.where.items()))}
        if sizes - {*words, *near, "outside", "caller"}:
            continue  # without these sizes the rule does not fit
        words |= {"what": "w", "host": "h", **dict.fromkeys(near, "n")}
        for text in (rule.title, rule.cause, rule.fix):
            assert "HOLE" not in _filled(text, words, "HOLE"), message.text


def test_no_command_asks_a_server_that_the_log_does_not_name() -> None:
    fixed = re.compile(r"(?:https?://|git@|getent hosts )(?!\{host\}|HOST)[\w.-]+")
    allowed = ("https://download.pytorch.org/whl/xpu", "https://github.com/intel/torch-xpu-ops")
    for rule in RULES:
        for command in [text for text in nexts(rule) if isinstance(text, str)]:
            hit = fixed.search(command)
            assert hit is None or command[hit.start() :].startswith(allowed), (rule.id, command)


# ---- The matcher of a running build


WANTED = Circumstances(facts=frozenset({"xpu-wanted"}))
FALL_BACK = "--   USE_XPU               : OFF"


def test_a_doomed_build_is_stopped_at_the_line_that_shows_it() -> None:
    watcher = LogWatcher(WANTED)
    assert [watcher.feed(line) for line in ordinary(500) if "USE_XPU" not in line].count(None) > 400
    found = watcher.feed(f"\x1b[32m{FALL_BACK}\x1b[0m")
    assert found.id == "xpu-switched-off"
    assert watcher.feed(FALL_BACK) is None, "reported once"


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        # A build for the CPU goes on; what was asked for may stand in the log.
        ([FALL_BACK], None),
        (["cmake -GNinja -DUSE_XPU=1 ..", FALL_BACK], 2),
        # A full disk is fatal and other failures are not.
        (["ImportError: libsycl.so.8: cannot open shared object file",
          "cc1plus: fatal error: error writing to /tmp/x.s: No space left on device"], 2),
    ],
)  # fmt: skip
def test_a_build_is_stopped_at_what_is_fatal(lines: list[str], at: int | None) -> None:
    watcher = LogWatcher()
    *before, last = [watcher.feed(line) for line in lines]
    assert before == [None] * len(before)
    assert (last.line if last else None) == at
    assert at or watcher.finish().findings == ()


def test_it_says_at_the_end_what_explain_says_of_the_log() -> None:
    for sample in samples()[::17]:
        lines = [*ordinary(300, 3), *sample.lines, *ordinary(300, 4)]
        watcher = LogWatcher()
        for line in lines:
            watcher.feed(line)
        whole = explain_stream(io.BytesIO(("\n".join(lines) + "\n").encode()))
        assert watcher.finish() == whole


def test_a_line_with_odd_characters_is_one_line() -> None:
    watcher = LogWatcher()
    for line in ("a\nb", "\udcff", "\r", "", "c"):
        watcher.feed(line)
    assert watcher.finish().lines == 5


def test_memory_does_not_grow_with_the_lines() -> None:
    watcher = LogWatcher()
    line = "x" * 999
    assert [watcher.feed(line) for _ in range(200)] == [None] * 200
    assert 0 < sum(map(len, watcher._batch)) < 1 << 16
    assert watcher.finish().lines == 200


@pytest.mark.parametrize(
    "said", ["cmake -DUSE_CUDA=1 ..", "--   USE_CUDA              : ON", "cmake -DUSE_XPU=0 .."]
)
def test_a_build_for_another_device_lacks_nothing(said: str) -> None:
    log = f"{said}\nNot compiling with XPU. Could NOT find SYCL\n".encode()
    assert explain_stream(io.BytesIO(log)).findings == ()


@pytest.mark.parametrize(
    ("line", "hits"),
    [
        (b"c++ -Werror=return-type -Wno-error=pedantic -c a.cpp", 0),
        (b"c++ -Wno-error=pedantic -c a.cpp: error: bad", 1),
        (b"[3/10] Building CXX object error.cpp.o", 0),
        (b"cd /b && c++ -Werror=return-type -c a.cpp", 0),
        (b"what(): sycl::exception", 1),
        (b"ERROR_DEVICE_LOST", 1),
    ],
)
def test_steps_and_switches_are_no_errors(line: bytes, hits: int) -> None:
    log = b"first\n" + line + b"\nlast\n"
    found = list(Prefilter(["error", "exception"]).lines(log, 0, len(log)))
    assert found == [(6, 6 + len(line))] * hits


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt-get simulates the commands")
def test_apt_removes_nothing_for_any_command(tmp_path: Path) -> None:
    # A repository that has every package that a rule names, and a host on which the user built libze1.
    systems = (System(("debian",)), System(("ubuntu", "debian"), "24.04"))
    texts = {command_for(text, system) for rule in RULES for text in nexts(rule) for system in systems}
    wanted = {
        word for text in texts for part in re.findall(r"apt-get install (.*?)(?:;|&&|$)", text)
        for word in part.split() if not word.startswith("-")
    }  # fmt: skip
    assert wanted
    stanza = (
        "Package: {0}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n{1}\n"
    )
    (tmp_path / "repo").mkdir()
    pool = "".join(
        stanza.format(name, f"Filename: {name}.deb\nSize: 1\nSHA256: {'0' * 64}\n") for name in wanted
    )
    (tmp_path / "repo" / "Packages").write_text(pool)
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{tmp_path}/repo ./\n")
    own = stanza.format("libze1", "Status: install ok installed\n").replace("Version: 1", "Version: 9")
    (tmp_path / "status").write_text(own)
    for folder in ("lists/partial", "cache/archives/partial"):
        (tmp_path / folder).mkdir(parents=True)
    options = [
        f"-oDir::Etc::sourcelist={tmp_path}/sources.list", "-oDir::Etc::sourceparts=-",
        f"-oDir::State::status={tmp_path}/status", f"-oDir::State::lists={tmp_path}/lists",
        f"-oDir::Cache={tmp_path}/cache", "-oAPT::Sandbox::User=root", "-oAPT::Architecture=amd64",
        "-oDebug::NoLocking=1",
    ]  # fmt: skip

    def apt(*arguments: str) -> str:
        argv = ["apt-get", *options, *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120).stdout

    apt("update")
    said = apt("-s", "install", *sorted(wanted))
    assert "Inst " in said
    assert not re.findall(r"^(?:Remv|Purg) |DOWNGRADED|REMOVED", said, re.MULTILINE)
