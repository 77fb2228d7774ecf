#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every optional name, misspelt by one letter, does not compile, and the compiler says so in one sentence.

For each entry of tessera::offer (core/offers.hpp; one that is not in the table below is a failure) a policy is made that
has it and lists it, which must compile, and then
  one whose member is misspelt and listed, and one whose member is there and not listed (entries that are members);
  one that has the statement as a member, as if that counted (entries that are statements, where that was once the way);
  one whose list has the misspelt name.
Each must give an error that names it, in at most 15 lines. All policies of a kind are one source, so that the headers are
read once; what the compiler says of each is told apart by the names of the policies."""
import argparse
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "house"))
import compiler  # noqa: E402

MOST_LINES = 15
MODEL = """
struct Base {
    using Real = float;
    tessera::Layout layout() const;
    std::size_t outputs() const;
    double gradient(tessera::In<float>, const tessera::Batch<float>&, tessera::Out<float>) const;
    void predict(tessera::In<float>, const tessera::Batch<float>&, tessera::Out<float>) const;
};
"""
B = "const tessera::Batch<float>&"
IN, OUT = "tessera::In<float>", "tessera::Out<float>"
FEATURES = f"std::size_t feature_width() const; void features({IN}, {B}, {OUT}) const;"

# kind: (header, what is asked of a policy, what it derives from, {name: (what is misspelt, its declaration)}); a
# declaration of None is a statement, "old:..." one that used to be a member.
KINDS = {
    "policy": ("contracts/policy.hpp", "policy_is_spelt", "", {
        "validate": "void validate() const;",
        "reads_rounds": "bool reads_rounds() const;",
    }),
    "method": ("contracts/method.hpp", "method_is_spelt", "", {
        "admits": "bool admits(int, int, int) const;",
        "takes": "bool takes(int, int, int) const;",
        "keeps": "bool keeps(int, int, int) const;",
        "holds": "bool holds(int, int) const;",
        "global": "int global(int, int) const;",
        "global_at": "int global_at(int, int, int) const;",
        "no_global": None,
        "serves_global": None,
        "serves_as_is": None,
        "trains_to_serve": "bool trains_to_serve() const;",
        "needs_memory": "std::string_view needs_memory() const;",
        "over_budget": "int over_budget(int, int) const;",
        "keep_spent": "void keep_spent(int, int) const;",
        "decode": "bool decode(int, int) const;",
        "Released": "using Released = int;",
        "Kept": "using Kept = int;",
    }),
    "fold": ("contracts/fold.hpp", "fold_is_spelt", "", {
        "streams": ("lift", "void lift(int, int, int) const;"),
        "masked": "old:static constexpr bool masked = true;",
        "whole_rows": None,
        "hides_clients": "old:static constexpr bool hides_clients = true;",
        "lift_width": "static constexpr std::size_t lift_width = 2;",
        "check": "void check(int, int) const;",
        "cohort_key": "int cohort_key(int) const;",
        "keeps": "bool keeps(int, int) const;",
    }),
    "rule": ("contracts/rule.hpp", "rule_is_spelt", "", {
        "adds_noise": ("Sampling", "using Sampling = int;"),
        "check": "void check(int, int) const;",
        "plain": "int plain(int, int) const;",
    }),
    "source": ("contracts/policy.hpp", "policy_is_spelt", "", {"draws_noise": None}),
    "prior": ("contracts/prior.hpp", "prior_is_spelt", "", {
        "draws": "std::size_t draws() const;",
        "pull_back": "void pull_back(int) const;",
        "starts_at_mean": "old:static constexpr bool starts_at_mean = true;",
        "forgets": None,
        "natural": "old:static constexpr bool natural = true;",
    }),
    "divergence": ("contracts/divergence.hpp", "divergence_is_spelt", "", {
        "euclidean": "old:static constexpr bool euclidean = true;",
    }),
    "gate": ("contracts/gate.hpp", "gate_is_spelt", "", {
        "saved": "std::size_t saved(int) const;",
        "forward_flops": "double forward_flops(int) const;",
    }),
    "sampler": ("contracts/plan.hpp", "sampler_is_spelt", "", {
        "each_by_itself": "double each_by_itself() const;",
    }),
    "executor": ("contracts/executor.hpp", "executor_is_spelt", "", {"remarks": "int remarks() const;"}),
    "scope": ("core/scope.hpp", "scope_is_spelt", "", {
        "may_be_empty": "old:static constexpr bool may_be_empty = true;",
        "has": "bool has(int, int) const;",
        "check": "void check(int) const;",
    }),
    "model": ("contracts/capabilities.hpp", "model_is_spelt", MODEL, {
        "fused": ("fuses", f"bool fuses(const tessera::Step<float>&) const; double fused_step({OUT}, {B}, const "
                           "tessera::Step<float>&) const;"),
        "initialize": f"void initialize({OUT}, tessera::Key) const;",
        "forward_flops": "double forward_flops() const;",
        "input_width": "std::size_t input_width() const;",
        "logits": f"void logits({IN}, {B}, {OUT}) const; void pullback({IN}, {B}, {IN}, {OUT}) const;",
        "features": FEATURES,
        "aligned": ("aligns", FEATURES + f"bool aligns() const; double aligned_gradient({IN}, {B}, "
                                         f"tessera::FeatureTerm<float>, {OUT}) const;", "features"),
        "clipped": ("clipped_sum", f"bool clips(const tessera::Clip<float>&) const; double clipped_sum({IN}, {B}, const "
                                   f"tessera::Clip<float>&, {OUT}) const;"),
        "sparse": f"""struct Form : Base {{
    bool fuses(const tessera::Step<float>&) const; double fused_step({OUT}, {B}, const tessera::Step<float>&) const;
    double forward_flops() const;
    double full_gradient({IN}, {B}, {OUT}) const; tessera::Vec<float> whole({IN}) const;
}};
Form sparse(const tessera::Mask&, std::size_t, tessera::Arithmetic) const;""",
        "routed": ("routes", f"""tessera::Routes routes(tessera::MixAt) const;
    double routed_gradient({IN}, {IN}, tessera::Routing<float>&, {B}, {OUT}, {OUT}) const;
    void routed_predict({IN}, {IN}, tessera::Routing<float>&, {B}, {OUT}) const;
    void hard_predict({IN}, {IN}, tessera::Routing<float>&, {B}, {OUT}) const;"""),
        "judge": f"std::size_t positions() const; void judge({B}, {IN}, tessera::Judgement&) const; "
                 "void accepts(const tessera::Examples&, bool) const;",
        "apart": "bool apart() const;",
        "blueprint": "struct Layers { int graph; }; Layers blueprint() const;",
    }),
    "layer": ("nn/layer.hpp", "layer_is_spelt", "", {
        "backward_update": "void backward_update(int, int, int) const;",
        "factors": "int factors(int, int, int) const;",
        "blocks": ("blocks_forward", "void blocks_forward(int) const; void blocks_backward(int) const;"),
        "mixes": ("mix_forward", "void mix_forward(int, int, int, int, int) const; void mix_backward(int, int, int, "
                                 "int, int) const;"),
    }),
    "predictor": ("runtime/export.hpp", "predictor_is_spelt", "", {
        "parameters": "int parameters;",
        "whole": "int whole() const;",
        "segments": ("segments", "int segments() const; int parameters() const;"),
        "either": ("takes_second", "bool takes_second;"),
    }),
}


def misspelt(name):
    """The same without its third letter."""
    return name[:2] + name[3:]


def entries(kind):
    """(name, member, declaration, statement, what else it lists) for each entry of a kind."""
    for name, text in KINDS[kind][3].items():
        member, also = name, ""
        if isinstance(text, tuple):
            member, text, *more = text
            also = "".join(f" | tessera::offer::{each}" for each in more)
        statement = text is None or text.startswith("old:")
        yield name, member, (text or "").removeprefix("old:"), statement, also


def policy(struct, kind, offers, body):
    base = " : Base" if KINDS[kind][2] else ""
    return f"struct {struct}{base} {{ static constexpr tessera::Offers offers = {offers}; {body} }};\n"


def sources(kind):
    """{file: text} and {file: {struct: what its error must contain}}; none for what must compile."""
    header, ask, prelude, _ = KINDS[kind]
    head = f"#include <tessera/{header}>\n{prelude}"
    asked = lambda struct: f"static_assert(tessera::detail::{ask}<{struct}>());\n"  # noqa: E731
    good, members, lists = head, head, head
    of_members, of_lists = {}, {}
    for name, member, text, statement, also in entries(kind):
        listed = f"tessera::offer::{name}{also}"
        good += policy(f"Good_{name}", kind, listed, "" if statement else text) + asked(f"Good_{name}")
        wrong = misspelt(name)
        lists += policy(f"List_{name}", kind, f"tessera::offer::{wrong}", "")
        of_lists[f"List_{name}"] = wrong
        if not statement:
            spoilt = re.sub(rf"\b{member}\b", misspelt(member), text)
            assert spoilt != text, (kind, name)
            members += policy(f"Member_{name}", kind, listed, spoilt) + asked(f"Member_{name}")
            of_members[f"Member_{name}"] = f"`{name}`"
            rest = also.removeprefix(" | ") or "{}"
            members += policy(f"Unlisted_{name}", kind, rest, text) + asked(f"Unlisted_{name}")
            of_members[f"Unlisted_{name}"] = f"`{name}`"
        elif text:
            members += policy(f"Old_{name}", kind, "{}", text) + asked(f"Old_{name}")
            of_members[f"Old_{name}"] = f"`{name}`"
    return {"good": (good, None), "members": (members, of_members), "lists": (lists, of_lists)}


def stories(output, structs):
    """What the compiler says, cut where it comes to another of the structs; {struct: lines}."""
    told, current = {}, None
    pending = []
    for line in output.splitlines():
        if not line.strip():
            continue
        named = re.search(r"\b((?:List|Member|Unlisted|Old)_\w+)", line)
        if named and named[1] in structs:
            if named[1] != current:
                current = named[1]
                told.setdefault(current, []).extend(pending)
            pending = []
            told[current].append(line)
        elif re.match(r"In file included|\s+from ", line):
            pending.append(line)
        elif current:
            told[current].append(line)
    return told


def check(kind, arguments, folder):
    complaints = []
    which, _ = compiler.version(arguments.compiler)
    flags = compiler.flags(arguments) + ["-fsyntax-only"]
    if which == "gcc":
        flags += ["-fno-diagnostics-show-caret", "-fdiagnostics-color=never", "-fmax-errors=0"]
    else:
        flags += ["-fno-caret-diagnostics", "-fno-color-diagnostics", "-ferror-limit=0"]
    for file, (text, structs) in sources(kind).items():
        source = folder / f"{kind}_{file}.cpp"
        source.write_text(text)
        if structs == {}:
            continue
        code, output = compiler.run([arguments.compiler, *flags, str(source)])
        if structs is None:
            if code:
                complaints.append(f"{kind}: what is right does not compile:\n{output[:3000]}")
            continue
        if file == "lists":  # the misspelt name and the struct are on one line of the source, not of the message
            names = {i + 1: re.search(r"struct (List_\w+)", line) for i, line in enumerate(text.splitlines())}
            output = re.sub(rf"({re.escape(str(source))}:(\d+):)",
                            lambda m: f"{m[1]} {names[int(m[2])][1] if names.get(int(m[2])) else ''} ", output)
        told = stories(output, structs)
        for struct, words in structs.items():
            lines = told.get(struct, [])
            errors = [line for line in lines if "error:" in line]
            if not errors:
                complaints.append(f"{kind}: {struct} compiles")
            elif not any(words in line for line in errors):
                complaints.append(f"{kind}: {struct}: no error says {words}:\n" + "\n".join(errors))
            elif len(lines) > MOST_LINES:
                complaints.append(f"{kind}: {struct}: {len(lines)} lines, at most {MOST_LINES}:\n" + "\n".join(lines))
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    compiler.add_arguments(parser)
    arguments = parser.parse_args()
    header = pathlib.Path(arguments.include[0], "tessera", "core", "offers.hpp").read_text()
    offered = set(re.findall(r"Offers (\w+) = bit\(", header))
    tried = {name for kind in KINDS for name, *_ in entries(kind)}
    problems = [f"core/offers.hpp has `{name}`, which this test does not try" for name in sorted(offered - tried)]
    problems += [f"this test tries `{name}`, which core/offers.hpp does not have" for name in sorted(tried - offered)]
    count = 0
    with tempfile.TemporaryDirectory(prefix="names ") as folder:
        for kind in KINDS:
            problems += check(kind, arguments, pathlib.Path(folder))
            count += sum(len(structs or {}) for _, structs in sources(kind).values())
    print("\n".join(problems) if problems else f"{len(tried)} names, {count} mistakes, each told")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
