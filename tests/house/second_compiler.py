#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Another compiler reads a source of the build with the flags the build gave it, and with warnings as errors."""
import argparse
import json
import pathlib
import re
import shlex
import sys
import tempfile

import compiler

WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]
KEEP = ("-I", "-D", "-U", "-isystem", "-iquote", "-std=", "-include", "-fopenmp")  # the rest is the first compiler's
ABOUT_OPENMP = re.compile(r"#\s*(include\s*<(omp\.h|tessera/exec[./])|pragma omp)")
TAKES_ARGUMENT = ("-I", "-D", "-U", "-isystem", "-iquote", "-include")


def reading_command(name, entry):
    """The command that reads the source of one entry of compile_commands.json, with this build's macros and folders."""
    words = entry.get("arguments") or shlex.split(entry["command"])
    flags, index = [], 1
    while index < len(words):
        word = words[index]
        if word.startswith(KEEP):
            flags.append(word)
            if word in TAKES_ARGUMENT:
                index += 1
                flags.append(words[index])
        index += 1
    # With -fopenmp Clang 16 refuses lambdas that capture structured bindings, anywhere in the file. Our headers live with
    # that; a test has to only if it is about OpenMP.
    source = pathlib.Path(entry["directory"], entry["file"])
    if "-fopenmp" in flags and not (ABOUT_OPENMP.search(source.read_text()) and compiler.has_openmp(name)):
        flags = [flag for flag in flags if flag not in ("-fopenmp", "-DTESSERA_HAS_OPENMP=1")]
    standard = [] if any(flag.startswith("-std=") for flag in flags) else ["-std=c++20"]
    return [name, *standard, *flags, *WARNINGS, "-fsyntax-only", str(source)]


def check(name, commands, source):
    entries = [entry for entry in json.loads(commands.read_text())
               if pathlib.Path(entry["directory"], entry["file"]).resolve() == source.resolve()]
    if not entries:
        print(f"{source} is not in {commands}")
        return 1
    code, output = compiler.run(reading_command(name, entries[0]))
    print("\n".join(output.splitlines()[:60]) or f"{source.name}: no warnings")
    return 1 if code else 0


def self_test(name):
    wrong = 0
    cases = {"good": ("#include <thing.hpp>\nint f(int x) { return x + THING; }\n", 0),
             "narrow": ("int f(double x) { return x; }\n", 1), "broken": ("int f() { return y; }\n", 1)}
    with tempfile.TemporaryDirectory(prefix="second compiler ") as folder:
        root = pathlib.Path(folder)
        (root / "thing.hpp").write_text("#pragma once\n")
        commands = root / "compile_commands.json"
        commands.write_text(json.dumps([
            {"directory": folder, "file": f"{case}.cpp",
             "command": shlex.join(["g++", "-DTHING=1", f"-I{folder}", "-fno-such-flag", "-O3", "-o", "x.o", "-c", f"{case}.cpp"])}
            for case in cases]))
        for case, (text, expected) in cases.items():
            source = root / f"{case}.cpp"
            source.write_text(text)
            wrong += check(name, commands, source) != expected
        wrong += check(name, commands, root / "absent.cpp") != 1
    print(f"self-test: {len(cases) + 1 - wrong} of {len(cases) + 1} as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", default="clang++-16")
    parser.add_argument("--commands", type=pathlib.Path, help="the build's compile_commands.json")
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        sys.exit(self_test(arguments.compiler))
    sys.exit(check(arguments.compiler, arguments.commands, arguments.source))
