"""How sure a finding is, from the known failures that a log resembles; what is told where no rule fits."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from xpubuild.distribution import UNKNOWN_SYSTEM
from xpubuild.explain.estimate import LIKELY, estimate, told
from xpubuild.explain.firsterror import FirstError
from xpubuild.explain.load import shipped_rules
from xpubuild.explain.matcher import Match
from xpubuild.explain.rank import LikelyCause, rank, resembling_cause
from xpubuild.explain.resembling import Known, KnownFailures, Resemblance, read_known, shipped_known, words

ROOT = Path(__file__).resolve().parents[2]
KNOWN = KnownFailures(
    [
        Known("https://a.example/1", ("I-memory-or-disk",), "r1", words(["frob: no space left on device"])),
        Known("https://a.example/2", ("I-memory-or-disk", "Z-single"), "r1", words(["disk quota of frob"])),
        Known(
            "https://a.example/3", ("U-repository-key",), "r2", words(["the key of the repository expired"])
        ),
    ]
)


def test_the_shipped_file_is_made_of_the_samples() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "learn-known-failures.py"))["known_failures"]()
    # What is not true any more is mended by running the script.
    assert made == (ROOT / "xpubuild" / "explain" / "known-failures.txt").read_text("utf-8")


def test_every_known_failure_names_a_rule_that_there_is() -> None:
    text = (ROOT / "xpubuild" / "explain" / "known-failures.txt").read_text("utf-8")
    ids = {entry.id for entry in shipped_rules().signatures}
    assert {known.rule for known in read_known(text)} - {""} <= ids


def test_the_nearest_decide() -> None:
    alike = KNOWN.resembled_by(["write failed: no space left on device frob"])
    assert max(alike.shares, key=alike.shares.__getitem__) == "I-memory-or-disk"
    assert alike.of("I-memory-or-disk")[0].url == "https://a.example/1"
    assert alike.rule_of("I-memory-or-disk") == "r1"
    assert alike.rule_of("Z-single") == ""


def test_a_text_without_known_words_resembles_nothing() -> None:
    assert KNOWN.resembled_by(["zzz yyy"]).nearest == ()
    assert shipped_known().resembled_by([]).shares == {}


def test_what_a_build_is_about_to_do_has_no_words() -> None:
    assert words(["[3/10] Building CXX object frob.cpp.o", "/usr/bin/c++ -Werror -c a.cpp"]) == frozenset()


@pytest.mark.parametrize("value", [0.1, 0.5, 0.94, 0.95, 0.99])
def test_only_what_is_right_in_nineteen_of_twenty_is_told_as_likely(value: float) -> None:
    assert (told(value) >= LIKELY) == (value >= 0.95)
    assert told(value, only_possible=True) < LIKELY


def test_a_rule_and_what_resembles_it_make_a_finding_surer() -> None:
    by_rules = estimate(0.3, -1.0, rule=True), estimate(0.3, -1.0, rule=True, first=True)
    assert estimate(0.3, -1.0) < by_rules[0] < by_rules[1] < estimate(0.6, -1.0, rule=True, first=True)
    assert by_rules[1] < estimate(0.3, -0.5, rule=True, first=True)


def _alike(**shares: float) -> Resemblance:
    """Return what a log resembles: failures of these families, told by rules that there are."""
    rules = {"D": "user-not-in-render-video-group", "W": "program-crashed", "AH": "header-not-found"}
    families = {name.partition("-")[0]: name for name in shipped_families()}
    nearest = tuple(
        (0.5, Known(f"https://a.example/{name}", (families[name],), rules[name], frozenset()))
        for name in shares
    )
    return Resemblance({families[name]: share for name, share in shares.items()}, nearest, words=4)


def shipped_families() -> set[str]:
    """Return the families of all rules."""
    return {entry.family for entry in shipped_rules().signatures}


def _told(alike: Resemblance) -> list[LikelyCause]:
    """Return what is told of one line of a rule."""
    signature = shipped_rules().by_id("program-crashed")
    match = Match(signature, signature.match[0], 3, "Segmentation fault")
    return list(rank([match], (), None, alike=alike))


def test_the_rules_stay_in_their_order() -> None:
    told_first = _told(_alike(D=0.9, W=0.1))[0]
    assert told_first.id == "program-crashed"
    assert told_first.confidence < LIKELY


def test_a_kind_without_its_line_names_nothing() -> None:
    error = FirstError(3, "frob failed", "tool", None, ())
    told_alone = resembling_cause(_alike(AH=0.9), error, UNKNOWN_SYSTEM)
    assert told_alone is not None
    assert told_alone.title == "Known failures with these words: missing system package"
    assert told_alone.next_command == "xpubuild doctor"
    assert "the header" not in told_alone.cause


def test_three_words_resemble_nothing() -> None:
    error = FirstError(3, "make: *** [all] Error 2", "make", None, ())
    alike = _alike(D=0.9)
    assert resembling_cause(alike, error, UNKNOWN_SYSTEM) is not None
    assert resembling_cause(replace(alike, words=3), error, UNKNOWN_SYSTEM) is None


def test_the_words_that_are_known_are_counted() -> None:
    known = KnownFailures([Known("https://a.example/1", ("D",), "", frozenset({"render", "node"}))])
    assert known.resembled_by(["the render node", "frobnicates"]).words == 2


def test_the_words_of_all_failures_of_a_family_say_how_likely_it_is() -> None:
    told = (("D", {"render", "node"}), ("D", {"render", "group"}), ("W", {"kernel", "node"}))
    known = [Known(f"https://a.example/{n}", (name,), "", frozenset(of)) for n, (name, of) in enumerate(told)]
    alike = KnownFailures(known).resembled_by(["render group"])
    assert sum(alike.chances.values()) == pytest.approx(1.0)
    assert alike.odds("D") > alike.odds("W") > alike.odds("AH")
    # Of words that nobody has seen no family is likelier.
    unseen = KnownFailures(known).resembled_by(["frob"])
    assert unseen.odds("D") == unseen.odds("W")
