#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the documentation owes. Every room of policies has a page that says how to write one and names each header, and a
section that names one says what it keeps, what it costs and what is near it; every method is named in docs/methods.md;
every page is linked from docs/index.md; and no image and no table of measured numbers stands without the command that
makes it, in the same section, unless a script wrote the whole page and the page says so in its first line."""
import re

import self_check

POLICIES = ["rule", "fold", "mask", "gate", "divergence", "order", "prior", "privacy", "sample", "codec"]
COMMAND = re.compile(r"(?:^ {4}|`|# *)(?:\S*tessera-lab|scripts/|build/|python3 |cmake |docs/snippets/|\S*benchmarks?/)", re.M)
ANATOMY = ["State", "Cost", "See also"]
WRITTEN = re.compile(r"# .*\n+Written by `scripts/")
IMAGE = re.compile(r"!\[[^\]]*\]\(")
# A cell that was measured: 81.4, 12.5 %, 1.2 ms, 80.50 ± 1.24, 3.4x. Defaults such as 0.1 stand in tables of settings, which
# have words in their other columns.
MEASURED = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*(?:%|x|s|ms|us|ns|kB|MB|GB|GFLOP/s|±\s*\d.*|\(.*\))?$")


def sections_of(text):
    """(heading, text) between headings of the first and second level, without fenced code."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    heading, lines = "", []
    for line in text.splitlines():
        if re.match(r"##? ", line):
            yield heading, "\n".join(lines)
            heading, lines = line.lstrip("# "), []
        lines.append(line)
    yield heading, "\n".join(lines)


def tables_of(text):
    """Each table as rows of cells, header and rule left out."""
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.M):
        rows = [[cell.strip().strip("*") for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        yield rows[2:]


def is_measured(rows):
    """Most cells beside the first column are measured numbers."""
    cells = [cell for row in rows for cell in row[1:] if cell]
    return len(cells) >= 4 and sum(bool(MEASURED.match(cell)) for cell in cells) > len(cells) / 2


def check(root):
    complaints = []
    base, docs = root / "include" / "tessera", root / "docs"

    def text_of(path):
        return path.read_text() if path.is_file() else ""

    for room in POLICIES:
        headers = [path for path in sorted((base / room).rglob("*.hpp")) if "detail" not in path.parts]
        page = text_of(docs / "policies" / f"{room}.md")
        if headers and not page:
            complaints.append(f"docs/policies/{room}.md: missing")
            continue
        if headers and not re.search(r"^## How to write", page, re.M):
            complaints.append(f"docs/policies/{room}.md: no section says how to write one")
        complaints += [f"docs/policies/{room}.md: does not name {path.name}" for path in headers
                       if not re.search(rf"\b{path.stem}\b", page)]
        for heading, text in sections_of(page):
            if text.startswith("## ") and ".hpp" in text and not heading.startswith("How to"):
                complaints += [f"docs/policies/{room}.md: '{heading}' does not say: {word}" for word in ANATOMY
                               if word.lower() not in text.lower()]

    methods = text_of(docs / "methods.md")
    for header in sorted((base / "method").glob("*.hpp")):
        if f"{header.name}`" not in methods:
            complaints.append(f"docs/methods.md: does not name {header.name}")

    index = text_of(docs / "index.md")
    for page in sorted(docs.rglob("*.md")):
        name = page.relative_to(docs).as_posix()
        if name != "index.md" and f"]({name})" not in index:
            complaints.append(f"docs/index.md: does not link {name}")

    for page in [*sorted(docs.rglob("*.md")), root / "README.md"]:
        if WRITTEN.match(text_of(page)):
            continue
        for heading, text in sections_of(text_of(page)):
            shown = ["an image"] if IMAGE.search(text) else []
            shown += ["a table of numbers" for rows in tables_of(text) if is_measured(rows)][:1]
            if shown and not COMMAND.search(text):
                complaints.append(f"{page.relative_to(root).as_posix()}: {shown[0]} in '{heading}' without the command that makes it")
    return complaints


def self_test():
    table = "| | a | b |\n|---|---|---|\n| x | 81.2 | 79.1 ± 0.3 |\n| y | 80 % | 3.1 ms |\n"
    good = {
        "include/tessera/fold/mean.hpp": "", "include/tessera/fold/detail/sort.hpp": "",
        "include/tessera/method/fedavg.hpp": "",
        "docs/policies/fold.md": "# Folds\n## How to write one\n## Mean (mean.hpp)\n"
                                 "State and cost: none. See also: nothing.\n",
        "docs/methods.md": "`fedavg.hpp`\n",
        "docs/results.md": f"# R\n## T\n{table}\n    tessera-lab run\n## S\n| field | type | default |\n|---|---|---|\n"
                           "| a | double | 0.1 |\n| b | double | 0.5 |\n```\n| a |\n```\n",
        "docs/made.md": f"# M\n\nWritten by `scripts/bench` today.\n## T\n{table}",
        "docs/index.md": "[a](policies/fold.md) [b](methods.md) [c](results.md) [d](made.md)\n",
        "README.md": "# R\n![x](y.png)\n\n    build/release/tessera-lab run\n",
    }
    self_check.check_rule(check, good, [
        ({"docs/policies/fold.md": None}, "fold.md: missing"),
        ({"docs/policies/fold.md": "# Folds\n## Mean (mean.hpp)\n"}, "how to write one"),
        ({"docs/policies/fold.md": "# Folds\n## How to write one\n"}, "does not name mean.hpp"),
        ({"docs/policies/fold.md": "# Folds\n## How to write one\n## Mean (mean.hpp)\nState, see also.\n"}, "'Mean (mean.hpp)' does not say: Cost"),
        ({"docs/methods.md": "fedprox\n"}, "does not name fedavg.hpp"),
        ({"docs/lost.md": "# L\n"}, "does not link lost.md"),
        ({"docs/results.md": f"# R\n    scripts/bench\n## T\n{table}"}, "a table of numbers in 'T'"),
        ({"docs/made.md": f"# M\n## T\n{table}"}, "made.md: a table of numbers"),
        ({"README.md": "# R\n![x](y.png)\n"}, "an image in 'R'"),
    ])


if __name__ == "__main__":
    self_check.run_rule(__doc__, check, self_test, "the pages hold what they owe")
