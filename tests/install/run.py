#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Installs tessera into a temporary prefix, moves the prefix, and uses it the ways people do: find_package,
add_subdirectory, FetchContent, the single header and a vcpkg port, whose functions are played by vcpkg.cmake; also asks
for what must be refused. --with pkg-config (with a bare compiler) and --with conan are tests of their own, skipped (exit
code 77) where the tool is not installed."""
import argparse
import json
import os
import pathlib
import py_compile
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COMPONENTS = ("kernels", "openmp", "xtensor", "zlib", "json")  # the ones main.cpp knows how to try


class Failed(Exception):
    pass


def run(what, command, expect=0, says="", **more):
    """Runs a command; `expect` 1 means any failure. Returns what it printed."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **more)
    flat = " ".join(done.stdout.split())
    if (done.returncode != 0) != (expect != 0) or says not in flat:
        raise Failed(f"{what}: exit code {done.returncode}, expected {'failure' if expect else 'success'}"
                     f"{f' and the words {says!r}' if says else ''}\n{done.stdout}")
    print(f"ok  {what}", flush=True)
    return done.stdout


def install(arguments, work):
    """The installed prefix, moved to where nobody said it would be."""
    build, first, moved = work / "build", work / "first", work / "moved prefix"
    run("configure", [arguments.cmake, "-S", arguments.root, "-B", build, f"-DCMAKE_CXX_COMPILER={arguments.compiler}",
                      f"-DCMAKE_INSTALL_PREFIX={first}", "-DTESSERA_COMPONENTS=", "-DTESSERA_BUILD_TESTS=OFF",
                      "-DTESSERA_BUILD_EXAMPLES=OFF", "-DTESSERA_BUILD_BENCHMARKS=OFF"])
    run("install", [arguments.cmake, "--install", build])
    first.rename(moved)
    shutil.rmtree(build)
    for file in moved.rglob("*"):
        if file.is_file() and str(work) in file.read_text(errors="replace"):
            raise Failed(f"{file.relative_to(moved)} remembers where it was built")
    for file in sorted((arguments.root / "include").rglob("*.hpp")):
        if not (moved / file.relative_to(arguments.root)).is_file():
            raise Failed(f"{file.relative_to(arguments.root)} is not installed")
    return moved


def configure(arguments, build, *options):
    return [arguments.cmake, "-S", HERE, "-B", build, f"-DCMAKE_CXX_COMPILER={arguments.compiler}", *options]


def plain_configure(arguments, work):
    """With nothing but a compiler and Eigen: tests and lab are left out, which is said once; by name they are not."""
    bare = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=TRUE" for name in ("doctest", "CLI11", "benchmark")]
    plain = [arguments.cmake, "-S", arguments.root, "-B", work / "plain", f"-DCMAKE_CXX_COMPILER={arguments.compiler}", *bare]
    said = run("configures without doctest and CLI11", plain, says="tessera: no tests, doctest is missing (Debian: doctest-dev)")
    if "no lab, CLI11 is missing (Debian: libcli11-dev)" not in said:
        raise Failed("configure: that there will be no lab is not said")
    if "doctest is missing" in run("  again, in silence", plain):
        raise Failed("configure: what is missing is said twice")
    for option in ("TESTS", "LAB"):
        run(f"  refuses without them where TESSERA_BUILD_{option} is asked for",
            [*plain[:4], work / f"asked {option}", *plain[5:], f"-DTESSERA_BUILD_{option}=ON"], expect=1)


