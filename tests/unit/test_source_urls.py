"""Which URLs reach git, which mirror they belong to, and relative ones resolved as git resolves them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpubuild.engine.process import ProcessResult
from xpubuild.errors import FetchError, RecipeError, SourceIntegrityError
from xpubuild.supply.git.failures import diagnose, error_for
from xpubuild.supply.git.git import OVERRIDES, git_environment
from xpubuild.supply.git.pin import Pin, mirror_name, normalised, problem_with, resolve_relative
from xpubuild.supply.git.serving import ConfigurePin, asked_by
from xpubuild.supply.git.submodules import Node, links_of


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/pytorch/pytorch.git",
        "http://127.0.0.1:8080/x",
        "ssh://git@host.example:2222/x.git",
        "git://host.example/x",
        "git@github.com:pytorch/pytorch.git",
        "host.example:x",
        "file:///tmp/a%20b/x.git",
        "/tmp/a b/ü.git",
        "https://[::1]:8080/x",
        "https://git@h/x.git",
        "ssh://me@h/x.git",
    ],
)
def test_ordinary_urls_are_accepted(url: str) -> None:
    assert problem_with(url) is None


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("", "empty"),
        (" https://h/x", "spaces"),
        ("https://h/x\nhost=evil", "control"),
        ("--upload-pack=touch /tmp/x", "option"),
        ("-u", "option"),
        ("ext::sh -c touch%20/tmp/x", "remote helper"),
        ("fd::17", "remote helper"),
        ("::x", "remote helper"),
        ("ftp://h/x", "protocol is 'ftp'"),
        ("EXT://h/x", "protocol is 'EXT'"),
        ("ssh://-oProxyCommand=touch/x", "option"),
        ("ssh://-oProxyCommand=x@h/x", "option"),
        ("-oProxyCommand=x@h:x", "option"),
        ("git@-oProxyCommand=x:x", "option"),
        ("git@host:-x", "option"),
        ("https:///x", "no host"),
        ("https://h/a b", "space"),
        ("https://me:secret@h/x", "password"),
        ("https://ghp_0123456789abcdefghij@h/x", "user name"),
        ("http://me@h/x", "user name"),
        ("git://me@h/x", "user name"),
        ("https://h:port/x", "cannot be read"),
        ("file://host/x", "absolute"),
        ("../x", "neither"),
        ("x/y", "neither"),
    ],
)
def test_dangerous_urls_are_refused_with_the_reason(url: str, word: str) -> None:
    reason = problem_with(url)
    assert reason is not None
    assert word in reason


def test_urls_that_differ_in_spelling_only_share_a_mirror() -> None:
    spellings = [
        "https://GitHub.com/pytorch/pytorch",
        "https://github.com/pytorch/pytorch.git",
        "https://github.com:443/pytorch/pytorch/",
        "https://someone@github.com/pytorch/pytorch.git/",
    ]
    assert {normalised(url) for url in spellings} == {"https://github.com/pytorch/pytorch"}
    assert len({mirror_name(url, 40) for url in spellings}) == 1


def test_a_mirror_name_is_readable_safe_and_tells_repositories_apart() -> None:
    name = mirror_name("https://github.com/pytorch/pytorch.git", 40)
    assert name.startswith("github.com-pytorch-pytorch-")
    assert name.endswith(".git")
    others = {
        mirror_name("https://github.com/pytorch/vision.git", 40),
        mirror_name("ssh://git@github.com/pytorch/pytorch.git", 40),
        mirror_name("https://github.com/pytorch/pytorch.git", 64),
        mirror_name("https://github.com/Pytorch/pytorch.git", 40),
    }
    assert len(others | {name}) == 5
    for url in ("/tmp/ü/../../etc", "file:///%2e%2e/x", "/" + "a" * 500, "/"):
        made = mirror_name(url, 40)
        assert "/" not in made
        assert not made.startswith((".", "-"))
        assert len(made) < 100


_BASES = [
    "https://h.example/a/b.git",
    "https://h.example/a/b/",
    "ssh://git@h.example:22/a/b",
    "git@h.example:a/b.git",
    "git@h.example:b.git",
    "/srv/git/b",
    "file:///srv/git/b.git",
]


# git itself makes ".:c.git" of the one that is left out: a folder of that name.
_PAIRS = [
    (base, relative)
    for base in _BASES
    for relative in ("../c.git", "./c", "../../c.git", "./../c/", "../c/../d")
    if (base, relative) != ("git@h.example:b.git", "../../c.git")
]


@pytest.mark.parametrize(("base", "relative"), _PAIRS)
def test_relative_urls_are_resolved_as_git_does(base: str, relative: str, tmp_path: Path) -> None:
    blob = "0" * 39 + "1"
    steps = [
        ["init", "--quiet"],
        ["config", "remote.origin.url", base],
        ["config", "-f", ".gitmodules", "submodule.s.path", "s"],
        ["config", "-f", ".gitmodules", "submodule.s.url", relative],
        ["update-index", "--add", "--cacheinfo", f"160000,{blob},s"],
        ["submodule", "--quiet", "init"],
    ]
    for step in steps:
        subprocess.run(["git", *step], cwd=tmp_path, check=True, capture_output=True)
    said = subprocess.run(
        ["git", "config", "submodule.s.url"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert resolve_relative(base, relative) == said.stdout.strip()


def test_a_relative_url_that_goes_above_everything_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot take one component off"):
        resolve_relative("git@h:b", "../../../c")


# ---- A pin is a full object id and a harmless URL, or it is refused with exit code 20


_SHA1 = "0123456789" * 4
_SHA256 = "ab" * 32


def test_the_key_tells_trees_apart_and_not_the_ways_to_them() -> None:
    one = Pin("https://h.example/x.git", _SHA1)
    assert one.key() == Pin("https://mirror.example/x", _SHA1, ref="main").key()
    assert one.key() != Pin(one.url, _SHA1, submodules=False).key()
    assert one.key() != Pin(one.url, "f" * 40).key()


@pytest.mark.parametrize(
    "commit", ["main", "v2.8.0", _SHA1[:12], _SHA1.upper().replace("0", "A"), _SHA1 + "\n", ""]
)
def test_what_is_no_full_id_is_refused(commit: str) -> None:
    with pytest.raises(RecipeError, match="not a full object id") as caught:
        Pin("https://h.example/x", commit)
    assert caught.value.exit_code == 20
    assert caught.value.fix


def test_a_tree_of_the_other_hash_is_refused() -> None:
    with pytest.raises(RecipeError, match="not a full object id"):
        Pin("https://h.example/x", _SHA1, tree=_SHA256)


@pytest.mark.parametrize(
    "ref", ["--upload-pack=id", "-x", "a..b", "a b", "x.lock", "@{u}", "/x", "a//b", "x/", "a:b", ""]
)
def test_a_ref_that_git_would_read_otherwise_is_refused(ref: str) -> None:
    with pytest.raises(RecipeError, match="not a tag or branch name"):
        Pin("https://h.example/x", _SHA1, ref=ref)


def test_what_is_skipped_is_part_of_the_pin() -> None:
    plain, less = Pin("https://h/r.git", "a" * 40), Pin("https://h/r.git", "a" * 40, skip=("third_party/x",))
    assert "skip" not in plain.key()
    assert less.key()["skip"] == ["third_party/x"]


@pytest.mark.parametrize("path", ["/etc", "-x", "../x", "a//b", ""])
def test_a_path_to_skip_lies_below_the_top(path: str) -> None:
    with pytest.raises(RecipeError, match="skips"):
        Pin("https://h/r.git", "a" * 40, skip=(path,))


# ---- The environment of git: nothing of the caller's repository, ours over the caller's configuration


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


# ---- Submodules are taken from a commit only where name, path and URL cannot do harm


_ID = "0" * 39 + "1"
_BASE = "https://h.example/a/top.git"


def _links(path: str, name: str, url: str, base: str = _BASE) -> tuple[Node, ...]:
    return links_of({path: _ID}, {name: {"path": path, "url": url}}, base, "the test")


def test_an_ordinary_submodule_is_resolved() -> None:
    assert _links("third_party/x", "third_party/x", "../x.git") == (
        Node("third_party/x", "third_party/x", "https://h.example/a/x.git", _ID),
    )


def test_sections_without_a_gitlink_are_ignored_as_git_does() -> None:
    assert links_of({}, {"old": {"path": "old", "url": "ext::sh"}}, _BASE, "the test") == ()


@pytest.mark.parametrize(
    "name", ["..", "../../hooks", "a/../b", "a\\..\\b", "-x", "/a", "a//b", "", "x\n", "."]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(SourceIntegrityError, match="is not accepted") as caught:
        _links("s", name, "../x.git")
    assert "name" in caught.value.why


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../../x", "-x", ".git/hooks", "a/.GIT/x", "a//b", "./x"])
def test_a_path_out_of_the_tree_is_refused(path: str) -> None:
    with pytest.raises(SourceIntegrityError, match="is not accepted"):
        _links(path, "s", "../x.git")


@pytest.mark.parametrize(
    "url",
    [
        "-u./payload",
        "--upload-pack=id",
        "ext::sh -c id",
        "",
        "../../../../etc",
        "/etc/secret",
        "file:///home/user/private",
        "x/y",
        "https://h/x\nhost=evil",
        "../x\n",
    ],
)
def test_a_url_that_does_harm_is_refused(url: str) -> None:
    with pytest.raises(SourceIntegrityError, match="is not accepted") as caught:
        _links("s", "s", url)
    assert caught.value.exit_code == 31
    assert caught.value.evidence["submodule"] == "s"


def test_a_local_folder_is_accepted_where_the_parent_is_local() -> None:
    assert _links("s", "s", "../x.git", "file:///srv/top.git")[0].url == "file:///srv/x.git"
    assert _links("s", "s", "/srv/x", "/srv/top")[0].url == "/srv/x"


def test_a_gitlink_that_gitmodules_does_not_name_is_refused() -> None:
    with pytest.raises(SourceIntegrityError) as caught:
        links_of({"s": _ID}, {"other": {"path": "t", "url": "../x"}}, _BASE, "the test")
    assert "is not in .gitmodules" in caught.value.why


def test_a_repository_inside_that_of_another_is_refused() -> None:
    sections = {"a": {"path": "a", "url": "../a"}, "a/hooks": {"path": "b", "url": "../b"}}
    with pytest.raises(SourceIntegrityError, match="is not accepted"):
        links_of({"a": _ID, "b": _ID}, sections, _BASE, "the test")
    sections = {"a": {"path": "a", "url": "../a"}, "a-b": {"path": "b", "url": "../b"}}
    assert len(links_of({"a": _ID, "b": _ID}, sections, _BASE, "the test")) == 2


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=60))
def test_whatever_the_file_says_the_result_is_harmless_or_an_error(path: str, name: str, url: str) -> None:
    try:
        found = _links(path, name, url)
    except SourceIntegrityError:
        return
    for link in found:
        assert problem_with(link.url) is None
        for place in (link.path, link.name):
            assert not place.startswith(("/", "-"))
            assert ".." not in place.split("/")


# ---- Which commit or tag a tree asks for: pin files and CMake files as upstream writes them


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


# ---- What git prints (collected from git 2.39 and from GitHub, GitLab and Gerrit) becomes the right error


def _run(text: str) -> ProcessResult:
    return ProcessResult(("git",), 128, 0.1, tail=tuple(text.split("\n")))


@pytest.mark.parametrize(
    ("text", "reason", "transient"),
    [
        ("fatal: unable to access 'https://h/x/': Could not resolve host: h", "dns", True),
        ("ssh: Could not resolve hostname h: Temporary failure in name resolution", "dns", True),
        ("fatal: unable to look up h (port 9418) (Name or service not known)", "dns", True),
        ("fatal: unable to access 'http://h/': Failed to connect to h port 1 after 0 ms", "refused", True),
        ("fatal: unable to connect to h:\nh[0: 127.0.0.1]: errno=Connection refused", "refused", True),
        ("ssh: connect to host h port 22: No route to host", "unreachable", True),
        ("ssh: connect to host h port 22: Connection timed out", "timeout", True),
        (
            "fatal: unable to access 'https://h/': SSL certificate problem: self signed certificate",
            "tls",
            False,
        ),
        ("fatal: server certificate verification failed. CAfile: none CRLfile: none", "tls", False),
        ("remote: Not found.\nfatal: Authentication failed for 'https://h/x/'", "auth", False),
        ("fatal: could not read Username for 'https://github.com': terminal prompts disabled", "auth", False),
        ("git@github.com: Permission denied (publickey).\nfatal: Could not read from remote", "auth", False),
        ("fatal: repository 'http://h/x.git/' not found", "not-found", False),
        ("fatal: '/srv/x' does not appear to be a git repository", "not-found", False),
        ("fatal: remote error: access denied or repository not exported: /x", "not-found", False),
        ("fatal: unable to access 'http://h/x/': The requested URL returned error: 503", "server", True),
        ("error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502", "server", True),
        ("fatal: unable to access 'http://h/x/': The requested URL returned error: 429", "server", True),
        (
            "error: RPC failed; curl 18 transfer closed with outstanding read data\nfatal: early EOF",
            "cut",
            True,
        ),
        ("fetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF", "cut", True),
        ("error: RPC failed; curl 56 GnuTLS recv error (-110): The TLS connection was...", "cut", True),
        ("fatal: The remote end hung up unexpectedly", "cut", True),
        (f"fatal: remote error: upload-pack: not our ref {_ID}", "commit", False),
        ("fatal: couldn't find remote ref v9", "commit", False),
        (f"error: Server does not allow request for unadvertised object {_ID}", "want", False),
        (f"fatal: remote error: want {_ID} not valid", "want", False),
        ("fatal: dumb http transport does not support shallow capabilities", "shallow", False),
        ("fatal: write error: No space left on device", "no-space", False),
        ("fatal: sha1 file '...' write error. Out of diskspace", "no-space", False),
        (
            f"error: object {_ID}: hasDotgit: contains '.git'\nfatal: fsck error in pack objects",
            "object",
            False,
        ),
        ("fatal: transport 'ext' not allowed", "protocol", False),
        (
            "fatal: unable to access 'https://h/': Received HTTP code 407 from proxy after CONNECT",
            "proxy",
            False,
        ),
        (
            "error: inflate: data stream error (incorrect data check)\nfatal: pack-objects died",
            "damaged",
            False,
        ),
        ("fatal: detected dubious ownership in repository at '/x'", "owner", False),
        ("something never seen", "unknown", False),
    ],
)
def test_messages_are_understood(text: str, reason: str, transient: bool) -> None:
    failure = diagnose(_run(text))
    assert (failure.reason, failure.transient) == (reason, transient)


def test_a_repository_of_somebody_else_comes_with_the_command_that_trusts_it() -> None:
    with pytest.raises(FetchError) as caught:
        raise error_for(diagnose(_run("fatal: detected dubious ownership in repository at '/a b'")), "u", _ID)
    assert caught.value.commands == ("git config --global --add safe.directory '/a b'",)
