#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One name, five places. fold::TrimmedMean is include/tessera/fold/trimmed_mean.hpp, tests/fold/trimmed_mean_test.cpp, a
section of docs/policies/fold.md, a line of include/tessera/fold.hpp (and a benchmark where speed matters). Umbrellas hold
sorted includes and nothing else."""
import pathlib
import re

import self_check

POLICIES = ["rule", "fold", "mask", "gate", "divergence", "order", "prior", "privacy", "sample"]
NO_UMBRELLA = ["interop", "kernels", "device", "place"]  # rooms whose headers are chosen one by one


def optional_headers(root):
    """Headers that need a component; umbrellas must work without any."""
    table = root / "tests" / "house" / "optional.txt"
    lines = table.read_text().splitlines() if table.is_file() else []
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


def umbrella_complaints(root, umbrella, optional):
    """An umbrella is a comment, #pragma once and includes in alphabetical order."""
    complaints, includes = [], []
    where = umbrella.relative_to(root).as_posix()
    for number, line in enumerate(umbrella.read_text().splitlines(), 1):
        match = re.match(r"#include <(tessera/[^>]+)>(\s*//.*)?$", line)
        if match:
            includes.append(match.group(1))
        elif not re.match(r"\s*$|//|#pragma once$", line):
            complaints.append(f"{where}:{number}: an umbrella holds only includes: {line.strip()}")
    for first, second in zip(includes, includes[1:]):
        if first == second:
            complaints.append(f"{where}: {first} is there twice")
        elif first > second:
            complaints.append(f"{where}: not sorted: {first} before {second}")
    for include in includes:
        if include in optional:
            complaints.append(f"{where}: {include} needs a component, so no umbrella may include it")
    return complaints, includes


def check(root):
    complaints = []
    base = root / "include" / "tessera"
    optional = optional_headers(root)
    for header in sorted(optional):
        if not (root / "include" / header).is_file():
            complaints.append(f"tests/house/optional.txt: no such header: {header}")
    rooms = sorted(path.name for path in base.iterdir() if path.is_dir() and any(path.rglob("*.hpp")))
    method_tests = "".join(path.read_text() for path in sorted((root / "tests" / "method").rglob("*.cpp")))

    for room in rooms:
        headers = [path.relative_to(base).as_posix() for path in sorted((base / room).rglob("*.hpp"))]
        headers = [path for path in headers if "/detail/" not in path]
        umbrella = base / f"{room}.hpp"
        if umbrella.is_file():
            problems, includes = umbrella_complaints(root, umbrella, optional)
            complaints += problems
            for path in headers:
                if f"tessera/{path}" not in includes and f"tessera/{path}" not in optional:
                    complaints.append(f"include/tessera/{room}.hpp: does not list {path}")
        elif room not in NO_UMBRELLA:
            complaints.append(f"include/tessera/{room}.hpp: missing; it lists the headers of {room}/")

        for path in headers:
            stem = pathlib.PurePosixPath(path).stem
            if not re.fullmatch(r"[a-z][a-z0-9_]*", stem):
                complaints.append(f"include/tessera/{path}: file names are lower_case")
            if room in POLICIES:
                test = f"tests/{path[:-len('.hpp')]}_test.cpp"
                if not (root / test).is_file():
                    complaints.append(f"include/tessera/{path}: its test is missing: {test}")
                page = root / "docs" / "policies" / f"{room}.md"
                if page.is_file() and not re.search(rf"\b{stem}\b", page.read_text()):
                    complaints.append(f"docs/policies/{room}.md: no section names {stem}.hpp")
            if room == "method" and f"<tessera/{path}>" not in method_tests:
                complaints.append(f"include/tessera/{path}: no file in tests/method includes it")

    top = base / "tessera.hpp"
    if top.is_file():
        problems, includes = umbrella_complaints(root, top, optional)
        complaints += problems
        for room in rooms:
            if (base / f"{room}.hpp").is_file() and f"tessera/{room}.hpp" not in includes:
                complaints.append(f"include/tessera/tessera.hpp: does not include {room}.hpp")
    return complaints


def self_test():
    good = {
        "include/tessera/tessera.hpp": "// All.\n#pragma once\n\n#include <tessera/fold.hpp>\n#include <tessera/method.hpp>\n",
        "include/tessera/fold.hpp": "#pragma once\n#include <tessera/fold/mean.hpp>\n#include <tessera/fold/median.hpp>\n",
        "include/tessera/fold/mean.hpp": "",
        "include/tessera/fold/median.hpp": "",
        "include/tessera/fold/detail/sort.hpp": "",
        "include/tessera/method.hpp": "#include <tessera/method/fedavg.hpp>\n",
        "include/tessera/method/fedavg.hpp": "",
        "tests/method/limits_test.cpp": "#include <tessera/method/fedavg.hpp>\n",
        "tests/fold/mean_test.cpp": "",
        "tests/fold/median_test.cpp": "",
        "tests/house/optional.txt": "# none\n",
        "docs/policies/fold.md": "## Mean (mean.hpp)\n## Median (median.hpp)\n",
    }
    fold = good["include/tessera/fold.hpp"]
    self_check.check_rule(check, good, [
        ({"include/tessera/fold/krum.hpp": "", "tests/fold/krum_test.cpp": ""}, "does not list fold/krum.hpp"),
        ({"tests/fold/mean_test.cpp": None}, "its test is missing: tests/fold/mean_test.cpp"),
        ({"tests/method/limits_test.cpp": ""}, "no file in tests/method includes it"),
        ({"docs/policies/fold.md": "## Mean (mean.hpp)\n"}, "no section names median.hpp"),
        ({"include/tessera/fold.hpp": fold + "int x;\n"}, "only includes"),
        ({"include/tessera/fold.hpp":
          "#include <tessera/fold/median.hpp>\n#include <tessera/fold/mean.hpp>\n"}, "not sorted"),
        ({"include/tessera/fold.hpp": fold + "#include <tessera/fold/median.hpp>\n"}, "there twice"),
        ({"include/tessera/method.hpp": None}, "method.hpp: missing"),
        ({"include/tessera/tessera.hpp": "#include <tessera/fold.hpp>\n"}, "does not include method.hpp"),
        ({"tests/house/optional.txt": "tessera/fold/mean.hpp zlib\n"}, "needs a component"),
        ({"tests/house/optional.txt": "tessera/fold/gone.hpp zlib\n"}, "no such header"),
        ({"include/tessera/fold/Big.hpp": ""}, "lower_case"),
    ])


if __name__ == "__main__":
    self_check.run_rule(__doc__, check, self_test, "every name is in its places")
