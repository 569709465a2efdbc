"""What pip, in all its versions, says before it fails, and what is made of it: errors whole."""

from __future__ import annotations

import pytest

from xpubuild.machine.pip_failures import explain_pip_failure, not_fetched

INDEX = "https://extra.example/whl"
MISSING = "ERROR: No matching distribution found for torch==2.13.0+cpu"
LOCAL = "ERROR: Could not find a version that satisfies the requirement a==1 (from versions: none)"
OTHERS = "versions that require a different python version"
BROKEN = (
    "Max retries exceeded with url: /x (host='h.example')", "Read timed out. https://u:p@h.example/a",
    "Connection timed out", "ConnectionResetError(104)", "NewConnectionError", "NameResolutionError",
    "Network is unreachable", "ProxyError('x')", "407 Proxy Authentication Required", "SSLError(1)",
    "CERTIFICATE_VERIFY_FAILED", "problem confirming the ssl certificate", "IncompleteRead(1)",
    "error: incomplete-download", "Download failed", "HTTP error 503 while getting https://h.example/a",
    "403 Client Error: x for url: https://h.example/simple/a/", "429 Client Error", "502 Server Error",
    "connection broken by 'x': /simple/a/",
)  # fmt: skip


@pytest.mark.parametrize("line", BROKEN)
def test_words_for_a_network_that_fails(line: str) -> None:
    assert explain_pip_failure(["first", f"WARNING: {line}", "last"]).exit_code == 30
    assert not_fetched([line], "a==1") is not None


@pytest.mark.parametrize(
    ("tail", "indexes"),
    [
        (["OSError: Disk quota exceeded  "], ()), (["x", "Errno 122 y"], ()), (["Errno 280"], ()),
        (["THESE PACKAGES DO NOT MATCH THE HASHES", "    a==1 from x:", "    b==2: y", "  Expected 1",
          " Got  2", "no"], ()),
        (["DO NOT MATCH THE HASHES", ""], ()),
        ([LOCAL, MISSING, f"{OTHERS}: 2.13.0+cpu Requires-Python >=3.99"], ()),
        ([f"{OTHERS}: 2 Requires-Python >=3", MISSING], ()),
        (["a requires Python '>=3.99' but the running Python is 3.1"], ()), ([LOCAL], ()), ([MISSING], ()),
        ([MISSING], (INDEX,)), (["connection broken by x: host='extra.example'", MISSING], (INDEX, "/local")),
        (["Read timed out https://extra.example/a", "Read timed out host='other'", MISSING], (INDEX,)),
        (["Read timed out", MISSING], ()),
        (["connection broken by 'x': /whl/torch/", LOCAL], ()), (["error: lower"], ()),
        (["plain", "ERROR:bare"], ()),
        (["text"], ()),
    ],
    ids=range(18),
)  # fmt: skip
def test_the_error_of_a_tail(tail: list[str], indexes: tuple[str, ...]) -> None:
    assert explain_pip_failure(tail, indexes=indexes).fix


def test_retries_that_may_go_well_are_no_failure() -> None:
    assert not_fetched(["connection broken by x Retry(total=3, x)"], "a") is None
    assert not_fetched(["connection broken by x Retry(total=0, x)"], "a") is not None
    assert not_fetched(["nothing", ""], "a") is None
