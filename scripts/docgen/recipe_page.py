"""docs/reference/recipe.md, from the pydantic models of recipes."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.switches import Switch, switches

_ABOUT = """
A recipe is a YAML file: what to build, from which pins, with which switches, and the source of each value. A
key that is not listed here is an error, and so is a duplicate key. `xpubuild recipes check FILE`
reports errors in a recipe; [how-to/write-a-recipe.md](../how-to/write-a-recipe.md) shows how to write
one.

Recipes are looked up by name in the folders of `XPUBUILD_RECIPES` (separated by colons), in
`$XDG_CONFIG_HOME/xpubuild/recipes`, in the site's `xpubuild/recipes` below `$XDG_CONFIG_DIRS` and among those
that ship with xpubuild; the first match is used. A name with a slash, or one that ends in `.yaml` or
`.yml`, is the path of a file. A component that a recipe does not have is looked up for `--with NAME` as
`components/NAME.yaml` in the folders of the recipe and in these ([how-to](../how-to/add-a-component.md)).

With `extends: NAME`, a recipe overrides values of another one: mappings are merged key by key, `null` removes
a key, every other value replaces the inherited one.

Every text is one line without control characters (in YAML, `>-` folds lines into one), the names of
environment variables are letters, digits and `_`, and `dist` is a distribution's name.

In the values of `build.env`, `build.config_settings`, `env` and of variants these placeholders are filled in:
`{cxx11_abi}` (0 or 1), `{target}` (xpu or cpu), `{xpu}` (1 for `--target xpu`, else 0), `{arch}` (the AOT
targets, separated by commas), `{env}` (the workspace's environment), `{build}` (its build folder),
and the names of the tables in `build.arch` (the component's own words for the AOT targets, separated by
commas).

## Releases of a line

A recipe is for a release line such as `2.7`, and builds its newest release, which is set in `release`. Older
ones are in `patches`: the differences, by version, merged into the recipe as with `extends`. `2.7.0` is then
a name like any other (`xpubuild install 2.7.0`, `xpubuild recipes show 2.7.0`, `extends: "2.7.0"`), and
`2.7.1` is an alias of `2.7` while it is the newest patch. A patch cannot change schema, name, extends,
abstract, release and patches.

## Known and unknown values

`facts` has an entry for a value, or for the part that contains it, by dotted path; items of lists are counted
from 0. An unknown value of upstream is omitted, and its entry has `confidence: unknown`: `recipes show -v`
lists it as unknown, and `unknown` in its JSON document. An entry of an existing value must not be unknown,
and one of a missing value must be.

If a recipe changes a value of the one it extends, the inherited source does not apply any more: add a new
entry, which replaces the old one completely. `recipes check` warns about facts (pins, versions, requirements
of the host) without a source.

A source with a `ref` and no `commit` is looked up with `git ls-remote` when an install is planned: the commit
of a tag, or the head of a branch. The plan shows the commit, the receipt records it with URL and time
(`resolved`), and the workspace keeps it for all later runs until `--update` is passed. If upstream cannot be
reached, the install fails with exit code 30. What the checked-out tree says about repositories that are
cloned while configuring (`configure_time` with a `pin_file`) is in the receipt as `pins`.

## What is checked

`xpubuild recipes check` reads every recipe and each of its patch releases: schema, requirement files and
their hashes, facts, placeholders, and the build switches of the [table below](#switches). A switch is wrong
if the release does not use it, if upstream does not understand its value or reads it differently, or if it is
missing and the result depends on the host. With `--tree DIR` (or `--tree COMPONENT=DIR`) the recipe is also
compared with a source tree:

| in the tree | against |
| --- | --- |
| `version.txt` | `source.version`, else the release of the recipe or the version of the component |
| the pin files | `commit` or `ref` of `source.configure_time` |
| `ci_commit_pins/triton-xpu.txt` in `.ci/docker` | commit of the component `triton` |
| `triton_xpu_version.txt`, else `triton_version.txt`, in `.ci/docker` | its version |
| `.gitmodules`, of submodules too | `source.skip_submodules` |
| `HEAD` of a git checkout | `source.commit` |

Values that only one of the two has are listed as not checked; a pin in the recipe must be in the tree. Each
difference is an error, exit code 20. `install` does the same checks with every tree it checks out, before
anything is built.
"""

_SWITCHES = """
## Switches

Environment variables that a build of PyTorch, triton or an extension reads, or is wrongly thought to read
(`xpubuild/recipe/switches.yaml`, with the source of each). Those in bold must be in every recipe of a release
that reads them. xpubuild passes none of them on from the
shell of its caller; `plan` and `install` warn about those that are set there.
"""

#: Meanings of keys whose model says nothing beside the name.
_MEANINGS = {
    "Recipe.schema": "version of this format",
    "Recipe.name": "the same as the file's name",
    "Recipe.title": "one line for people",
    "Recipe.extends": "name of the recipe to inherit from",
    "Recipe.target": "default of --target",
    "Recipe.targets": "possible values of --target",
    "Recipe.needs": "what the host must have",
    "Recipe.abi": "the rule for the C++ ABI",
    "Recipe.toolchain": "Python packages that build",
    "Recipe.toolkits": "how upstream stands to each line of oneAPI: its own, tolerated, or only with patches",
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
    "Recipe.verify": "what is tested at the end",
    "Needs.python": "versions of the interpreter",
    "Needs.gcc": "versions of the host compiler, which then must be GCC",
    "Needs.oneapi": "versions of the oneAPI compiler; needed for target xpu only",
    "Needs.oneapi_components": "components whose scripts are run, in this order",
    "Needs.oneapi_beside_compiler": "components of the compiler's version whose folder builds get in a"
    " variable (`mkl`: `MKLROOT`), wherever `latest` leads; their scripts are not run",
    "Needs.host_compiler": "GNU where upstream builds for XPU with g++ alone",
    "Needs.cmake": "versions of CMake that can configure the tree",
    "Needs.cxx_standard": "C++ standard that the headers ask for",
    "Needs.disk_gib": "free space in GiB, checked before the first step",
    "Abi.default": "the ABI that is built unless --cxx11-abi says otherwise",
    "Abi.honoured": "whether upstream builds the other ABI when asked",
    "Abi.note": "why; shown where the other ABI is refused",
    "Toolchain.requirements": "hashed requirement files beside the recipe",
    "Toolchain.mkl": "version of the static MKL that must be in the environment",
    "Toolchain.conda": "conda packages of the environment, for `--packages conda`",
    "Component.kind": "taken prebuilt, or built from source",
    "Component.dist": "name of the distribution",
    "Component.version": "exact version of a prebuilt wheel, with its local label",
    "Component.needs": "components that must be installed before",
    "Component.source": "the pinned source",
    "Component.build": "how the source becomes a wheel",
    "Component.audit": "what the wheel must be",
    "Component.targets": "targets it is part of",
    "Variant.note": "what the variant is for",
    "Variant.env": "component -> environment variables that override those of the recipe",
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
    reader = switch.kind if switch.component == "torch" else switch.component
    return (
        f"**`{switch.name}`**" if switch.explicit else md.code(switch.name),
        "nobody" if switch.kind == "foreign" else f"{reader}: {switch.lines()}",
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
