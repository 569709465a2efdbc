"""What g++ really makes: both ABIs, mixtures, C, stripped and damaged objects, held against the binutils."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from support.artifacts import compile_shared, read_static_symbols

from xpubuild.artifacts.abi import classify, old_abi_in
from xpubuild.artifacts.elf import read_shared_object

#: Everything of libstdc++ that differs between the ABIs, and names that only look as if they did.
ZOO = """
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <list>
#include <locale>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>
namespace demo {
struct Session { std::string name() const; int SsValue(); };
std::string Session::name() const { return "x"; }
int Session::SsValue() { return 1; }
void PassSsToken(int) {}
struct Ss { int StSs; };
void takes(Ss, const Ss&) {}
class Category : public std::error_category {
  const char* name() const noexcept override { return "demo"; }
  std::string message(int) const override { return "m"; }
};
const std::error_category& category() { static Category one; return one; }
std::string join(const std::vector<std::string>& parts) {
  std::ostringstream out;
  for (const auto& part : parts) out << part;
  return out.str();
}
int count(const std::list<int>& values) { return static_cast<int>(values.size()); }
bool matches(const std::string& text) { return std::regex_match(text, std::regex("a+")); }
bool exists(const std::filesystem::path& place) { return std::filesystem::exists(place); }
void fail(const std::string& text) { throw std::runtime_error(text); }
void fail_io() { throw std::ios_base::failure("x"); }
void fail_system() { throw std::system_error(1, category(), "w"); }
int money(std::ios& stream) {
  return std::use_facet<std::moneypunct<char>>(stream.getloc()).frac_digits()
      + std::use_facet<std::numpunct<char>>(stream.getloc()).decimal_point();
}
std::future<std::string> later() { return std::async([] { return std::string("q"); }); }
std::wstring wide(const std::wstring& text) { return text + L"a"; }
template <class T, int N> std::string many(T value, std::string (&)[N]) { return std::to_string(value); }
template std::string many<long, 7>(long, std::string (&)[7]);
std::function<std::string(std::string)> same = [](std::string text) { return text; };
std::map<std::string, std::unique_ptr<Session>> sessions;
std::string line() { std::string text; std::getline(std::cin, text); return text; }
enum class Kind { first, second };
template <Kind> void of_kind(std::string) {}
template void of_kind<Kind::second>(std::string);
}
"""
C_ONLY = "int PySsize_add(int a, int b) { return a + b; }\n"
HIDDEN = """
#include <string>
#include <vector>
namespace { struct Part { std::string name; }; std::vector<Part> parts; }
static std::string __attribute__((noinline)) twice(const std::string& text) { return text + text; }
extern "C" __attribute__((visibility("default"))) int run(const char* text) {
  parts.push_back({twice(text)});
  return static_cast<int>(parts.back().name.size());
}
"""


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("tierpark é mit leer")
    return {abi: compile_shared(folder / f"libzoo{abi}.so", ZOO, abi=abi) for abi in (0, 1)}


def names(path: Path) -> list[str]:
    symbols = read_shared_object(path).symbols
    return [*symbols.defined, *symbols.undefined, *symbols.undefined_weak]


@pytest.mark.parametrize("abi", [0, 1])
def test_each_abi_is_recognised_without_one_symbol_to_the_contrary(zoo: dict[int, Path], abi: int) -> None:
    count = classify(read_shared_object(zoo[abi]))
    assert count.verdict == abi
    assert (count.old if abi else count.new) == 0
    assert (count.new if abi else count.old) > 30


@pytest.mark.parametrize("abi", [0, 1])
def test_the_parser_agrees_with_the_binutils_on_every_name(zoo: dict[int, Path], abi: int) -> None:
    # Of a variable inside a function, c++filt does not print what the function returns.
    mangled = [name for name in names(zoo[abi]) if re.match("_Z(?!GVZ|Z)", name) and "cxx11" not in name]
    answer = subprocess.run(
        ["c++filt"], input="\n".join(mangled), text=True, capture_output=True, check=True
    ).stdout.splitlines()
    old = re.compile(
        r"std::(?:string\b|basic_string<|list<|basic_[io]?stringstream<|basic_stringbuf<|basic_regex<|match_results<)"
    )
    parsed = 0
    for name, text in zip(mangled, answer, strict=True):
        verdict = old_abi_in(name)
        parsed += verdict is not None
        if verdict is not None:
            assert verdict == bool(old.search(text)), (name, text)
    assert parsed > 0.97 * len(mangled)
    assert len(mangled) > 150


def test_the_readers_table_is_that_of_nm(zoo: dict[int, Path]) -> None:
    for path in zoo.values():
        symbols = read_shared_object(path).symbols
        for flag, ours in (
            ("--defined-only", symbols.defined),
            ("--undefined-only", symbols.undefined + symbols.undefined_weak),
        ):
            lines = subprocess.run(
                ["nm", "-D", "--without-symbol-versions", flag, path],
                text=True,
                capture_output=True,
                check=True,
            ).stdout.splitlines()
            assert sorted(line.split()[-1] for line in lines) == sorted(ours)
        static = read_static_symbols(path)
        lines = subprocess.run(["nm", path], text=True, capture_output=True, check=True).stdout.splitlines()
        known = {*static.defined, *static.undefined, *static.undefined_weak, *static.local}
        assert {line.split()[-1].partition("@")[0] for line in lines} <= {
            name.partition("@")[0] for name in known
        }


def test_libraries_paths_and_versions_are_those_of_readelf(tmp_path: Path) -> None:
    inner = compile_shared(tmp_path / "libinner.so", C_ONLY, suffix=".c", flags=["-Wl,-soname,libinner.so.3"])
    inner.rename(tmp_path / "libinner.so.3")
    elf = read_shared_object(
        compile_shared(
            tmp_path / "libouter.so",
            '#include <string>\nextern "C" int PySsize_add(int, int);\n'
            "int outer(std::string& text) { return PySsize_add(text.append(text).size(), 1); }\n",
            libraries=[
                str(tmp_path / "libinner.so.3"),
                "-Wl,-rpath,$ORIGIN/lib:/opt/x",
                "-Wl,--enable-new-dtags",
            ],
        )
    )
    assert elf.needed[0] == "libinner.so.3"
    assert elf.runpath == ("$ORIGIN/lib", "/opt/x")
    assert elf.rpath == ()
    text = subprocess.run(
        ["readelf", "-V", tmp_path / "libouter.so"], text=True, capture_output=True, check=True
    ).stdout
    wanted = {version for versions in elf.versions_needed.values() for version in versions}
    assert wanted
    assert wanted == set(re.findall(r"Name: ([A-Z]+_[\d.]+)", text))
    old = compile_shared(
        tmp_path / "libold.so", C_ONLY, suffix=".c", flags=["-Wl,-rpath,$ORIGIN", "-Wl,--disable-new-dtags"]
    )
    assert read_shared_object(old).rpath == ("$ORIGIN",)


@pytest.mark.parametrize("abi", [0, 1])
def test_an_object_that_exports_nothing_still_tells(tmp_path: Path, abi: int) -> None:
    path = compile_shared(tmp_path / "libhidden.so", HIDDEN, abi=abi, flags=["-fvisibility=hidden", "-O2"])
    assert [name for name in read_shared_object(path).symbols.defined if name.startswith("_Z")] == []
    assert classify(read_shared_object(path)).verdict == abi
    static = compile_shared(
        tmp_path / "libstatic.so",
        HIDDEN,
        abi=abi,
        flags=["-fvisibility=hidden", "-O2", "-static-libstdc++", "-Wl,--exclude-libs,ALL"],
    )
    dynamic = classify(read_shared_object(static))
    assert dynamic.verdict is None
    assert classify(read_static_symbols(static)).verdict == abi


def test_libstdcpp_itself_has_both_and_counts_for_neither() -> None:
    found = subprocess.run(
        ["g++", "-print-file-name=libstdc++.so.6"], text=True, capture_output=True, check=True
    )
    count = classify(read_shared_object(Path(found.stdout.strip())))
    assert count.verdict is None
