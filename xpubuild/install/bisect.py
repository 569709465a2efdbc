"""``bisect``: the first commit of a component with which a command fails, each built by an install.

git searches (``git bisect``) in a bare repository with the history of the component. For each commit that
git asks about, a recipe is written: the given one with that commit and the pins that belong to it. Verdicts
are kept in the workspace and given again without a build, so that a search that was killed is continued by
searching again.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from typing_extensions import TypedDict

from xpubuild.engine.files import write_atomic
from xpubuild.engine.journal import Journal
from xpubuild.engine.process import Cancel, run
from xpubuild.errors import UsageError, VerifyError, XpuBuildError, did_you_mean
from xpubuild.recipe.bump import pinned_at
from xpubuild.recipe.model import LoadedRecipe
from xpubuild.supply.git.bare import RepositoryStore, remove_leftovers
from xpubuild.supply.git.failures import Failure, diagnose, error_for, require
from xpubuild.supply.git.pin import is_local
from xpubuild.untrusted import json_value, read_bytes
from xpubuild.workspace.layout import Layout

Verdict = Literal["good", "bad", "skip"]
#: Codes of errors that are of a commit, no reason to stop: it does not build, or is not what was asked for.
_OF_COMMIT = frozenset({"audit", "build", "no-xpu", "recipe-invalid", "source-integrity", "unsatisfiable"})
#: As git's bisect run: the command says itself that a commit cannot be judged.
_CANNOT_JUDGE = 125
#: What a recipe that extends another does not repeat.
_OF_THE_BASE = frozenset({"extends", "abstract", "patches", "facts"})


class BisectStep(TypedDict):
    """A commit that was built and judged."""

    commit: str
    verdict: Verdict
    """`skip`: it does not build, or the command ended with 125."""
    why: str
    """Why it does not build, or the last line of the command."""
    seconds: float
    log: str
    """Output of the command; of a build that failed, its log."""


class BisectDocument(TypedDict):
    """What a search has found."""

    schema: Literal["xpubuild.bisect/1"]
    """Name and version."""
    component: str
    url: str
    workspace: str
    command: list[str]
    good: str
    """The commit of --good."""
    bad: str
    first_bad: str | None
    """The first bad commit; null where there is none or more than one is left."""
    subject: str
    """What its author wrote about it: the first line."""
    candidates: list[str]
    """Commits that may be it; several where those between cannot be judged."""
    steps: list[BisectStep]


@dataclass
class Bisection:
    """A search: what is asked (``asked``), and what is known (``state``, kept in the workspace).

    ``build`` installs a recipe that was written; ``env`` is that of the command in the workspace then.
    """

    root: Path
    base: LoadedRecipe
    store: RepositoryStore
    asked: Mapping[str, Any]
    build: Callable[[Path], None]
    env: Callable[[], Mapping[str, str]]
    cancel: Cancel
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        self.folder = Layout(self.root).build / "bisect"
        self._history = self.folder / "history.git"
        self._owner, self._index, self._url = _place(self.base, str(self.asked["component"]))
        self.state: dict[str, Any] = {"asked": dict(self.asked), "ends": [], "steps": {}}
        # What is kept of another search, or damaged, is of no use to this one.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json_value(read_bytes(self.folder / "search.json", 1 << 28))
            self.state = kept if kept["asked"] == self.asked else self.state

    def search(self) -> BisectDocument:
        """Search, or continue, and return what was found.

        Raises:
            VerifyError: --good is not good or --bad not bad, or there is no one first bad commit.
            XpuBuildError: what stops any build.
        """
        with Journal(Layout(self.root).journal) as journal:
            journal.add_made("bisect", [str(self.folder)])
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self._history)
        good, bad = self.state["ends"] = self.state["ends"] or self._ends()
        for commit, stated in ((good, "good"), (bad, "bad")):
            found = self.judge(commit)
            if found["verdict"] != stated:
                what = f"the commit of --{stated} is not {stated} but {found['verdict']}"
                raise self._failed(what, found["why"], [commit], self._document(bad, [good]))
        self._git("update-ref", "--no-deref", "HEAD", bad)
        self._git("bisect", "start", "--no-checkout", bad, good)
        answered = {good, bad}
        while (commit := self.store.git.parse(self._history, "BISECT_HEAD")) not in answered:
            answered.add(commit)
            # At its end git wants to show what the commit changed, for which it has no trees, and fails.
            answer = self.store.git.query(
                ["bisect", self.judge(commit)["verdict"], commit], git_dir=self._history
            )
        last = self.store.git.parse(self._history, "refs/bisect/bad")
        goods = self._git("for-each-ref", "--format=%(objectname)", "refs/bisect/good-*").split()
        document = self._document(last, goods)
        left = document["candidates"]
        if not answered.issuperset(left):
            require(answer, "searching")
        if len(left) > 1:
            why = f"those before the last cannot be judged: {', '.join(left)}"
            # The cause may be mended before the same command is asked again.
            skipped = [name for name, one in self.state["steps"].items() if one["verdict"] == "skip"]
            raise self._failed(f"the first bad commit is one of {len(left)}", why, skipped, document)
        # Not git show, which looks for trees.
        subject = self._git("for-each-ref", "--format=%(contents:subject)", "refs/bisect/bad")
        return {**document, "first_bad": last, "subject": subject}

    def judge(self, commit: str) -> BisectStep:
        """Build a commit, run the command, and keep the verdict; a commit that is known is not built again.

        Raises:
            XpuBuildError: what is no fault of the commit.
        """
        known: BisectStep | None = self.state["steps"].get(commit)
        if known is not None:
            return known
        began, log = time.monotonic(), self.folder / f"{commit[:12]}.log"
        self.tell(f"bisect: {commit} ({len(self.state['steps']) + 1}. commit)")
        try:
            self.build(self._recipe(commit))
        except XpuBuildError as error:
            if error.code not in _OF_COMMIT:
                raise
            verdict: Verdict = "skip"
            # Explain comes first, where it knows the failure.
            why = "; ".join(filter(None, (error.likely_cause(), f"{error.what}: {error.why}")))
            log = error.log or log
        else:
            with log.open("wb") as stream:
                ended = run(self.asked["command"], env=self.env(), cwd=Path(self.asked["cwd"]), log=stream,
                            on_line=self.tell, cancel=self.cancel)  # fmt: skip
            self.cancel.stop_here()
            bad: Verdict = "skip" if ended.returncode == _CANNOT_JUDGE else "bad"
            verdict = "good" if ended.ok else bad
            last = next((line.strip() for line in reversed(ended.tail) if line.strip()), "")
            why = last if ended.ok else f"the command {ended.describe()}: {last}"
        seconds = round(time.monotonic() - began, 1)
        found = BisectStep(commit=commit, verdict=verdict, why=why[:500], seconds=seconds, log=str(log))
        self.state["steps"][commit] = found
        self._keep()
        self.tell(f"bisect: {commit[:12]} is {verdict} ({seconds:.0f} s){': ' + why if why else ''}")
        return found

    def _document(self, last: str, goods: Sequence[str]) -> BisectDocument:
        good, bad = self.state["ends"]
        left = self._git("rev-list", last, "--not", *goods).split()
        return {
            "schema": "xpubuild.bisect/1", "component": str(self.asked["component"]), "url": self._url,
            "workspace": str(self.root), "command": list(self.asked["command"]), "good": good, "bad": bad,
            "first_bad": None, "subject": "", "candidates": left, "steps": [*self.state["steps"].values()],
        }  # fmt: skip

    def _failed(self, what: str, why: str, again: Sequence[str], document: BisectDocument) -> VerifyError:
        """Return the error of a search; the commits ``again`` are judged once more by the next."""
        error = VerifyError(what, why=why, fix="read the log of that commit; choose other ends",
                            evidence={"steps": dict(self.state["steps"])})  # fmt: skip
        error.document = dict(document)
        for commit in again:
            del self.state["steps"][commit]
        self._keep()
        return error

    def _keep(self) -> None:
        write_atomic(self.folder / "search.json", json.dumps(self.state, indent=1).encode())

    def _git(self, *words: str) -> str:
        return require(self.store.git.query(words, git_dir=self._history), "searching")

    def _ends(self) -> list[str]:
        """Fetch the history of both ends, without trees where the server can, and return their commits."""
        if self.store.offline and not is_local(self._url):
            raise error_for(Failure("offline"), self._url, str(self.asked["bad"]))
        if not (self._history / "HEAD").is_file():
            made = self.store.git.query(["init", "--quiet", "--bare", str(self._history)])
            require(made, "making a repository")
        bad, good = (self._fetched(name, str(self.asked[name])) for name in ("bad", "good"))
        return [good, bad]

    def _fetched(self, which: str, revision: str) -> str:
        wrong = UsageError(
            f"--{which} {revision} is no commit of {self._url}",
            fix="pass a tag, a branch or the full id of a commit",
        )
        if revision.startswith("-") or ":" in revision:
            raise wrong
        name, rest = re.fullmatch(r"([^~^]*)(.*)", revision, re.DOTALL).groups()  # type: ignore[union-attr]
        ref = f"refs/xpubuild/{which}"
        words = ["fetch", "--no-tags", "--progress", "--filter=tree:0", "--", self._url, f"+{name}:{ref}"]
        fetched = self.store.git.run(words, git_dir=self._history, report=self.tell, cancel=self.cancel)
        known = f"{ref}{rest}" if fetched.ok else revision
        commit = self.store.git.parse(self._history, f"{known}^{{commit}}")
        if not commit:
            raise wrong if fetched.ok else error_for(diagnose(fetched), self._url, revision)
        return commit

    def _recipe(self, commit: str) -> Path:
        """Write the recipe of a commit, and return its file."""
        values: dict[str, Any]
        if self._index is None:
            values = pinned_at(self.base, self._owner, commit, self.store)
        else:
            document: Any = self.base.document
            clones = [dict(item) for item in document["components"][self._owner]["source"]["configure_time"]]
            # As with a fork, the file in which the tree names a commit is made to follow.
            clones[self._index] |= {"commit": commit, "ref": None, "replaces": clones[self._index]["url"]}
            values = {"components": {self._owner: {"source": {"configure_time": clones}}}}
        whole = {key: value for key, value in self.base.document.items() if key not in _OF_THE_BASE}
        about = {"title": f"{self.base.recipe.title}, {self.asked['component']} at {commit[:12]}"}
        extends = {"extends": str(self.base.path)}
        path = self.folder / "recipe.yaml"
        text = yaml.safe_dump(_over(whole, {**values, **about, **extends}), sort_keys=False, width=4096)
        write_atomic(path, text.encode())
        return path


def _over(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Lay values over a document; a null stays, to remove what the extended recipe has."""
    laid = {
        key: _over(base[key], value)
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        else value
        for key, value in values.items()
    }
    return {**base, **laid}


def _place(base: LoadedRecipe, wanted: str) -> tuple[str, int | None, str]:
    """Return the component that a name means, its URL, and where it is one that a build clones, its number.

    Raises:
        UsageError: there is none with a repository.
    """
    known: dict[str, tuple[str, int | None, str]] = {}
    for name, component in base.recipe.components.items():
        source = component.source if component.kind == "source" else None
        if source is not None and source.url is not None:
            known[name] = (name, None, source.url)
            for index, item in enumerate(source.configure_time):
                short = item.url.rstrip("/").rpartition("/")[2].removesuffix(".git")
                known.setdefault(short, (name, index, item.url))
    if wanted not in known:
        why = f"it has: {', '.join(known) or 'none'}" + did_you_mean(wanted, known)
        fix = "use one of these with --component" if known else "pass the recipe of a release"
        raise UsageError(f"recipe '{base.recipe.name}' has no repository of '{wanted}'", why=why, fix=fix)
    return known[wanted]
