"""The environment of every git call: no settings of the caller's repository, no prompt, no hook, known
protocols.

The user's own git configuration stays in force for what a site needs to reach its servers (credential
helpers, ``insteadOf``, proxies, certificates, ssh). What could change the tree that a commit gives, run a
program, or stop at a question is overridden: configuration that comes by environment has the highest
precedence of all files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: The protocols that git may use; ``ext::`` and other remote helpers would run a program of a URL's choice.
PROTOCOLS = ("https", "http", "ssh", "git", "file")

# Everything else that begins with GIT_ belongs to the caller's repository (GIT_DIR, GIT_INDEX_FILE, ...).
_KEPT = frozenset({
    "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
})  # fmt: skip

_FIXED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # set but empty: neither core.askPass nor SSH_ASKPASS is used
    "GCM_INTERACTIVE": "never",
    "GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS),  # overrides every protocol.*.allow
    "GIT_PAGER": "cat", "GIT_EDITOR": "false", "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",  # a look at a tree never writes to it
    "GIT_NO_LAZY_FETCH": "1",  # a repository's own configuration must not send git to a server for objects
    "GIT_NO_REPLACE_OBJECTS": "1",  # refs/replace would show another object than the one that is pinned
}  # fmt: skip

# These describe how the headers of old commits and tags were written, and one spelling of a mode in trees
# (0100644 for 100644, from tools of before 2010) that parses to the same tree. Projects that PyTorch has as
# submodules carry such history. What could put a file in a wrong place (hasDotgit, hasDotdot, fullPathname,
# duplicateEntries, treeNotSorted, gitmodules*) stays an error.
_HARMLESS = (
    "badDate", "badDateOverflow", "badEmail", "badName", "badTimezone", "missingEmail",
    "missingNameBeforeEmail", "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "missingTaggerEntry",
    "multipleAuthors", "nulInCommit", "zeroPaddedDate", "zeroPaddedFilemode",
)  # fmt: skip


def without_filters(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the settings by which filters of these names change no file.

    ``.gitattributes`` of a tree names a filter, and the configuration of the user says what it runs: files
    would get another content than their blobs, and git, which asks the filter again, would see no change.
    """
    values = (("process", ""), ("smudge", ""), ("clean", ""), ("required", "false"))
    return tuple((f"filter.{name}.{key}", value) for name in dict.fromkeys(names) for key, value in values)


OVERRIDES: tuple[tuple[str, str], ...] = (
    # Nothing runs. git-lfs would fetch a second time, from another server, what the pin does not name;
    # Git.filters finds the names of others.
    ("core.hooksPath", "/dev/null"), ("core.fsmonitor", "false"), ("credential.interactive", "never"),
    *without_filters(["lfs"]), ("init.templateDir", ""), ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    # The same tree for everybody.
    ("core.attributesFile", "/dev/null"), ("core.autocrlf", "false"), ("core.eol", "lf"),
    ("core.safecrlf", "false"), ("core.symlinks", "true"), ("core.untrackedCache", "false"),
    ("core.checkStat", "default"), ("core.trustctime", "true"),
    # Objects stay. One pack per fetch: packs are flushed to disk and renamed whole, loose objects are not.
    ("gc.auto", "0"), ("maintenance.auto", "false"), ("fetch.prune", "false"), ("fetch.pruneTags", "false"),
    ("fetch.writeCommitGraph", "false"), ("fetch.unpackLimit", "1"),
    # References, the index and "shallow" are not flushed by default, and empty after a power cut.
    ("core.fsync", "all"), ("core.fsyncMethod", "batch"),
    ("color.ui", "false"), ("init.defaultBranch", "main"), ("advice.detachedHead", "false"),
    ("advice.fetchShowForcedUpdates", "false"),
    ("transfer.fsckObjects", "true"), ("fetch.fsckObjects", "true"),
    *((f"{section}.{message}", "ignore") for section in ("fetch.fsck", "fsck") for message in _HARMLESS),
    ("protocol.allow", "never"), *((f"protocol.{name}.allow", "always") for name in PROTOCOLS),
)  # fmt: skip


def git_environment(env: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return ``env`` made fit for git; ``extra`` is more configuration for one call.

    Pairs of the caller (CI systems redirect URLs with ``url.X.insteadOf`` this way) come first, so that ours
    win. GIT_CONFIG_PARAMETERS, which a ``git -c`` around xpubuild leaves behind, would win over ours: it is
    dropped. A count of pairs that git would die of is taken as none.
    """
    kept = {name: value for name, value in env.items() if not name.startswith("GIT_") or name in _KEPT}
    kept |= {**_FIXED, "GIT_CONFIG_COUNT": "0"}
    kept.setdefault("LC_ALL", "C.UTF-8")
    count = env.get("GIT_CONFIG_COUNT", "")
    numbers = range(min(int(count), len(env))) if count.isascii() and count.isdigit() else ()
    callers = [(env.get(f"GIT_CONFIG_KEY_{n}"), env.get(f"GIT_CONFIG_VALUE_{n}")) for n in numbers]
    pairs = [(key, value) for key, value in callers if key and value is not None]
    return with_settings(kept, [*pairs, *OVERRIDES, *(extra or {}).items()])


def with_settings(env: Mapping[str, str], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return an environment that ``git_environment`` made, with more settings; these win."""
    found, count = dict(env), int(env["GIT_CONFIG_COUNT"])
    for key, value in pairs:
        found |= {f"GIT_CONFIG_KEY_{count}": key, f"GIT_CONFIG_VALUE_{count}": value}
        count += 1
    return {**found, "GIT_CONFIG_COUNT": str(count)}
