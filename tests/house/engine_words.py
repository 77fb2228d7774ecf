#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The engine knows the contract's words and no method's.

A round, its two ends and what they agree on (runtime/setup, client, server, federation, store, cohort, judge)
ask a method, a state or a message only for what contracts/method.hpp and core/offers.hpp name. A `requires` that looks for
any other member would make somebody's field mean something by the accident of its name."""
import argparse
import pathlib
import re
import sys

ENGINE = ["runtime/setup.hpp", "runtime/client.hpp", "runtime/server.hpp", "runtime/federation.hpp", "runtime/store.hpp",
          "runtime/cohort.hpp", "runtime/judge.hpp", "contracts/policy.hpp"]
# Of a server's state: w, fold. Of an upload: x, weight, mask. Of a method around another: inner. Members of the standard
# library, and the one function that a method with private members owes.
CONTRACT = {"w", "fold", "x", "weight", "mask", "inner", "size", "validate"}
MEMBER = re.compile(r"(?:\.|->|::)\s*(?:template\s+)?([a-z_]\w*)\b(?!\s*::)")


def requirements(text):
    """The bodies of requires-expressions."""
    for begin in re.finditer(r"\brequires\s*(?:\([^)]*\)\s*)?\{", text):
        depth, at = 1, begin.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        yield text[begin.end():at - 1], text.count("\n", 0, begin.start()) + 1


def complaints(name, text):
    offered = CONTRACT | OFFERED
    for body, line in requirements(re.sub(r"//[^\n]*", "", text)):
        for member in MEMBER.findall(body):
            if member != "template" and member not in offered and not body[:body.index(member)].rstrip().endswith("std::"):
                yield f"{name}:{line}: the engine looks for a member `{member}`, which is no word of the contract"


def main():
    global OFFERED
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        OFFERED = {"admits"}
        cases = [("if constexpr (requires { state.ledger; }) {}", 1), ("requires { server.w.size(); }", 0),
                 ("requires(const U& u) { u.from; }", 1), ("requires { me.admits(1); }", 0),
                 ("// requires { state.price; }", 0), ("requires { requires std::is_same_v<A, B>; }", 0)]
        wrong = [text for text, count in cases if len(list(complaints("file", text))) != count]
        print("\n".join(wrong) if wrong else f"self-test: {len(cases)} as expected")
        return 1 if wrong else 0
    include = arguments.root / "include" / "tessera"
    OFFERED = set(re.findall(r"Offers (\w+) = bit\(", (include / "core" / "offers.hpp").read_text()))
    found = [each for name in ENGINE for each in complaints(name, (include / name).read_text())]
    print("\n".join(found) if found else "the engine knows the contract's words alone")
    return 1 if found else 0


OFFERED = set()
if __name__ == "__main__":
    sys.exit(main())
