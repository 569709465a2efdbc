"""The environment of git: nothing of the caller's repository, ours over the caller's configuration."""

from __future__ import annotations

from xpubuild.supply.git.hardening import OVERRIDES, git_environment


def _pairs(env: dict[str, str]) -> list[tuple[str, str]]:
    count = int(env["GIT_CONFIG_COUNT"])
    return [(env[f"GIT_CONFIG_KEY_{n}"], env[f"GIT_CONFIG_VALUE_{n}"]) for n in range(count)]


def test_variables_of_the_callers_repository_do_not_come_through() -> None:
    leaking = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_PARAMETERS"]
    leaking += [
        "GIT_EXTERNAL_DIFF",
        "GIT_PROXY_COMMAND",
        "GIT_EXEC_PATH",
        "GIT_NAMESPACE",
        "GIT_TEMPLATE_DIR",
    ]
    env = git_environment(dict.fromkeys(leaking, "/elsewhere") | {"PATH": "/bin", "HOME": "/h"})
    assert not set(leaking) & set(env)
    assert env["PATH"] == "/bin"
    assert env["HOME"] == "/h"


def test_what_a_site_needs_to_reach_its_servers_stays() -> None:
    caller = {
        "GIT_SSL_CAINFO": "/ca.pem",
        "GIT_SSH_COMMAND": "ssh -i key",
        "GIT_CONFIG_GLOBAL": "/site",
        "HTTPS_PROXY": "http://proxy:3128",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "url.https://mirror/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }
    env = git_environment(caller)
    for name in ("GIT_SSL_CAINFO", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", "HTTPS_PROXY"):
        assert env[name] == caller[name]
    assert _pairs(env)[0] == ("url.https://mirror/.insteadOf", "https://github.com/")


def test_our_settings_come_after_the_callers_so_that_they_win() -> None:
    caller = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": "/evil",
    }
    pairs = _pairs(git_environment(caller, {"core.eol": "crlf"}))
    assert [value for key, value in pairs if key == "core.hooksPath"] == ["/evil", "/dev/null"]
    assert pairs[-1] == ("core.eol", "crlf")


def test_a_count_that_git_would_die_of_is_dropped() -> None:
    for count in ("many", "-1", "", "99999999999", "²"):
        assert _pairs(git_environment({"GIT_CONFIG_COUNT": count})) == list(OVERRIDES)