def by_package(arguments, work, prefix, wanted, how="by package"):
    build = work / how
    run(f"find_package with {wanted or 'no components'}",
        configure(arguments, build, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DWANTED={';'.join(wanted)}"))
    run("  builds", [arguments.cmake, "--build", build])
    run("  runs", [build / "stranger"], says="works")


def by_readme(arguments, work):
    """The lines that README gives for installing, word for word, and what they promise: a program then finds the package."""
    lines = re.search(r"To install, .*:\n\n((?:    .*\n)+)", (arguments.root / "README.md").read_text()).group(1)
    tree, home = work / "clone", work / "home"
    tree.mkdir()
    home.mkdir()
    for entry in arguments.root.iterdir():
        if entry.name != "build":
            (tree / entry.name).symlink_to(entry)
    there = {**os.environ, "HOME": str(home), "CXX": arguments.compiler}
    there.pop("CMAKE_PREFIX_PATH", None)
    use = shlex.join(map(str, configure(arguments, work / "by readme")))
    run("README's lines to install", ["sh", "-ec", f"{lines}{use}"], cwd=tree, env=there)
    run("  builds", [arguments.cmake, "--build", work / "by readme"])
    run("  runs", [work / "by readme" / "stranger"], says="works")
    if not (home / "tessera" / "share" / "pkgconfig" / "tessera.pc").is_file():
        raise Failed("README says where tessera.pc is, and it is not there")


def refusals(arguments, work, prefix):
    here = f"-DCMAKE_PREFIX_PATH={prefix}"
    run("refuses an unknown component", configure(arguments, work / "r1", here, "-DWANTED=teleport"), expect=1,
        says="tessera::teleport needs a component of that name")
    run("refuses another minor version", configure(arguments, work / "r2", here, "-DWANTED_VERSION=99.0"), expect=1,
        says='compatible with requested version "99.0"')


def by_source(arguments, work, use, wanted):
    build = work / f"by {use}"
    run(f"{use} with {wanted or 'no components'}",
        configure(arguments, build, f"-DUSE={use}", f"-DTESSERA_SOURCE={arguments.root}",
                  f"-DTESSERA_COMPONENTS={';'.join(wanted)}", f"-DWANTED={';'.join(wanted)}"))
    run("  builds", [arguments.cmake, "--build", build])
    run("  runs", [build / "stranger"], says="works")


def by_pkg_config(arguments, work, prefix):
    there = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "share" / "pkgconfig")}
    flags = shlex.split(run("pkg-config", ["pkg-config", "--cflags", "tessera"], env=there))
    run("  builds", [arguments.compiler, "-std=c++20", HERE / "main.cpp", *flags, "-o", work / "bare"])
    run("  runs", [work / "bare"], says="works")


def by_single_header(arguments, work):
    """Alone in a folder, so that nothing but the one file can be found; what it refuses to hold is named."""
    folder = work / "single" / "tessera"
    folder.mkdir(parents=True)
    text = run("single header", [sys.executable, "-B", arguments.root / "scripts" / "single_header"])
    (folder / "tessera.hpp").write_text(text)
    if "#include <tessera/" in text:
        raise Failed("the single header includes another one of ours")
    run("  builds", [arguments.compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{folder.parent}",
                     HERE / "main.cpp", "-o", work / "one"])
    run("  runs", [work / "one"], says="works")


def read_conan_recipe(arguments, work):
    py_compile.compile(str(arguments.root / "conanfile.py"), cfile=str(work / "conanfile.pyc"), doraise=True)
    print("ok  the Conan recipe is Python")


