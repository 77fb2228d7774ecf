#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Lays out what Sphinx reads: the pages of docs/ as they are, but methods.md as a page for each method, the two pages from
the root that they link to, a page for each room of headers made from the headers' own comments, and the table of contents.
The pages stay plain Markdown."""
import argparse
import pathlib
import re
import shutil
import sys
import tempfile

FROM_ROOT = ["CHANGELOG.md", "CONTRIBUTING.md"]
# Title of a group and its pages in order; what nobody names goes to the last group but the reference.
GROUPS = [("Start", ["tutorial", "lab", "methods", "analyses"]),
          ("Systems", ["systems/fedalt", "systems/pfedbred", "systems/perada", "systems/fedspa", "systems/flow"]),
          ("Policies", ["policies/*"]),
          ("More", [])]
NO_METHOD = {"write-one"}  # sections of methods.md that stay where they are
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```$|(?:    [^\n]*\n)+)", re.S | re.M)


def outside_code(text, change):
    """change() applied to what is neither a fenced nor an indented block."""
    return "".join(piece if i % 2 else change(piece) for i, piece in enumerate(FENCE.split(text)))


def relinked(text, depth):
    """Links that leave docs/: to a page that came along, they stay; to anything else of the tree, they become plain words."""
    def link(match):
        words, target = match.groups()
        if "://" in target or target.startswith("#"):
            return match.group(0)
        inside = target.removeprefix("../" * (depth + 1))
        if inside == target:
            return match.group(0)
        name = inside.split("#")[0]
        return f"[{words}]({'../' * depth}{inside})" if name in FROM_ROOT else f"{words} (`{inside}`)"
    return outside_code(text, lambda piece: LINK.sub(link, piece))


def slug(title):
    """As the anchors of headings are made."""
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).strip().replace(" ", "-")


def method_pages(text):
    """methods.md with a list in place of its methods, and {name: page of a method}, whose links lead from one folder below."""
    start, *sections = re.split(r"^(?=## )", text, flags=re.M)
    pages, stay = {}, []
    for section in sections:
        title, _, body = section.partition("\n")
        name = slug(title.removeprefix("## "))
        if name in NO_METHOD:
            stay.append(section)
            continue
        below = outside_code(body, lambda piece: LINK.sub(
            lambda m: m.group(0) if "://" in m.group(2) or m.group(2).startswith("#") else f"[{m.group(1)}](../{m.group(2)})", piece))
        pages[name] = f"{title.removeprefix('#')}\n{below}"
    titles = {name: page.partition("\n")[0].removeprefix("# ") for name, page in pages.items()}
    listed = "".join(f"- [{title}](methods/{name}.md)\n" for name, title in titles.items())
    contents = "```{toctree}\n:hidden:\n\n" + "".join(f"methods/{name}\n" for name in pages) + "```\n"
    return f"{start}## The methods\n\n{listed}\n{contents}\n{''.join(stay)}", pages


def to_method_pages(text, names):
    """Links to a section that has become a page."""
    return outside_code(text, lambda piece: re.sub(
        r"\(((?:\.\./)*)methods\.md#([a-z0-9-]+)\)",
        lambda m: f"({m.group(1)}methods/{m.group(2)}.md)" if m.group(2) in names else m.group(0), piece))


def as_markdown(comment):
    """The comment at the top of a header: indented lines are equations or code, the rest is prose."""
    blocks, kind = [], None
    for line in comment:
        if not line.strip():
            kind = None if kind != "code" else kind
            if blocks:
                blocks[-1][1].append("")
            continue
        now = "code" if line.startswith("  ") else "prose"
        if now != kind or (now == "prose" and blocks[-1][1][-1:] == [""]):
            blocks.append((now, []))
        kind = now
        blocks[-1][1].append(line)
    out = []
    for kind, lines in blocks:
        text = "\n".join(lines).strip("\n")
        if kind == "prose":
            parts = text.split("`")
            text = "`".join(part if i % 2 else re.sub(r"([\\*_<>\[\]$|#])", r"\\\1", part) for i, part in enumerate(parts))
            out.append(text)
        else:
            out.append(f"```text\n{text}\n```")
    return "\n\n".join(out)


def reference_page(root, room):
    """Every header of a room: what its comment says, and its text to unfold."""
    base = root / "include" / "tessera"
    headers = sorted(path for path in (base / room).rglob("*.hpp") if "detail" not in path.relative_to(base).parts)
    out = [f"# tessera/{room}", f"The headers of `tessera/{room}/`, in their own words. Each can be included alone."]
    for header in headers:
        lines = header.read_text().splitlines()
        comment = []
        for line in lines[1:]:
            if not line.startswith("//"):
                break
            comment.append(line[2:].removeprefix(" "))
        name = header.relative_to(base / room).as_posix()
        out += [f"## {name}", as_markdown(comment), "<details><summary>Text of the header</summary>",
                "```cpp\n" + "\n".join(lines) + "\n```", "</details>"]
    return "\n\n".join(block for block in out if block) + "\n"


def toctree(caption, pages, glob=False):
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", *([":glob:"] if glob else []), "", *pages, "```", ""])


def same_titles(folder):
    """Pages that the sidebar would call by one name: [(title, pages)]."""
    called = {}
    for page in sorted(folder.rglob("*.md")):
        title = re.search(r"^# (.*)", page.read_text(), re.M)
        called.setdefault(title.group(1) if title else page.stem, []).append(page.relative_to(folder).as_posix())
    return [(title, pages) for title, pages in called.items() if len(pages) > 1]


def prepare(root, target):
    docs = root / "docs"
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    for page in docs.rglob("*.md"):
        place = target / page.relative_to(docs)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(relinked(page.read_text(), len(page.relative_to(docs).parts) - 1))
    for name in FROM_ROOT:
        text = (root / name).read_text().replace("](docs/", "](")
        (target / name).write_text(text)
    if (docs / "images").is_dir():
        shutil.copytree(docs / "images", target / "images")

    if (target / "methods.md").is_file():
        front, methods = method_pages((target / "methods.md").read_text())
        (target / "methods.md").write_text(front)
        (target / "methods").mkdir()
        for name, text in methods.items():
            (target / "methods" / f"{name}.md").write_text(text)
        for page in target.rglob("*.md"):
            page.write_text(to_method_pages(page.read_text(), methods))

    (target / "reference").mkdir()
    rooms = sorted(path.name for path in (root / "include" / "tessera").iterdir() if path.is_dir())
    for room in rooms:
        (target / "reference" / f"{room}.md").write_text(reference_page(root, room))

    named = {page for _, pages in GROUPS for page in pages}
    rest = sorted(path.relative_to(target).with_suffix("").as_posix() for path in target.rglob("*.md"))
    rest = [page for page in rest if page not in named and page != "index" and page.split("/")[0] not in ("policies", "methods") and not page.startswith("reference/")]
    contents = [toctree(title, pages or rest, glob=any("*" in page for page in pages)) for title, pages in GROUPS]
    contents.append(toctree("Reference", [f"reference/{room}" for room in rooms]))
    with open(target / "index.md", "a") as index:
        index.write("\n" + "\n".join(contents))
    if twice := same_titles(target):
        sys.exit("\n".join(f"two pages are called '{title}': {', '.join(pages)}" for title, pages in twice))


def self_test():
    cases = [(relinked("[a](../CHANGELOG.md) [b](lab.md#x) [c](../examples/x.cpp)", 0),
              "[a](CHANGELOG.md) [b](lab.md#x) c (`examples/x.cpp`)"),
             (relinked("[a](../../CONTRIBUTING.md) [b](../lab.md)", 1), "[a](../CONTRIBUTING.md) [b](../lab.md)"),
             (relinked("    f[a](../x)\n\n[b](../x.y)", 0), "    f[a](../x)\n\nb (`x.y`)"),
             (as_markdown(["Mean_k of `a_b`.", "", "  w = sum", "", "  v = w", "", "Ends."]),
              "Mean\\_k of `a_b`.\n\n```text\n  w = sum\n\n  v = w\n```\n\nEnds.")]
    front, pages = method_pages("# M\n\nAll.\n\n## Fed + X\n\nSee [f](policies/f.md).\n\n    ## no heading\n\n## Write one\n\nSo.\n")
    cases += [(pages, {"fed--x": "# Fed + X\n\nSee [f](../policies/f.md).\n\n    ## no heading\n\n"}),
              (front.count("## "), 2), ("[Fed + X](methods/fed--x.md)" in front and front.endswith("So.\n"), True),
              (to_method_pages("[a](../methods.md#fed--x) [b](../methods.md#write-one)", pages),
               "[a](../methods/fed--x.md) [b](../methods.md#write-one)")]
    for found, expected in cases:
        if found != expected:
            sys.exit(f"self-test: expected\n{expected}\nfound\n{found}")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {"docs/index.md": "# Home\n", "docs/lost.md": "# Lost\n", "CHANGELOG.md": "", "CONTRIBUTING.md": "",
                           "include/tessera/fold/mean.hpp": "// S\n// The mean.\n#pragma once\n"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        prepare(root, root / "out")
        index, page = (root / "out/index.md").read_text(), (root / "out/reference/fold.md").read_text()
        if "\nlost\n" not in index or "The mean." not in page or "reference/fold" not in index:
            sys.exit("self-test: a page is missing")
        (root / "docs/again.md").write_text("# Lost\n")
        try:
            prepare(root, root / "out")
        except SystemExit as told:
            if str(told) != "two pages are called 'Lost': again.md, lost.md":
                sys.exit(f"self-test: {told}")
        else:
            sys.exit("self-test: two pages of one name pass")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent.parent)
    parser.add_argument("--target", type=pathlib.Path)
    arguments = parser.parse_args()
    self_test()
    if arguments.target:
        prepare(arguments.root, arguments.target)
