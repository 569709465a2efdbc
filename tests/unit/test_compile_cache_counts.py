"""What the logs of compile caches count: each outcome of a call, each family of compilers."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.supply.caching import as_evidence, counts_of, logs_of


@pytest.mark.parametrize(
    ("counters", "reasons"),
    [
        (["preprocessed_cache_hit"], {}),
        (["direct_cache_hit", "remote_storage_hit"], {}),
        (["cache_miss", "direct_cache_miss"], {"not seen before: source, options or compiler": 1}),
        (["cache_miss", "local_storage_read_hit"], {"an included file changed": 1}),
        (["primary_storage_miss", "compile_failed"], {"compile failed": 1}),
        (["cleanups_performed", "files_in_cache", "subdir_files_base", "obsolete_x", "autoconf_test"],
         {"a test of configure": 1}),
        (["cache_size_kibibyte", "stats_zeroed_timestamp"], {"an error inside the cache": 1}),
        (["something_new"], {"something new": 1}),
    ],
)  # fmt: skip
def test_each_outcome_of_a_call_is_counted_once(
    tmp_path: Path, counters: list[str], reasons: dict[str, int]
) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for line in ("# a.cpp", *counters)))
    (found,) = counts_of("ccache", (("C++", log), ("SYCL", tmp_path / "none")))
    hit = not reasons
    miss = any("before" in reason or "included" in reason for reason in reasons)
    assert (found.family, found.calls, found.hits, found.misses) == ("C++", 1, int(hit), int(miss))
    assert (found.not_cached, found.reasons) == (int(not hit and not miss), reasons)
    assert found.remote_hits == int("remote_storage_hit" in counters)


def test_each_family_has_a_log_of_its_own() -> None:
    assert logs_of("ccache", "ops", Path("/b")) == (
        ("C++", Path("/b/ops.ccache-cxx.log")), ("SYCL", Path("/b/ops.ccache-sycl.log")),
    )  # fmt: skip
    assert logs_of("sccache", "ops", Path("/b")) == (("C++", Path("/b/ops.sccache-cxx.log")),)
    assert as_evidence("sccache", ()) == {"compile_cache": {"program": "sccache", "families": []}}
