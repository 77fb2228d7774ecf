#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The documentation's code is code. Every ```cpp block under docs/ stands below a line
`<!-- snippet: file.cpp#name -->` and equals the region `// [name]` ... `// [/name]` of that file, dedented; every
region is quoted somewhere. CMake builds each snippet file and runs it as `check.py --program file.cpp PROGRAM`: main()
returns 0, and what it prints is what stands in the block below `<!-- output: file.cpp -->`, where a page has one. Links
between pages lead somewhere. README.md is a page, too."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

BEGIN, END = re.compile(r"\s*// \[([a-z_0-9]+)\]$"), re.compile(r"\s*// \[/([a-z_0-9]+)\]$")
QUOTE = re.compile(r"<!-- snippet: ([a-z_0-9]+\.[ch]pp)#([a-z_0-9]+) -->$")
OUTPUT = re.compile(r"<!-- output: ([a-z_0-9]+\.cpp) -->\n+```text\n(.*?)^```$", re.S | re.M)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def regions_of(path, complaints):
    """name -> text of the region, dedented."""
    regions, name, lines = {}, None, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        begin, end = BEGIN.match(line), END.match(line)
        if begin and name is None:
            name, lines = begin.group(1), []
            if name in regions:
                complaints.append(f"{path.name}:{number}: there are two regions [{name}]")
        elif end and end.group(1) == name:
            regions[name] = textwrap.dedent("\n".join(lines)).strip("\n")
            name = None
        elif begin or end:
            complaints.append(f"{path.name}:{number}: markers do not match: {line.strip()}")
        elif name is not None:
            lines.append(line)
    if name is not None:
        complaints.append(f"{path.name}: region [{name}] has no end")
    return regions


def blocks_of(text):
    """(line number, the line above, body) of each ```cpp block."""
    lines = text.splitlines()
    inside, language = None, ""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith("```"):
            continue
        if inside is None:
            inside, language = i, line.strip()[3:]
        else:
            if language == "cpp":
                above = next((l.strip() for l in reversed(lines[:inside]) if l.strip()), "")
                yield inside + 1, above, textwrap.dedent("\n".join(lines[inside + 1:i])).strip("\n")
            inside = None


def pages_of(docs):
    return sorted(docs.rglob("*.md")) + [page for page in [docs.parent / "README.md"] if page.is_file()]


def snippet_files(docs):
    return sorted((docs / "snippets").glob("*.[ch]pp"))


def check_pages(docs):
    complaints = []
    snippets = {path.name: regions_of(path, complaints) for path in snippet_files(docs)}
    quoted = set()
    for page in pages_of(docs):
        where, text = page.relative_to(docs.parent).as_posix().removeprefix("docs/"), page.read_text()
        for number, above, body in blocks_of(text):
            match = QUOTE.match(above)
            if not match:
                complaints.append(f"{where}:{number}: a ```cpp block needs <!-- snippet: file.cpp#name --> above it")
                continue
            file, name = match.groups()
            quoted.add((file, name))
            if name not in snippets.get(file, {}):
                complaints.append(f"{where}:{number}: there is no region [{name}] in snippets/{file}")
            elif snippets[file][name] != body:
                complaints.append(f"{where}:{number}: differs from region [{name}] of snippets/{file}")
        outputs = [file for file, _ in OUTPUT.findall(text)]
        if len(outputs) != text.count("<!-- output: "):
            complaints.append(f"{where}: <!-- output: file.cpp --> needs a ```text block below it")
        complaints += [f"{where}: there is no program snippets/{file}" for file in outputs if file not in snippets]
        for target in LINK.findall(text):
            if "://" not in target and not (page.parent / target).exists():
                complaints.append(f"{where}: a link leads nowhere: {target}")
    for file, regions in snippets.items():
        complaints += [f"snippets/{file}: nobody quotes region [{name}]" for name in regions if (file, name) not in quoted]
    return complaints


