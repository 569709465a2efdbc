"""The failures that the signatures were made from, each in the midst of a long log that is otherwise fine."""

from __future__ import annotations

import io

import pytest
from support.explain_logs import Sample, embed, ordinary, samples

from xpubuild.explain.document import Explanation, explain_stream
from xpubuild.explain.load import shipped_rules

SAMPLES = samples()


def explained(data: bytes) -> Explanation:
    return explain_stream(io.BytesIO(data))


@pytest.fixture(scope="module")
def answers() -> list[tuple[Sample, Explanation]]:
    return [
        (sample, explained(embed(sample.lines, before=900, after=300, seed=seed)))
        for seed, sample in enumerate(SAMPLES)
    ]


def test_the_family_is_right_in_95_of_100_and_the_id_in_90(
    answers: list[tuple[Sample, Explanation]],
) -> None:
    first = [(sample, answer.findings[0] if answer.findings else None) for sample, answer in answers]
    assert len(first) >= 98
    wrong_family = [sample.id for sample, best in first if best is None or best.family != sample.family]
    wrong_id = [sample.id for sample, best in first if best is None or best.id != sample.id]
    assert len(wrong_family) <= 0.05 * len(first), wrong_family
    assert len(wrong_id) <= 0.10 * len(first), wrong_id


def test_the_finding_names_the_line_it_stands_in(answers: list[tuple[Sample, Explanation]]) -> None:
    for sample, answer in answers:
        if answer.findings:
            line = answer.findings[0].line
            assert 901 <= line <= 900 + len(sample.lines), sample.id


@pytest.mark.parametrize("seed", range(5))
def test_the_log_without_the_excerpt_has_no_finding_and_no_error(seed: int) -> None:
    answer = explained(("\n".join(ordinary(5000, seed)) + "\n").encode())
    assert answer.findings == ()
    assert answer.first_error is None, answer.first_error


def test_every_family_of_the_teaching_set_has_signatures() -> None:
    known = {entry.family for entry in shipped_rules().signatures}
    assert {sample.family for sample in SAMPLES} <= known


def test_threads_that_no_signature_was_written_from() -> None:
    unseen = samples("unseen.yaml")
    assert not {source for sample in unseen for source in sample.sources} & {
        source for entry in shipped_rules().signatures for source in entry.sources
    }
    answers = [(sample, explained(embed(sample.lines, before=500, after=100))) for sample in unseen]
    wrong = [sample.text for sample, answer in answers if not answer.findings]
    wrong += [s.text for s, answer in answers if answer.findings and answer.findings[0].family != s.family]
    assert not wrong
