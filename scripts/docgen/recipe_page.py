"""docs/reference/recipe.md, from the pydantic models of recipes."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.recipe.model import Recipe

_ABOUT = """
A recipe is a YAML file: what to build, from which pins, with which switches, and how each value is known. A
key that is not listed here is an error, and so is a key that is there twice. `xpubuild recipes check FILE`
says what is wrong with a recipe; [how-to/write-a-recipe.md](../how-to/write-a-recipe.md) shows how to write
one.

Recipes are looked up by name in the folders of `XPUBUILD_RECIPES` (separated by colons), in
`$XDG_CONFIG_HOME/xpubuild/recipes`, in the site's `xpubuild/recipes` below `$XDG_CONFIG_DIRS` and among those
that ship with xpubuild; the first that is found is taken. A name with a slash, or one that ends in `.yaml` or
`.yml`, is the path of a file.

With `extends: NAME` a recipe is laid over another one: mappings are merged key by key, `null` removes a key,
every other value replaces the one below.

In the values of `build.env`, `build.config_settings`, `env` and of variants these placeholders are filled
in: `{cxx11_abi}` (0 or 1), `{xpu}` (1 for `--target xpu`, else 0), `{arch}` (the AOT targets, separated by
commas), `{env}` (the workspace's environment), `{build}` (the workspace's build folder).
"""

#: Meanings of keys whose model says nothing beside the name.
_MEANINGS = {
    "Recipe.schema": "version of this format",
    "Recipe.name": "the same as the file's name",
    "Recipe.title": "one line for people",
    "Recipe.extends": "name of the recipe this one is laid over",
    "Recipe.target": "what is built for unless --target says otherwise",
    "Recipe.targets": "what can be built for",
    "Recipe.needs": "what the host must have",
    "Recipe.abi": "the rule for the C++ ABI",
    "Recipe.toolchain": "Python packages that build",
    "Recipe.components": "what is built or installed, by name",
    "Recipe.variants": "named sets of build switches, for --variant",
    "Recipe.verify": "what is proved at the end",
    "Needs.python": "versions of the interpreter",
    "Needs.gcc": "versions of the host compiler, which then must be GCC",
    "Needs.oneapi": "versions of the oneAPI compiler; needed for target xpu only",
    "Needs.oneapi_components": "components whose scripts are run, in this order",
    "Needs.disk_gib": "free space in GiB, checked before the first step",
    "Abi.default": "the ABI that is built unless --cxx11-abi says otherwise",
    "Abi.honoured": "whether upstream builds the other ABI when asked",
    "Abi.note": "why; shown where the other ABI is refused",
    "Toolchain.requirements": "hashed requirement files beside the recipe",
    "Toolchain.mkl": "version of the static MKL that must be in the environment",
    "Component.kind": "taken prebuilt, or built from source",
    "Component.dist": "name of the distribution",
    "Component.version": "exact version of a prebuilt wheel, with its local label",
    "Component.needs": "components that must be installed before",
    "Component.source": "the pinned source",
    "Component.build": "how the source becomes a wheel",
    "Component.audit": "what the wheel must be",
    "Component.targets": "targets it is part of",
    "Variant.note": "what the variant is for",
    "Variant.env": "component -> environment variables laid over those of the recipe",
    "Verify.suite": "name of the suite",
    "Verify.require": "components whose checks must not be skipped",
    "Fact.source": "where the value comes from",
    "Fact.confidence": "how sure we are",
    "Fact.note": "anything else",
    "GitSource.url": "any URL that git can fetch from (https, http, ssh, git, file)",
    "GitSource.embedded": "sources that travel with xpubuild",
    "GitSource.commit": "full commit id; without it the component cannot be built",
    "GitSource.tree": "id of the commit's tree, checked in addition",
    "GitSource.submodules": "whether to check out submodules, recursively",
}


def page() -> str:
    """Return the page."""
    schema = Recipe.model_json_schema(by_alias=True)
    parts = [md.head("Recipes", "xpubuild/recipe/model.py"), _ABOUT, _section("Recipe", schema)]
    parts += [_section(name, definition) for name, definition in md.sections(schema)]
    return "\n".join(parts)


def _section(name: str, schema: md.Schema) -> str:
    rows = [
        (
            md.code(key),
            md.type_text(value),
            md.default_text(key, value, schema),
            md.prose(value.get("description") or _MEANINGS.get(f"{name}.{key}")),
        )
        for key, value in schema["properties"].items()
    ]
    return "\n".join(
        (
            f"## {name}\n",
            md.prose(schema.get("description")) + "\n",
            md.table(("key", "value", "default", "meaning"), rows),
        )
    )