def update_pages(docs):
    """Writes the regions into the blocks that quote them."""
    ignored = []
    snippets = {path.name: regions_of(path, ignored) for path in snippet_files(docs)}
    block = re.compile(r"(<!-- snippet: ([a-z_0-9]+\.[ch]pp)#([a-z_0-9]+) -->\n+```cpp\n)(.*?)(^```$)", re.S | re.M)
    for page in pages_of(docs):
        def fresh(m):
            region = snippets.get(m.group(2), {}).get(m.group(3))
            return m.group(0) if region is None else m.group(1) + region + "\n" + m.group(5)
        before = page.read_text()
        after = block.sub(fresh, before)
        if after != before:
            page.write_text(after)


def check_program(docs, file, command, update=False):
    """Runs a snippet; what it prints must stand on the pages that show its output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    complaints = [f"snippets/{file} ends with {done.returncode}"] if done.returncode else []
    for page in pages_of(docs):
        for name, shown in OUTPUT.findall(page.read_text()):
            if name != file or shown == done.stdout:
                continue
            if update:
                page.write_text(OUTPUT.sub(lambda m: m.group(0).replace("text\n" + m.group(2), "text\n" + done.stdout)
                                           if m.group(1) == file else m.group(0), page.read_text()))
            else:
                complaints.append(f"{page.name}: snippets/{file} prints\n{done.stdout}and not\n{shown}")
    return complaints


def self_test():
    """A page that is right passes; each kind of mistake is found."""
    code = "int main() {\n    // [a]\n    int x = 0;\n    // [/a]\n    return x;\n}\n"
    right = "<!-- snippet: s.cpp#a -->\n```cpp\nint x = 0;\n```\n"
    shows = "<!-- output: s.cpp -->\n```text\n0\n```\n"
    cases = [({}, None),
             ({"p.md": right.replace("x = 0", "x = 1")}, "differs"),
             ({"p.md": right + "\n\n```cpp\nint y;\n```\n"}, "needs <!-- snippet"),
             ({"p.md": right.replace("#a", "#b")}, "no region [b]"),
             ({"p.md": "nothing\n"}, "nobody quotes"),
             ({"p.md": right + "[x](gone.md)\n"}, "leads nowhere"),
             ({"p.md": right + shows}, None),
             ({"p.md": right + shows.replace("0", "1")}, "prints"),
             ({"p.md": right + shows.replace("s.cpp", "t.cpp")}, "no program"),
             ({"p.md": right + shows.replace("```text", "```")}, "needs a ```text block"),
             ({"snippets/s.cpp": code.replace("    // [/a]\n", "")}, "has no end"),
             ({"snippets/s.cpp": code.replace("[/a]", "[/c]")}, "do not match")]
    for changes, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            docs = pathlib.Path(folder, "docs")
            (docs / "snippets").mkdir(parents=True)
            for name, text in {"p.md": right, "snippets/s.cpp": code, **changes}.items():
                (docs / name).write_text(text)
            found = "\n".join(check_pages(docs) + check_program(docs, "s.cpp", [sys.executable, "-c", "print(0)"]))
            if (expected is None and found) or (expected and expected not in found):
                sys.exit(f"self-test: expected {expected!r}, found {found!r}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--update", action="store_true", help="write the regions (or a program's output) into the pages first")
    parser.add_argument("--program", nargs=2, metavar=("FILE", "PROGRAM"), help="run a built snippet instead")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.program:
        file, program = arguments.program
        problems = check_program(arguments.docs, file, [program], arguments.update)
        print("\n".join(problems) or f"{file} prints what the pages say")
        sys.exit(1 if problems else 0)
    self_test()
    if arguments.self_test:
        sys.exit(0)
    if arguments.update:
        update_pages(arguments.docs)
    problems = check_pages(arguments.docs)
    print("\n".join(problems) or "the documentation's code is code")
    sys.exit(1 if problems else 0)
