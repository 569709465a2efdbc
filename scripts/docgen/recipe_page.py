"""docs/reference/recipe.md, from the pydantic models of recipes."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.switches import Switch, switches

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

In the values of `build.env`, `build.config_settings`, `env` and of variants these placeholders are filled in:
`{cxx11_abi}` (0 or 1), `{xpu}` (1 for `--target xpu`, else 0), `{arch}` (the AOT targets, separated by
commas), `{env}` (the workspace's environment), `{build}` (the workspace's build folder).

## Releases of a line

A recipe is a line such as `2.7`, and builds its newest release, which `release` names. Older ones are in
`patches`: what differs, by version, laid over the recipe as `extends` does. `2.7.0` is then a name like any
other (`xpubuild install 2.7.0`, `xpubuild recipes show 2.7.0`, `extends: "2.7.0"`), and `2.7.1`, where that
is the newest, is `2.7` under its full name. A patch cannot change what makes the recipe the one it is:
schema, name, extends, abstract, release and patches.

## What is known, and what is not

`facts` has an entry for a value, or for the part that holds it, by dotted path; items of lists are counted
from 0. A value that upstream has and nobody found out is left out, and its entry has `confidence: unknown`:
`recipes show` lists it as unknown, and `unknown` in its JSON document. An entry must be about a value that is
there, unless it is unknown, and not be about one that is there, if it is.

A recipe that changes a value of the one it extends loses what that said about its source: give the new value
an entry of its own, which replaces the old one as a whole. `recipes check` warns of values about the world
(pins, versions, what the host needs) that have no source.

A source with a `ref` and no `commit` is looked up with `git ls-remote` when an install is planned: of a tag
the commit that it is about, of a branch its head. The plan shows the commit, the receipt holds it with URL
and time (`resolved`), and the workspace keeps it for every later run until `--update` is given. Where
upstream cannot be asked, the install ends with status 30. What the checked-out tree says about repositories
that are cloned while configuring (`configure_time` with a `pin_file`) is in the receipt as `pins`.

## What is checked

`xpubuild recipes check` reads every recipe and each of its patch releases: schema, requirement files and
their hashes, facts, placeholders, and the build switches of the [table below](#switches). A switch is wrong
where the release does not read it, where its value is none that upstream understands or means something else
than it says, and where it is left out although the result then depends on the host. With `--tree DIR` (or
`--tree COMPONENT=DIR`) the recipe is also held against a source tree:

| in the tree | against |
| --- | --- |
| `version.txt` | `source.version`, else the release of the recipe or the version of the component |
| `requires-python`, or `python_requires` of `setup.py` | `source.requires_python`; of torch `needs.python` |
| the pin files | `commit` or `ref` of `source.configure_time` |
| `ci_commit_pins/triton-xpu.txt` in `.ci/docker` | commit of the component `triton` |
| `triton_xpu_version.txt`, else `triton_version.txt`, in `.ci/docker` | its version |
| `.gitmodules`, of submodules too | `source.skip_submodules` |
| `HEAD` of a git checkout | `source.commit` |

What one of the two does not say is listed as not checked; a pin that the recipe states must be in the tree.
Each disagreement is an error, status 20. `install` proves the same of every tree it checks out, before
anything is built.
"""

_SWITCHES = """
## Switches

Environment variables that a build of PyTorch, triton or an extension reads, or is wrongly thought to read
(`xpubuild/recipe/switches.yaml`, with the source of each). Those in bold must be in every recipe of a release
that reads them. xpubuild hands on none of them from the shell of its caller; `plan` and `install` warn of
those that are set there.
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
    "Recipe.loses": "features that are missing on some hosts although the build succeeds",
    "Recipe.refuses": "combinations that are known not to work",
    "Loss.when": "versions with which it is missing; always, where nothing is named",
    "Loss.driver": "driver family with which it is missing",
    "Loss.gpu": "GPU family on which it is missing",
    "Loss.feature": "what is missing",
    "Loss.note": "why, and where that is known from",
    "Refusal.when": "versions with which it does not work",
    "Refusal.driver": "driver family with which it does not work",
    "Refusal.gpu": "GPU family with which it does not work",
    "Refusal.targets": "targets that it is about",
    "Refusal.why": "what happens, and where that is known from",
    "ConfigureTime.url": "where the build clones it from",
    "ConfigureTime.commit": "the commit that the pin file has at this release",
    "ConfigureTime.when": "xpu: cloned for target xpu alone",
    "ConfigureTime.note": "anything else",
    "LargeUnits.what": "what they are, for the plan's reasoning",
    "LargeUnits.targets": "targets for which they are compiled",
    "Recipe.components": "what is built or installed, by name",
    "Recipe.variants": "named sets of build switches, for --variant",
    "Recipe.verify": "what is proved at the end",
    "Needs.python": "versions of the interpreter",
    "Needs.gcc": "versions of the host compiler, which then must be GCC",
    "Needs.oneapi": "versions of the oneAPI compiler; needed for target xpu only",
    "Needs.oneapi_components": "components whose scripts are run, in this order",
    "Needs.host_compiler": "GNU where upstream builds for XPU with g++ alone",
    "Needs.cmake": "versions of CMake that can configure the tree",
    "Needs.cxx_standard": "C++ standard that the headers ask for",
    "Needs.disk_gib": "free space in GiB, checked before the first step",
    "Abi.default": "the ABI that is built unless --cxx11-abi says otherwise",
    "Abi.honoured": "whether upstream builds the other ABI when asked",
    "Abi.note": "why; shown where the other ABI is refused",
    "Toolchain.requirements": "hashed requirement files beside the recipe",
    "Toolchain.mkl": "version of the static MKL that must be in the environment",
    "Toolchain.conda": "conda packages of the environment, for `--env conda`",
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
    parts += [
        _SWITCHES,
        md.table(("variable", "read by", "may be", "does"), map(_switch, switches().values())),
    ]
    return "\n".join(parts)


def _switch(switch: Switch) -> tuple[str, ...]:
    wrong = [f"`{item.value}`: {item.why}" for item in switch.misread]
    return (
        f"**`{switch.name}`**" if switch.explicit else md.code(switch.name),
        "nobody" if switch.kind == "foreign" else f"{switch.kind}: {switch.lines()}",
        switch.expects(),
        "; ".join(filter(None, (switch.does, switch.instead, *wrong))),
    )


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
