"""Which commit or tag a tree asks for: pin files and CMake files as upstream writes them."""

from __future__ import annotations

import pytest

from xpubuild.supply.git.serving import ConfigurePin, asked_by

ONEDNN = "https://github.com/uxlfoundation/oneDNN"


@pytest.mark.parametrize(
    ("text", "url", "said"),
    [
        ("bc294243807debb350dca694049ba7a806dfdceb\n", ONEDNN, "bc294243807debb350dca694049ba7a806dfdceb"),
        ("", ONEDNN, None),
        ("two words", ONEDNN, None),
        (f"ExternalProject_Add(x GIT_REPOSITORY {ONEDNN}\n GIT_TAG v3.10.2\n)", ONEDNN, "v3.10.2"),
        (f'ExternalProject_Add(x GIT_REPOSITORY "{ONEDNN}.git" GIT_TAG "v3.10.2")', ONEDNN, "v3.10.2"),
        (f"ExternalProject_Add(x GIT_REPOSITORY {ONEDNN} GIT_TAG v3.10.2)", f"{ONEDNN}.git", "v3.10.2"),
        # Another repository's tag is not ours, whatever stands where.
        (
            f"A(GIT_REPOSITORY https://host/other GIT_TAG v1)\nB(GIT_REPOSITORY {ONEDNN} GIT_TAG v2)",
            ONEDNN,
            "v2",
        ),
        ("A(GIT_REPOSITORY https://host/other GIT_TAG v1)", ONEDNN, None),
        # The same project twice, for two compilers.
        (f"A(GIT_REPOSITORY {ONEDNN} GIT_TAG v1)\nB(GIT_REPOSITORY {ONEDNN} GIT_TAG v2)", ONEDNN, None),
        (f"A(GIT_REPOSITORY {ONEDNN} GIT_TAG v1)\nB(GIT_REPOSITORY {ONEDNN} GIT_TAG v1)", ONEDNN, "v1"),
        # By a variable: CMake alone knows what it holds.
        (f"A(GIT_REPOSITORY {ONEDNN} GIT_TAG ${{TAG}})", ONEDNN, None),
        ("A(GIT_REPOSITORY ${URL} GIT_TAG v1)", ONEDNN, "v1"),
        ("A(GIT_REPOSITORY ${URL} GIT_TAG v1) B(GIT_REPOSITORY ${OTHER} GIT_TAG v2)", ONEDNN, None),
    ],
)
def test_what_a_pin_file_asks_for(text: str, url: str, said: str | None) -> None:
    assert asked_by(text, url) == said


def test_a_tag_is_what_the_build_gives_to_git() -> None:
    assert ConfigurePin("url", "c" * 40, "v1").asked_for == "v1"
    assert ConfigurePin("url", "c" * 40, None).asked_for == "c" * 40
    assert ConfigurePin("url", None, None).asked_for is None
