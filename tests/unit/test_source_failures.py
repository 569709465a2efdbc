"""What git prints (collected from git 2.39 and from GitHub, GitLab and Gerrit) becomes the right error."""

from __future__ import annotations

import pytest

from xpubuild.engine.process import ProcessResult
from xpubuild.errors import FetchError
from xpubuild.supply.git.failures import diagnose, error_for
from xpubuild.supply.git.git import GitRun

_ID = "0" * 39 + "1"


def _run(text: str, *, stalled: bool = False) -> GitRun:
    lines = tuple(text.split("\n"))
    return GitRun(ProcessResult(("git",), 128, 0.1, tail=lines), lines, stalled)


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
