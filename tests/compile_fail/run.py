#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A mistake must not compile, and the compiler must say in few words what the mistake is.

Each compile_fail/*.cpp holds one or more lines `// expect: <text>`, and code under `#ifdef TESSERA_GOOD` (right) and
`#else` (wrong). It is read twice:
  with -DTESSERA_GOOD it must compile, so that the mistake is the only thing wrong with the file;
  without it (and with what a line `// flags: <flags>` adds), it must not; the first line with `error:` contains the first text, the other texts are somewhere in the
  output, and the output has at most 15 lines that are not blank.

With --prelude FILE every source begins with what most of them include; `run.py --precompile --prelude FILE` writes that
header and, for GCC, its precompiled form, which saves half of the time.

What is counted is the compiler's default output, minus the quoted source lines (GCC -fno-diagnostics-show-caret, Clang
-fno-caret-diagnostics) and minus what follows the first error (GCC -fmax-errors=1, Clang -ferror-limit=1)."""
import argparse
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "house"))
import compiler  # noqa: E402

MOST_LINES = 15
PRELUDE = ["method/fedavg", "nn/zoo", "runtime/federation", "sample/everyone"]
FLAGS = {
    "gcc": ["-fsyntax-only", "-fmax-errors=1", "-fno-diagnostics-show-caret", "-fdiagnostics-color=never"],
    "clang": ["-fsyntax-only", "-ferror-limit=1", "-fno-caret-diagnostics", "-fno-color-diagnostics"],
}


def check(source, arguments):
    """The complaints about one file."""
    expected = re.findall(r"^//\s*expect:\s*(.+?)\s*$", source.read_text(), re.MULTILINE)
    if not expected:
        return ["no line `// expect: <text>`"]
    kind, _ = compiler.version(arguments.compiler)
    command = [arguments.compiler, *compiler.flags(arguments), *FLAGS[kind], str(source)]
    if arguments.prelude:
        command += ["-include", str(arguments.prelude)]

    if not arguments.only_bad:
        code, output = compiler.run(command + ["-DTESSERA_GOOD"])
        if code:
            return ["the good half does not compile:\n" + output]
    flags = re.search(r"^//\s*flags:\s*(.+?)\s*$", source.read_text(), re.MULTILINE)
    code, output = compiler.run(command + (flags[1].split() if flags else []))
    if code == 0:
        return ["the bad half compiles"]

    complaints = []
    lines = [line for line in output.splitlines() if line.strip()]
    first = next((line for line in lines if "error:" in line), "")
    if expected[0] not in first:
        complaints.append(f"the first error does not say '{expected[0]}':\n  {first}")
    for text in expected[1:]:
        if text not in output:
            complaints.append(f"nothing says '{text}'")
    if len(lines) > MOST_LINES:
        complaints.append(f"{len(lines)} lines, at most {MOST_LINES} are allowed")
    if complaints:
        complaints.append("the compiler said:\n" + "\n".join("  " + line for line in lines[:60]))
    return complaints


def precompile(arguments):
    arguments.prelude.parent.mkdir(parents=True, exist_ok=True)
    arguments.prelude.write_text("".join(f"#include <tessera/{header}.hpp>\n" for header in PRELUDE))
    code, output = compiler.run([arguments.compiler, *compiler.flags(arguments), "-x", "c++-header",
                                 str(arguments.prelude), "-o", f"{arguments.prelude}.gch"])
    print(output)
    return code


def self_test(arguments):
    assertion = "#ifdef TESSERA_GOOD\nstatic_assert(true);\n#else\nstatic_assert(false, \"a fold needs merge\");\n#endif\n"
    chatter = "#ifndef TESSERA_GOOD\n" + "#warning chatter\n" * 20 + "#endif\n"
    cases = [
        ("right", "// expect: a fold needs merge\n" + assertion, ""),
        ("two texts", "// expect: a fold needs\n// expect: merge\n" + assertion, ""),
        ("flags", "// expect: here\n// flags: -DHERE\n#ifdef HERE\n#error here\n#endif\n", ""),
        ("no expectation", assertion, "no line"),
        ("another text", "// expect: a rule needs step\n" + assertion, "does not say"),
        ("second text absent", "// expect: a fold needs\n// expect: zebra\n" + assertion, "nothing says 'zebra'"),
        ("nothing wrong", "// expect: a fold\nint x;\n", "the bad half compiles"),
        ("all wrong", "// expect: a fold\nint x = y;\n", "the good half does not compile"),
        ("long story", "// expect: a fold\n" + chatter + assertion, "lines, at most"),
    ]
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="compile fail ") as folder:
        for name, text, expected in cases:
            source = pathlib.Path(folder, name.replace(" ", "_") + ".cpp")
            source.write_text(text)
            complaints = "\n".join(check(source, arguments))
            if (expected not in complaints) or (not expected and complaints):
                print(f"self-test: {name}: expected '{expected}', got: {complaints}")
                wrong += 1
    print(f"self-test: {len(cases) - wrong} of {len(cases)} as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    compiler.add_arguments(parser)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--only-bad", action="store_true", help="another compiler has seen the good half")
    parser.add_argument("--prelude", type=pathlib.Path, help="a header that is read first")
    parser.add_argument("--precompile", action="store_true", help="write the prelude")
    parser.add_argument("sources", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.self_test:
        sys.exit(self_test(arguments))
    if arguments.precompile:
        sys.exit(precompile(arguments))
    failed = False
    for source in arguments.sources:
        problems = check(source, arguments)
        failed |= bool(problems)
        print(f"{source.name}: " + ("\n".join(problems) if problems else "as expected"))
    sys.exit(1 if failed or not arguments.sources else 0)
