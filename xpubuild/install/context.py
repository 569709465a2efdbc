"""The input of every step builder: request, choice, facts and layout."""

from __future__ import annotations

from pathlib import Path

from xpubuild.frozen import frozen
from xpubuild.install.request import Choice, Facts, Request
from xpubuild.recipe.model import Component, GitSource, Recipe
from xpubuild.recipe.situation import Verdict
from xpubuild.workspace.layout import Layout

#: Of a context that only names inputs: no host was looked at.
_NOT_SOLVED = Verdict("unknown", "unknown")


@frozen
class Context:
    """What every step builder reads."""

    request: Request
    choice: Choice
    facts: Facts
    layout: Layout
    verdict: Verdict = _NOT_SOLVED

    @property
    def recipe(self) -> Recipe:
        """The recipe that is planned."""
        return self.request.loaded.recipe

    @property
    def site_packages(self) -> Path:
        """The site-packages of the environment that is built into."""
        return self.layout.site_packages(self.facts.python_version)

    def component(self, name: str) -> Component:
        """Return a component of the recipe."""
        return self.recipe.components[name]

    def pinned(self, name: str) -> GitSource | None:
        """Return the source of a component, with the commit that was looked up where the recipe has none."""
        source = self.component(name).source
        found = self.facts.resolved.get(name)
        if source is None or source.commit is not None or found is None:
            return source
        return source.model_copy(update={"commit": found.commit})

    def downloads(self) -> dict[str, str]:
        """Return what tells a command of xpubuild where sources come from; no fingerprint has it."""
        return self.facts.downloads.environment()

    def requirement_path(self, name: str) -> Path:
        """Return where the text of a requirement file is put for pip to read."""
        return self.layout.build / "requirements" / Path(name).name

    def fill(self, template: str) -> str:
        """Fill the placeholders that recipe values may carry: {cxx11_abi}, {env}, {arch}, {build}, {xpu}."""
        values = {
            "cxx11_abi": str(self.choice.cxx11_abi),
            "env": str(self.layout.env),
            "arch": ",".join(self.choice.arch),
            "build": str(self.layout.build),
            "xpu": "1" if self.choice.target == "xpu" else "0",
        }
        for key, value in values.items():
            template = template.replace("{" + key + "}", value)
        return template
