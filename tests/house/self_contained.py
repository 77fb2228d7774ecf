#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every header compiles alone, twice in a row, without warnings. Headers in optional.txt are skipped where a component they
need is absent. With --stamps, a header that compiled and has not changed since, nor anything of ours below it, is not
compiled again. With --tested, a header that is the first include of a unit test is not compiled either: the test's own
compilation has read it alone, with the same warnings. It must only say #pragma once."""
import argparse
import hashlib
import pathlib
import re
import sys
import types

import compiler
import self_check

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]


def needs(root):
    """{header: [components]} from optional.txt."""
    table = root / "tests" / "house" / "optional.txt"
    lines = [line.split() for line in table.read_text().splitlines()] if table.is_file() else []
    return {words[0]: words[1:] for words in lines if words and not words[0].startswith("#")}


def headers_of(root, room):
    base = root / "include"
    if room.endswith(".hpp"):
        return [f"tessera/{room}"]
    found = (base / "tessera").glob("*.hpp") if room == "umbrellas" else (base / "tessera" / room).rglob("*.hpp")
    return [path.relative_to(base).as_posix() for path in sorted(found)]


def stamp(root, header, command):
    """A hash of the command, the compiler and every header of ours that `header` reaches."""
    seen, todo = {}, [header]
    while todo:
        name = todo.pop()
        path = root / "include" / name
        if name not in seen and path.is_file():
            seen[name] = path.read_text()
            todo += re.findall(r"#\s*include\s*<(tessera/[^>]+)>", seen[name])
    key = [*command, compiler.run([command[0], "--version"])[1], *(f"{name}\0{seen[name]}" for name in sorted(seen))]
    return hashlib.sha256("\0".join(key).encode()).hexdigest()


def first_includes(root):
    """{header: test} for the headers that a unit test reads before anything else."""
    found = {}
    for test in sorted((root / "tests").glob("*/*_test.cpp")):
        first = re.search(r"^#\s*include\s*[<\"]([^>\"]+)", test.read_text(), re.MULTILINE)
        if first:
            found.setdefault(first[1], test.relative_to(root).as_posix())
    return found


def check(root, room, arguments):
    complaints = []
    needed = needs(root)
    # Tests link the kernels, so they do not see what the kernels' headers say without that.
    tested = first_includes(root) if arguments.tested and room != "kernels" else {}
    flags = compiler.flags(arguments)
    command = [arguments.compiler, *flags, *WARNINGS, "-fsyntax-only", "-x", "c++", "-"]
    for header in headers_of(root, room):
        missing = [name for name in needed.get(header, []) if name not in arguments.component]
        if missing or ("openmp" in needed.get(header, []) and "-fopenmp" not in flags):
            print(f"skipped {header}: needs {' '.join(missing or ['openmp'])}")
            continue
        once = re.search(r"^#pragma once$", (root / "include" / header).read_text(), re.MULTILINE)
        if header in tested and header not in needed and once:
            print(f"ok      {header}, by {tested[header]}")
            continue
        text = f"#include <{header}>\n#include <{header}>\nint main() {{}}\n"
        done = arguments.stamps / stamp(root, header, command) if arguments.stamps else None
        if done and done.is_file():
            print(f"as before {header}")
            continue
        code, output = compiler.run(command, text)
        print(("ok      " if code == 0 else "FAILED  ") + header, flush=True)
        if done and code == 0:
            done.parent.mkdir(parents=True, exist_ok=True)
            done.touch()
        if code:
            complaints.append(f"{header} does not compile alone:\n" + "\n".join(output.splitlines()[:30]))
    return complaints


def self_test(name):
    good = {
        "include/tessera/core/a.hpp": "#pragma once\n#include <span>\ninline std::span<int> a() { return {}; }\n",
        "include/tessera/core/z.hpp": "#pragma once\n#include <no_such_zlib.h>\n",
        "tests/house/optional.txt": "tessera/core/z.hpp zlib\n",
    }

    def rule(root):
        arguments = types.SimpleNamespace(compiler=name, include=[str(root / "include")], system=[], component=[],
                                          stamps=root / "stamps", tested=True)
        first = check(root, "core", arguments)
        if first == check(root, "core", arguments):  # the stamps must not change the verdict
            return first
        return ["the second answer differs from the first"]

    header = "include/tessera/core/a.hpp"
    self_check.check_rule(rule, good, [
        ({header: "#pragma once\ninline std::span<int> a() { return {}; }\n"}, "a.hpp does not compile alone"),
        ({header: "#pragma once\ninline int a(double x) { return x; }\n"}, "conversion"),
        ({header: "inline int a() { return 0; }\n"}, "redefinition"),
        ({"tests/house/optional.txt": ""}, "z.hpp does not compile alone"),
        ({header: "inline int a() { return 0; }\n", "tests/core/a_test.cpp": "#include <tessera/core/a.hpp>\n"},
         "redefinition"),
        ({header: "#pragma once\nstd::span<int> a();\n",
          "tests/core/a_test.cpp": "#include <span>\n#include <tessera/core/a.hpp>\n"}, "a.hpp does not compile alone"),
    ])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    compiler.add_arguments(parser)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--room", default="umbrellas", help="a folder of include/tessera, one header there, or umbrellas")
    parser.add_argument("--tested", action="store_true", help="the unit tests were compiled, with warnings as errors")
    parser.add_argument("--stamps", type=pathlib.Path, help="a folder that remembers what compiled")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test(arguments.compiler)
    problems = check(arguments.root, arguments.room, arguments)
    print("\n".join(problems))
    sys.exit(1 if problems else 0)
