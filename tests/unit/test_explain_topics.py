"""What is said where nothing is known: a hint at most, the error with its context, and what to search for."""

from __future__ import annotations

import io

import pytest

from xpubuild.doctor.registry import families
from xpubuild.explain.document import Explanation, explain_stream
from xpubuild.explain.estimate import LIKELY
from xpubuild.explain.topics import topics
from xpubuild.ui.diagnosis_views import explain_view
from xpubuild.ui.parts import Facts


def explained(text: str) -> Explanation:
    return explain_stream(io.BytesIO((text + "\n").encode()))


# Names and words that no kind knows; only the subject and the tool tell what the error is about.
@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("CMake Error at a.cmake:3 (message):\n  icpx frobnicates", "C-oneapi-not-found-silent-cpu-build"),
        ("fatal: the frob of this clone is odd", "H-torch-xpu-ops-and-submodule-checkout"),
        ("RuntimeError: level_zero frobbed", "E-level-zero-driver-or-loader-version"),
        ("RuntimeError: triton frobbed", "W-upstream-bug"),
        ("E: Unable to frob", "T-package-resolver"),
        ("make: *** [all] Error 2", "W-upstream-bug"),
    ],
)
def test_an_unknown_error_gets_a_hint_that_is_not_likely(text: str, family: str) -> None:
    answer = explained(text)
    assert [item.family for item in answer.findings] == [family]
    assert answer.findings[0].confidence < LIKELY
    assert answer.search_terms
    titles = [part.title for part in explain_view(answer.to_json()) if isinstance(part, Facts)]
    assert "The cause is not known" in titles


@pytest.mark.parametrize(
    "text",
    [
        "torch.frob: could not find sycl, skipping",
        "test_sycl.py::test_it PASSED  RuntimeError: level_zero frobbed",
        "checking for level_zero... cannot be used",
    ],
)
def test_a_remark_gets_no_hint(text: str) -> None:
    assert explained(text).findings == ()


def test_a_known_cause_leaves_no_hint() -> None:
    answer = explained("E: Unable to locate package frob-dev")
    assert not any(item.id.startswith("about-") for item in answer.findings)
    assert answer.search_terms == ()


def test_topics_have_families_that_there_are() -> None:
    assert {topic.family for topic in topics()} <= set(families())
    assert len({topic.id for topic in topics()}) == len(topics())
