#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that people feel: preprocessed lines (compile time), source lines and columns, against tests/house/budgets.txt.

Preprocessed lines are those of `g++ -std=c++20 -E -P`: the same on every machine with the same compiler and libraries, so
they can decide where seconds cannot. The budgets were set with GCC 12; other versions get SLACK, because their
standard library is theirs."""
import argparse
import pathlib
import re
import sys

import compiler
import self_check

SLACK = 1.3
KINDS = ("preprocessed", "source", "columns")


def pattern_of(glob):
    parts = re.split(r"(\*\*|\*)", glob)
    return re.compile("".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts) + r"\Z")


def read_budgets(path):
    """[(kind, limit, pattern, glob)] in the order of the file."""
    budgets = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].split()
        if not line:
            continue
        if len(line) != 3 or line[0] not in KINDS or not line[1].isdigit():
            sys.exit(f"{path}:{number}: expected <{'|'.join(KINDS)}> <number> <pattern>")
        budgets.append((line[0], int(line[1]), pattern_of(line[2]), line[2]))
    return budgets


def preprocessed(command, header):
    """Lines after preprocessing of a file that includes only `header`; None if it does not preprocess."""
    code, text = compiler.run(command + ["-E", "-P", "-w", "-x", "c++", "-"], f"#include <{header}>\n")
    return None if code else text.count("\n")


def check(root, command, slack=1.0, table=None):
    complaints = []
    budgets = read_budgets(root / "tests" / "house" / "budgets.txt")
    optional = {line.split()[0] for line in _lines(root / "tests" / "house" / "optional.txt")}
    files = sorted((root / "include").rglob("*.hpp")) + sorted((root / "examples").rglob("*.cpp"))
    names = [path.relative_to(root).as_posix() for path in files]

    for kind, limit, pattern, glob in budgets:
        if "*" not in glob and not any(pattern.match(name) for name in names):
            complaints.append(f"tests/house/budgets.txt: no file {glob}")

    for path, name in zip(files, names):
        limits = {kind: limit for kind, limit, pattern, _ in budgets if pattern.match(name)}
        lines = path.read_text().splitlines()
        sizes = {"source": len(lines), "columns": max(map(len, lines), default=0)}
        header = name[len("include/"):]
        if "preprocessed" in limits and header not in optional:
            size = preprocessed(command, header)
            if size is None:
                complaints.append(f"{name}: does not preprocess")
            else:
                sizes["preprocessed"] = size
                if table is not None:
                    table.append((size, header))
        for kind, size in sizes.items():
            limit = limits.get(kind)
            if limit is not None and size > (limit * slack if kind == "preprocessed" else limit):
                complaints.append(f"{name}: {size} {kind if kind == 'columns' else kind + ' lines'}, the budget is {limit}; "
                                  f"to raise it: `{kind} {size} {name}` in tests/house/budgets.txt, with the reason")
    return complaints


def _lines(path):
    text = path.read_text() if path.is_file() else ""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def self_test(compiler_name):
    good = {
        "include/tessera/core/small.hpp": "#include <cstddef>\n",
        "include/tessera/method/short.hpp": "int a;\n" * 3,
        "examples/one.cpp": "int main() {}\n",
        "tests/house/budgets.txt": "preprocessed 2000 include/tessera/**\nsource 3 include/tessera/method/*.hpp # box\n"
                                   "columns 20 include/tessera/method/*.hpp\nsource 79 examples/*.cpp\n",
    }

    def rule(root):
        return check(root, [compiler_name, "-std=c++20", f"-I{root}/include"])

    budgets = good["tests/house/budgets.txt"]
    self_check.check_rule(rule, good, [
        ({"include/tessera/core/small.hpp": "#include <string>\n"}, "the budget is 2000"),
        ({"include/tessera/core/small.hpp": "#include <nowhere>\n"}, "does not preprocess"),
        ({"include/tessera/method/short.hpp": "int a;\n" * 4}, "4 source lines, the budget is 3"),
        ({"include/tessera/method/short.hpp": "// " + "x" * 30 + "\n"}, "33 columns"),
        ({"examples/one.cpp": "\n" * 80}, "80 source lines, the budget is 79"),
        ({"tests/house/budgets.txt": budgets + "source 9 include/tessera/gone.hpp\n"}, "no file include/tessera/gone.hpp"),
        ({"tests/house/budgets.txt": budgets + "source 2 include/tessera/method/short.hpp\n"}, "the budget is 2"),
    ])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    compiler.add_arguments(parser)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test(arguments.compiler)
    kind, major = compiler.version(arguments.compiler)
    sizes = []
    problems = check(arguments.root, [arguments.compiler] + compiler.flags(arguments),
                     1.0 if (kind, major) == ("gcc", 12) else SLACK, sizes)
    for size, header in sorted(sizes, reverse=True):
        print(f"{size:8} {header}")
    print("\n".join(problems) or "within budget")
    sys.exit(1 if problems else 0)
