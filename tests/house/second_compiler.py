#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Another compiler reads a source of the build with the flags the build gave it, and with warnings as errors; or, with --run,
builds a program of several and runs it."""
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
INCLUDES_FILE = re.compile(r'^#include "(/[^"]+_test\.cpp)"', re.M)
FROM_THE_BUILD = ("-fopenmp", "-DTESSERA_HAS_OPENMP=1", "-DTESSERA_LINKED_KERNELS", "-DTESSERA_LINKED_KERNELS=1")
TAKES_ARGUMENT = ("-I", "-D", "-U", "-isystem", "-iquote", "-include")


def joined(source):
    """The files that a unit of several includes; of any other source, the source."""
    return [pathlib.Path(path) for path in INCLUDES_FILE.findall(source.read_text())] or [source]


def kept_flags(entry):
    """This build's macros and folders, of one entry of compile_commands.json."""
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
    return ([] if any(flag.startswith("-std=") for flag in flags) else ["-std=c++20"]) + flags


def path_of(entry):
    return pathlib.Path(entry["directory"], entry["file"])


def reading_commands(name, entry):
    """The commands that read the source of one entry."""
    flags, source = kept_flags(entry), path_of(entry)

    def reads(flags, *parts):
        files = [word for part in parts[:-1] for word in ("-include", str(part))]
        return [name, *flags, *WARNINGS, "-fsyntax-only", *files, str(parts[-1])]
    if "-fopenmp" not in flags:
        return [reads(flags, source)]
    # With -fopenmp Clang 16 refuses lambdas that capture structured bindings, anywhere in the file. Our headers live with
    # that; a test has to only if it is about OpenMP. Of several tests in one unit, each of those is read by itself.
    without = [flag for flag in flags if flag not in ("-fopenmp", "-DTESSERA_HAS_OPENMP=1")]
    parts = joined(source)
    about = [part for part in parts if ABOUT_OPENMP.search(part.read_text())]
    rest = [part for part in parts if part not in about]
    if about and not compiler.has_openmp(name):
        print(f"not read, since {name} has no OpenMP here: {', '.join(part.name for part in about)}")
        about = []
    return [reads(flags, part) for part in about] + ([reads(without, *rest)] if rest else [])


def entry_of(commands, source):
    """The entry, or None and a sentence."""
    for entry in json.loads(commands.read_text()):
        if path_of(entry).resolve() == source.resolve():
            return entry
    print(f"{source} is not in {commands}")
    return None


def check(name, commands, source):
    entry = entry_of(commands, source)
    if not entry:
        return 1
    failed = 0
    for command in reading_commands(name, entry):
        code, output = compiler.run(command)
        failed += code != 0
        print("\n".join(output.splitlines()[:60]) or f"{pathlib.Path(command[-1]).name}: no warnings")
    return 1 if failed else 0


def check_run(name, commands, sources):
    """The program of these sources ends with 0. All of it is this compiler's: nothing comes from the build's libraries."""
    entries = [entry_of(commands, source) for source in sources]
    if None in entries:
        return 1
    with tempfile.TemporaryDirectory(prefix="second compiler ") as folder:
        objects = [str(pathlib.Path(folder, f"{number}.o")) for number in range(len(entries))]
        program = str(pathlib.Path(folder, "program"))
        steps = [[name, *(flag for flag in kept_flags(entry) if flag not in FROM_THE_BUILD), "-O2", "-c", str(path_of(entry)),
                  "-o", each] for entry, each in zip(entries, objects)]
        for step in [*steps, [name, *objects, "-pthread", "-o", program], [program]]:
            code, output = compiler.run(step)
            if code != 0:
                print("\n".join(output.splitlines()[-60:]))
                return 1
        print("\n".join(output.splitlines()[-3:]))
    return 0


def self_test(name):
    wrong = 0
    cases = {"good": ("#include <thing.hpp>\nint f(int x) { return x + THING; }\n", 0),
             "narrow": ("int f(double x) { return x; }\n", 1), "broken": ("int f() { return y; }\n", 1),
             "fine": ("int f(int);\nint main() { return f(-1); }\n", 0), "crash": ("int main() { __builtin_trap(); }\n", 0)}
    programs = {("good", "fine"): 0, ("crash",): 1, ("fine",): 1, ("good", "broken", "fine"): 1, ("good", "absent"): 1}
    parts = {"plain_test.cpp": "#ifdef _OPENMP\n#error\n#endif\n",
             "openmp_test.cpp": "#include <omp.h>\nint x = omp_get_num_threads();\n", "bad_test.cpp": "int g() { return z; }\n"}
    with tempfile.TemporaryDirectory(prefix="second compiler ") as folder:
        root = pathlib.Path(folder)
        (root / "thing.hpp").write_text("#pragma once\n")
        for part, text in parts.items():
            (root / part).write_text(text)
        for unit, members, expected in [("sound", ["plain_test.cpp", "openmp_test.cpp"], 0),
                                        ("unsound", ["plain_test.cpp", "bad_test.cpp"], 1)]:
            cases[unit] = ("".join(f'#include "{root / member}"\n' for member in members), expected)
        commands = root / "compile_commands.json"
        commands.write_text(json.dumps([
            {"directory": folder, "file": f"{case}.cpp",
             "command": shlex.join(["g++", "-DTHING=1", f"-I{folder}", "-fno-such-flag", "-fopenmp", "-O3", "-o", "x.o", "-c",
                                    f"{case}.cpp"])}
            for case in cases]))
        for case, (text, expected) in cases.items():
            source = root / f"{case}.cpp"
            source.write_text(text)
            wrong += check(name, commands, source) != expected
        wrong += check(name, commands, root / "absent.cpp") != 1
        for members, expected in programs.items():
            wrong += check_run(name, commands, [root / f"{member}.cpp" for member in members]) != expected
    all_cases = len(cases) + 1 + len(programs)
    print(f"self-test: {all_cases - wrong} of {all_cases} as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", default="clang++-16")
    parser.add_argument("--commands", type=pathlib.Path, help="the build's compile_commands.json")
    parser.add_argument("--source", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--run", action="store_true", help="build a program of the sources, and run it")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        sys.exit(self_test(arguments.compiler))
    if not arguments.commands or not arguments.source:
        parser.error("--commands and at least one --source say what to read")
    if arguments.run:
        sys.exit(check_run(arguments.compiler, arguments.commands, arguments.source))
    sys.exit(max(check(arguments.compiler, arguments.commands, source) for source in arguments.source))