def by_conan(arguments, work):
    there = {**os.environ, "CONAN_HOME": str(work / "conan")}
    run("conan profile", ["conan", "profile", "detect"], env=there)
    wanted = re.search(r"^\[requires\]\n((?:\S.*\n)+)", (arguments.root / "conanfile.txt").read_text(), re.M).group(1)
    with open(work / "conan" / "profiles" / "default", "a") as profile:  # these are the system's: nothing is downloaded
        profile.write(f"\n[platform_requires]\n{wanted}")
    run("conan install conanfile.txt", ["conan", "install", arguments.root / "conanfile.txt", "--no-remote", "-of", work / "deps"],
        env=there)
    run("  leaves a toolchain", [arguments.cmake, "-S", HERE, "-B", work / "toolchained", "-DUSE=subdirectory", "-DWANTED=",
                                 f"-DTESSERA_SOURCE={arguments.root}", "-DTESSERA_COMPONENTS=", "-DCMAKE_BUILD_TYPE=Release",
                                 f"-DCMAKE_TOOLCHAIN_FILE={work / 'deps' / 'conan_toolchain.cmake'}"])
    run("conan create", ["conan", "create", arguments.root, "--no-remote"], env=there)
    listed = json.loads(subprocess.run(["conan", "list", "tessera/*:*", "--format=json"], env=there, check=True, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    (name, recipe), = listed["Local Cache"].items()
    (revision, content), = recipe["revisions"].items()
    package, = content["packages"]
    path = subprocess.run(["conan", "cache", "path", f"{name}#{revision}:{package}"], env=there, check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()
    by_package(arguments, work, path, [], "by conan")


def by_vcpkg(arguments, work):
    """The port's script with vcpkg's functions played, and its manifest against what it packages."""
    port = arguments.root / "packaging" / "vcpkg" / "tessera"
    manifest = json.loads((port / "vcpkg.json").read_text())
    version = re.search(r'version = "([^"]+)"', (arguments.root / "include/tessera/version.hpp").read_text()).group(1)
    components = (arguments.root / "scripts" / "cmake" / "components.cmake").read_text()
    if manifest["version"] != version:
        raise Failed(f"vcpkg.json packages {manifest['version']}, version.hpp is {version}")
    for feature in manifest["features"]:
        if f'STREQUAL "{feature}"' not in components:
            raise Failed(f"vcpkg.json: there is no component for the feature {feature}")
    package = work / "vcpkg package"
    run("vcpkg port", [arguments.cmake, f"-DPORT={port / 'portfile.cmake'}", f"-DCURRENT_PACKAGES_DIR={package}",
                       f"-DBUILD={work / 'vcpkg build'}", f"-DCOMPILER={arguments.compiler}", "-P", HERE / "vcpkg.cmake"])
    if not (package / "share" / "tessera" / "tesseraConfig.cmake").is_file():
        raise Failed("vcpkg looks for packages in share/tessera, and ours is not there")
    by_package(arguments, work, package, [], "by vcpkg")
    run("  finds the kernels' source", configure(arguments, work / "with kernels", f"-DCMAKE_PREFIX_PATH={package}",
                                                 "-DWANTED=kernels"))


def refused_single_headers(work):
    """What one header cannot hold is named, and nothing is written."""
    script = HERE.parent.parent / "scripts" / "single_header"
    for what, umbrella, says in (("a header of a component", "#include <tessera/a.hpp>\n", "needs an optional library"),
                                 ("a conditional include", "#if 1\n#include <tessera/b.hpp>\n#endif\n", "conditional")):
        root = work / what
        (root / "include" / "tessera").mkdir(parents=True)
        (root / "tests" / "house").mkdir(parents=True)
        (root / "tests" / "house" / "optional.txt").write_text("tessera/a.hpp zlib\n")
        for name, text in {"version": 'version = "1"', "tessera": umbrella, "predict": "", "a": "", "b": ""}.items():
            (root / "include" / "tessera" / f"{name}.hpp").write_text(text)
        run(f"{what} is refused in the single header", [sys.executable, "-B", script, "--root", root], expect=1, says=says)


def self_test(arguments, work):
    """A package with a hole must be noticed: no umbrella, then no targets file."""
    refused_single_headers(work)
    moved = install(arguments, work)
    shutil.copytree(moved, work / "holed")
    (work / "holed" / "include" / "tessera" / "version.hpp").unlink()
    for what, damage in (("a missing header", lambda prefix: None),
                         ("a missing file of the package", lambda prefix: shutil.rmtree(prefix / "share"))):
        damage(work / "holed")
        try:
            by_package(arguments, work, work / "holed", [])
        except Failed as failure:
            print(f"ok  {what} is noticed: {str(failure).splitlines()[0]}")
        else:
            raise Failed(f"{what} goes unnoticed")
        shutil.rmtree(work / "by package")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--root", type=pathlib.Path, default=HERE.parent.parent)
    parser.add_argument("--component", action="append", default=[], help="a component this machine has")
    parser.add_argument("--system", action="append", help=argparse.SUPPRESS)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--with", dest="tool", choices=("pkg-config", "conan"), help="with this tool alone")
    arguments = parser.parse_args()
    if arguments.tool and not shutil.which(arguments.tool):
        print(f"skipped: {arguments.tool} is not installed")
        sys.exit(77)
    arguments.root = arguments.root.resolve()
    with tempfile.TemporaryDirectory(prefix="tessera install ") as folder:
        work = pathlib.Path(folder)
        try:
            if arguments.self_test:
                self_test(arguments, work)
            elif arguments.tool == "pkg-config":
                by_pkg_config(arguments, work, install(arguments, work))
            elif arguments.tool == "conan":
                by_conan(arguments, work)
            else:
                wanted = [name for name in COMPONENTS if name in arguments.component]
                prefix = install(arguments, work)
                by_package(arguments, work, prefix, wanted)
                by_readme(arguments, work)
                by_source(arguments, work, "subdirectory", wanted)
                by_source(arguments, work, "fetch", [])
                refusals(arguments, work, prefix)
                plain_configure(arguments, work)
                by_single_header(arguments, work)
                by_vcpkg(arguments, work)
                read_conan_recipe(arguments, work)
        except Failed as failure:
            print(f"FAILED  {failure}")
            sys.exit(1)
