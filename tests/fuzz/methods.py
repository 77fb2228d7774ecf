#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a header with every method of the library as a list of types, so that a new one is tried by itself.

  methods.py INCLUDE_DIR OUTPUT

A template whose parameters all have defaults is taken as Name<>. Any other must be named below with its arguments; a
method that is neither ends the build."""
import pathlib
import re
import sys

NOISY = "rule::DpSgd<support::KeyedNoise>"
ARGUMENTS = {
    "Coded": ["Coded<FedAvg<>, codec::Quantised<4>, codec::Quantised<8>>", "Coded<Ditto<>, codec::TopK<codec::Quantised<8>>>",
              "Coded<FedSpa<>, codec::TopK<>>", "Coded<FedEm<>, codec::RandomK<>>", "Coded<Scaffold<>, codec::Sign>",
              f"Coded<Private<FedAvg<{NOISY}>>>"],
    "Fallback": ["Fallback<Ditto<>>", "Fallback<FedAlt<>>"],
    "Masked": ["Masked<Ditto<>>", "Masked<FedAlt<>, mask::DynamicSparse, scope::Head>",
               "Masked<PFedMe<>, mask::RandomStatic>", "Coded<Masked<FedAlt<>>>"],
    "Partial": [],  # FedAlt, FedSim and others are it
    "Private": [f"Private<FedAvg<{NOISY}>>", f"Private<Ditto<{NOISY}>>", f"KnnPer<Private<FedAvg<{NOISY}>>>"],
}
MORE = [
    "FedAvg<rule::Sgd, fold::ServerMomentum<fold::Relax<>>>",
    "FedAvg<rule::Sgd, fold::ServerAdam<fold::PrivateMean<support::KeyedNoise>>>",
    "FedSpa<mask::RandomStatic, rule::Sgd, fold::OwnersMean>",
    "KnnPer<FedSim<>>",
    "KnnPer<Mtl<>>",
    "HypCluster<rule::Sgd, fold::ServerMomentum<>>",
    "Fallback<FedPer<>>",
    "FedBreD<prior::MetaHybrid>",
    "FedBreD<prior::Memorized, divergence::Gaussian, fold::ServerYogi<>>",
]
DECLARED = re.compile(r"template <((?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*)>\s*(?:struct (\w+) \{|using (\w+) =)")


def methods(header):
    """The types to try of one header of method/."""
    text = header.read_text()
    found = []
    for parameters, struct, alias in DECLARED.findall(text):
        name = struct or alias
        if not re.match(r"[A-Z]", name) or name in ("Server", "Client", "Upload", "Down", "Change"):
            continue
        if struct and "by_default" not in text[text.index("struct " + name):]:
            continue
        if name in ARGUMENTS:
            found += ARGUMENTS[name]
        elif all("=" in p for p in re.split(r",(?![^<]*>)", parameters)):
            found.append(name + "<>")
        else:
            sys.exit(f"{header}: say in tests/fuzz/methods.py with which arguments {name} is to be tried")
    return found


def main():
    include, output = map(pathlib.Path, sys.argv[1:])
    headers = sorted((include / "tessera" / "method").glob("*.hpp"))
    found = [each for header in headers for each in methods(header)] + MORE
    lines = ["// Written by tests/fuzz/methods.py.", "#pragma once", "", "#include <tessera/codec.hpp>",
             "#include <tessera/fold.hpp>",
             "#include <tessera/mask.hpp>", "#include <tessera/method.hpp>", "#include <tessera/prior.hpp>",
             "#include <tessera/rule.hpp>", "", "#include <support/keyed_noise.hpp>", "",
             "namespace tessera::support {", "", "using EveryMethod = detail::Types<"]
    lines.append(",\n".join("    " + each for each in found) + ">;")
    lines += ["", "}  // namespace tessera::support", ""]
    text = "\n".join(lines)
    if not output.exists() or output.read_text() != text:
        output.write_text(text)


if __name__ == "__main__":
    main()
