#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The matrix of compositions: every method, found in the headers, with every choice of every column.

  matrix.py all OUT [--row METHOD]... [--compiler g++] [--linked linked.o] [--jobs 1]
        compiles and runs every cell of the rows; a cell holds (cell.hpp says what that is) or is refused with one
        sentence, which is compared with refused.txt; writes docs/matrix.md of all rows that OUT knows
  matrix.py pairs OUT [...]      the same of compositions of many choices, in which every pair of choices that can meet does
  matrix.py cover OUT            writes the sources of a set in which every method and every choice occurs, for scripts/test
  matrix.py page OUT             writes docs/matrix.md again, of what OUT knows
  matrix.py accept OUT           takes the refusals of all rows that OUT knows into refused.txt, for a review
  matrix.py --self-test

OUT keeps what was found, row by row; a row is tried again only with --again, or by name. Pairs go on where they were left;
--again tries those that did not hold. The page keeps what it says of rows that OUT does not know."""
import argparse
import collections
import concurrent.futures
import functools
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "matrix.md"
REFUSED = HERE / "refused.txt"

NOISY = "rule::DpSgd<support::KeyedNoise>"
# Column -> choice -> what it is: a type for the method's hole, or the settings of the cell.
RULES = {
    "plain": ("rule::Sgd", ""), "momentum": ("rule::Sgd", "momentum=0.9"), "Adam": ("rule::Adam", ""),
    "AdamW": ("rule::AdamW", ""), "SAM": ("rule::Sam<>", ""), "DP-SGD": (NOISY, ""), "a user's": ("SignDescent", ""),
}
FOLDS = {
    "mean": "fold::Mean", "relaxed": "fold::Relax<>", "momentum": "fold::ServerMomentum<>", "Adam": "fold::ServerAdam<>",
    "owners": "fold::OwnersMean", "groups": "fold::Grouped<scope::Head, fold::ServerMomentum<>>",
    "distilled": "fold::Distill<>", "private": "fold::PrivateMean<support::KeyedNoise>", "a user's": "TrimmedMean",
}
MASKS = {"static": "mask::RandomStatic", "searched": "mask::DynamicSparse", "of the head": "mask::RandomStatic, scope::Head"}
GATES = {"fixed": "gate::Fixed", "chain": "gate::Chain<4>", "any chain": "gate::AnyChain", "features": "gate::Features", "a user's": "PerBlock"}
PRIORS = {"identity": "prior::Identity", "lg": "prior::LossGradient", "meg": "prior::Memorized", "mh": "prior::Hybrid",
          "mh ahead": "prior::MetaHybrid", "a user's": "HalfWay"}
CODECS = {"8 bits": "codec::Quantised<8>", "4 bits": "codec::Quantised<4>", "sign": "codec::Sign", "top-k": "codec::TopK<>",
          "random-k": "codec::RandomK<>", "8 bits both ways": "codec::Quantised<8>, codec::Quantised<8>"}
DPS = {"examples": NOISY}
MODELS = {
    "DNN": ("Net", "dnn"), "MCLR": ("Net", "mclr"), "convolutions": ("Net", "conv"), "group norm": ("Net", "group_norm"),
    "batch norm": ("Net", "batch_norm"), "LSTM": ("Net", "lstm"), "attention": ("Net", "transformer"),
    "adapters": ("TunedNet", "adapters"), "known when compiling": ("KnownNet", "dnn"), "a user's": ("UsersNet", "dnn"),
}
COLUMNS = {"rule": RULES, "fold": FOLDS, "mask": MASKS, "gate": GATES, "prior": PRIORS, "codec": CODECS, "DP": DPS,
           "model": MODELS}
EVERYTHING = [(column, choice) for column, choices in COLUMNS.items() for choice in choices]
USUAL = {"rule": "plain", "model": "DNN"}  # what a cell has where nothing else is asked

# The hole that a template parameter is, by its name; `Inner` is FedDF's fold.
HOLES = {"Local": "rule", "Rule": "rule", "Fold": "fold", "Gate": "gate", "Prior": "prior"}
# Methods around others, with what they are tried around, innermost first: what choices add stands inside.
AROUND = {"Coded": ("FedAvg", None), "Masked": ("FedAvg", None), "Private": ("FedAvg", None),
          "Fallback": ("Ditto", "Fallback<{}>"), "KnnPer": ("FedAvg", "KnnPer<{}>")}
SKIPPED = {"Partial"}  # FedAlt, FedSim, FedBN, FedPer, FedRep and LG-FedAvg are it
# Where a row's own wrapper is a choice of a column.
OWN = {"Coded": ("codec", "8 bits"), "Masked": ("mask", "searched"), "Private": ("DP", "examples")}
NO_HOLE = {
    "rule": "no local rule: {} takes no steps",
    "fold": "no fold: {} sums no models at its server",
    "gate": "no gate: {} trains one model a client and routes nothing",
    "prior": "no prior: {} takes no proximal map whose centre one could be",
}
DECLARED = re.compile(r"template <((?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*)>\s*(?:struct (\w+) \{|using (\w+) =)")


def methods():
    """name -> [(parameter, default)], of every method of the library."""
    found = {}
    for header in sorted((ROOT / "include" / "tessera" / "method").glob("*.hpp")):
        text = header.read_text()
        for parameters, struct, alias in DECLARED.findall(text):
            name = struct or alias
            if not name[0].isupper() or name in ("Server", "Client", "Upload", "Down", "Change", "FirstOf") or name in SKIPPED:
                continue
            if struct and "by_default" not in text[text.index("struct " + name):]:
                continue
            pieces = re.findall(r"class (\w+)(?: = ((?:[^<>,]|<(?:[^<>]|<[^<>]*>)*>)+))?", " ".join(parameters.split()))
            found[name] = [(parameter, default.strip()) for parameter, default in pieces]
    return found


METHODS = methods()


def holes(name):
    """Column -> parameter of a method's template."""
    inner = AROUND.get(name, (name,))[0]
    named = {HOLES[p]: p for p, _ in METHODS[inner] if p in HOLES}
    if name == "FedDf":
        named["fold"] = "Inner"
    return named


def spelt(name, choices):
    """The type of a method with some choices: {column: choice}."""
    core, wrapper = AROUND.get(name, (name, "{}"))
    wrapper = wrapper or "{}"
    asked = dict(USUAL, **choices)
    if name in OWN:
        asked.setdefault(*OWN[name])
    if "DP" in asked and "rule" not in choices:
        asked["rule"] = "DP-SGD"
    values, named = [], holes(name)
    column_of = {parameter: column for column, parameter in named.items()}
    given = {}
    last = -1
    for i, (parameter, default) in enumerate(METHODS[core]):
        column = column_of.get(parameter)
        if column and column in asked and (column != "rule" or asked["rule"] not in ("plain", "momentum")):
            value = RULES[asked["rule"]][0] if column == "rule" else COLUMNS[column][asked[column]]
            last = i
        else:
            value = re.sub(r"\b(Local|Rule)\b", lambda m: given.get(m[0], m[0]), default)
        given[parameter] = value
        values.append(value)
    text = f"{core}<{', '.join(values[:last + 1])}>"
    if "DP" in asked:
        text = f"Private<{text}>"
    if "mask" in asked:
        text = f"Masked<{text}, {MASKS[asked['mask']]}>"
    if "codec" in asked:
        text = f"Coded<{text}, {CODECS[asked['codec']]}>"
    return wrapper.format(text)


def absent(name, choices):
    """Why a cell cannot even be asked for, or None: the method has no such hole."""
    for column in choices:
        if column in NO_HOLE and column not in holes(name):
            return NO_HOLE[column].format(name)
    return None


def cell(name, choices):
    model, kind = MODELS[dict(USUAL, **choices)["model"]]
    settings = ",".join(filter(None, [RULES[choices["rule"]][1] if "rule" in choices else "",
                                      "?lambda=1" if "prior" in choices else ""]))  # Flow's prior is off by default
    return {"row": name, "choices": choices, "type": spelt(name, choices), "model": model, "kind": kind, "settings": settings,
            "absent": absent(name, choices)}


def key(choices):
    return ", ".join(f"{column}: {choice}" for column, choice in choices.items())


def named(c):
    return f"{c['row']}, {key(c['choices'])}"


def row(name):
    return [cell(name, {column: choice}) for column, all_choices in COLUMNS.items() for choice in all_choices]


# Sources --------------------------------------------------------------------------------------------------------------

def source(cells, main=True):
    """One line a cell, so that a compiler's line is a cell's."""
    lines = ['#include "cell.hpp"', "", "using namespace matrix;"]
    at = {}
    for i, c in enumerate(cells):
        lines.append(f"std::string v{i}(std::string_view s, Kind k) {{ return verdict<{c['type']}, {c['model']}>(s, k); }}")
        at[len(lines)] = i
    table = ",\n".join(f'    {{"{i}", v{i}, "{c["settings"]}", Kind::{c["kind"]}}}' for i, c in enumerate(cells))
    lines += ["int main() {", f"    return told(std::array<Cell, {len(cells)}>{{{{", table, "    }});", "}", ""]
    return "\n".join(lines), at


ERROR = re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d+):\d+:\s+(?:fatal )?error: (?P<text>.*)")
NEEDED = re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d+):\d+:\s+required from here")


def complaints(output, name, at):
    """cell -> the first error that its line is the cause of, of GCC's output."""
    found, line = {}, None
    for text in output.splitlines():
        needed, error = NEEDED.match(text), ERROR.match(text)
        if needed and pathlib.Path(needed["file"]).name == name:
            line = int(needed["line"])
        elif error:
            here = int(error["line"]) if pathlib.Path(error["file"]).name == name else line
            if here in at:
                found.setdefault(at[here], error["text"])
    return found


SENTENCE = re.compile(r"static assertion failed: (tessera::.*|.*)")


def tried(cells, arguments, out, stem):
    """The verdict on each cell: compiled together, and again without those that do not compile."""
    verdicts = [None] * len(cells)
    for i, c in enumerate(cells):
        if c["absent"]:
            verdicts[i] = "absent: " + c["absent"]
    for attempt in range(9):
        left = [i for i, v in enumerate(verdicts) if v is None]
        if not left:
            return verdicts
        text, at = source([cells[i] for i in left])
        file = out / f"{stem}.cpp"
        file.write_text(text)
        program = out / stem
        command = [*arguments.compiler.split(), *arguments.flags.split(), "-std=c++20", "-O0", "-w", "-fmax-errors=0",
                   "-fno-diagnostics-show-caret", "-fdiagnostics-color=never", "-DTESSERA_LINKED_KERNELS",
                   f"-I{out}", f"-I{HERE}", f"-I{ROOT / 'tests'}", f"-I{ROOT / 'include'}", "-isystem",
                   "/usr/include/eigen3"]
        done = subprocess.run(command + ["-c", str(file), "-o", str(file) + ".o"], capture_output=True, text=True)
        if done.returncode == 0:
            subprocess.run([*arguments.compiler.split(), str(file) + ".o", arguments.linked, "-o", str(program), "-lpthread"],
                           check=True)
            ran = subprocess.run([str(program)], capture_output=True, text=True)
            for line in ran.stdout.splitlines():
                number, said = line.split("\t", 1)
                verdicts[left[int(number)]] = said
            for i in left:
                verdicts[i] = verdicts[i] or f"broken: ended without an answer ({ran.returncode}) {ran.stderr[-200:]}"
            (out / (stem + ".cpp.o")).unlink()
            program.unlink()
            return verdicts
        wrong = complaints(done.stderr, file.name, at)
        if not wrong:
            (out / f"{stem}.err").write_text(done.stderr)
            raise SystemExit(f"{stem}: errors that belong to no cell, see {out / stem}.err")
        # A compiler says a sentence once, so a cell that fails with other words beside one that was told is asked again.
        told = {i: SENTENCE.search(said)[1] for i, said in wrong.items() if "assertion failed: tessera::" in said}
        for i, said in wrong.items():
            if i in told:
                verdicts[left[i]] = "refused: " + told[i]
            elif not told:
                verdicts[left[i]] = "broken: " + said
    return [v or "broken: not reached" for v in verdicts]


def precompiled(arguments, out):
    """cell.hpp once for all rows: half of what a small row costs."""
    header = out / "cell.hpp"
    header.write_text((HERE / "cell.hpp").read_text())
    command = [*arguments.compiler.split(), *arguments.flags.split(), "-std=c++20", "-O0", "-w", "-DTESSERA_LINKED_KERNELS",
               f"-I{ROOT / 'tests'}", f"-I{ROOT / 'include'}", "-isystem", "/usr/include/eigen3", "-x", "c++-header",
               str(header), "-o", str(header) + ".gch"]
    subprocess.run(command, check=True)


# What is known of refusals ---------------------------------------------------------------------------------------------

def known():
    """(row, key) -> sentence."""
    all_known = {}
    for line in REFUSED.read_text().splitlines() if REFUSED.exists() else []:
        if line and not line.startswith("#"):
            name, what, sentence = line.split("\t")
            all_known[name, what] = sentence
    return all_known


@functools.cache
def seen_rows():
    """Rows that refused.txt speaks of; of others nothing is known."""
    line = next((x for x in REFUSED.read_text().splitlines() if x.startswith("# rows: ")), "") if REFUSED.exists() else ""
    return set(line.removeprefix("# rows: ").split())


def unpinned(sentences, pinned):
    """Sentences of a compiler's refusals that no file of compile_fail/ holds to be one short sentence with both compilers. (A
    method says `tessera::` at the beginning when it is compiled; what is said before round one is an exception's text.)"""
    return sorted({s for s in sentences if s.startswith("tessera::") and not any(s.startswith(text) for text in pinned)})


def accepted(results, before, seen_before):
    """refused.txt after a run: what it says of other rows stays."""
    refused = {(name, what): sentence for (name, what), sentence in before.items() if name not in results}
    refused |= {(name, what): v.split(": ", 1)[1] for name, r in results.items() for what, v in r.items() if v.startswith("refused")}
    order = {name: [key(c["choices"]) for c in row(name)] for name in METHODS}
    lines = ["# What is refused, and with which sentence: method, choice, sentence. Each has a true reason, or would be a fault.",
             "# rows: " + " ".join(sorted(seen_before | set(results)))]
    lines += [f"{name}\t{what}\t{refused[name, what]}" for name, what in sorted(refused, key=lambda c: (c[0], order[c[0]].index(c[1])))]
    return "\n".join(lines) + "\n"


def possible(name, choices, refused):
    """Whether each of the choices by itself is no refusal of the method's."""
    if choices and name not in seen_rows():
        return False
    return not absent(name, choices) and all((name, key({c: v})) not in refused for c, v in choices.items())


# Pairs that no method can have, with the reason. A rule here is a fact about two policies, whatever the method.
def clash(choices):
    c = choices
    if "DP" in c and c.get("rule", "DP-SGD") != "DP-SGD":
        return "tessera::Private: all that is released must be trained with noise"
    if "DP" in c and c.get("mask") == "searched":
        return "tessera::Masked: a mask that data chose leaves the client without noise"
    if c.get("rule") == "DP-SGD" and c.get("mask") == "searched":
        return "tessera::Masked: a mask that data chose leaves the client without noise"
    if ("DP" in c or c.get("rule") == "DP-SGD" or c.get("fold") == "private") and c.get("model") == "batch norm":
        return "examples of a batch meet in this model"
    if "mask" in c and c.get("fold") in ("distilled", "private", "a user's"):
        return "rows with masks are not what this fold understands"
    if "DP" in c and c.get("fold") == "private":
        return "tessera::Private: noise twice"
    if c.get("fold") == "distilled" and c.get("model") == "a user's":
        return "tessera::Distill: this model has no `logits` and `pullback`"
    if c.get("gate") == "chain" and c.get("model") in ("MCLR", "group norm", "batch norm", "attention", "adapters"):
        return "a router with 1 hidden widths serves 2 blocks, the model has another number"
    return None


def same_types(name, choices):
    """The choices that are made when a program runs, in every way that leaves the types as they are: the model's kind and a
    setting of a rule. A further one costs a compiler nothing."""
    asked = dict(USUAL, **choices)
    models = [x for x, (model, _) in MODELS.items() if model == MODELS[asked["model"]][0]]
    rules = [x for x, (rule, _) in RULES.items() if rule == RULES[asked["rule"]][0]]
    if "DP" in choices or "rule" not in holes(name):
        rules = [choices.get("rule")]
    for model, rule in itertools.product(models, rules):
        yield dict(choices, model=model, **({"rule": rule} if rule else {}))


def grown(name, choices, worth, refused):
    """Greedy: one choice more as long as that is worth something."""
    now = worth(choices)
    while True:
        more = [dict(choices, **{column: choice}) for column, choice in EVERYTHING if column not in choices]
        more = [c for c in more if possible(name, c, refused) and not clash(c)]
        best = max(more, key=worth, default=None)
        if best is None or worth(best) <= now:
            return choices
        choices, now = best, worth(best)


def with_variants(name, choices, worth, take, refused):
    """A composition and those of the same types that are worth something beside it; `take` is told of each."""
    found = [(name, choices)]
    take(choices)
    while True:
        others = [c for c in same_types(name, choices) if possible(name, c, refused) and not clash(c)]
        best = max(others, key=worth, default=None)
        if best is None or worth(best) == 0:
            return found
        take(best)
        found.append((name, best))


def covering(refused):
    """Every method once, those that can have least first; then, for choices that are left, whoever can have most of them."""
    left, found = set(EVERYTHING), []

    def worth(choices):
        return len(left & set(choices.items()))

    def take(choices):
        left.difference_update(choices.items())

    def able(name):
        return sum(possible(name, {column: choice}, refused) for column, choice in EVERYTHING)
    for name in sorted(METHODS, key=lambda n: (able(n), n)):
        found += with_variants(name, grown(name, {}, worth, refused), worth, take, refused)
    while left:
        name, choices = max(((n, grown(n, {}, worth, refused)) for n in sorted(METHODS)), key=lambda c: worth(c[1]))
        if not worth(choices):
            break
        found += with_variants(name, choices, worth, take, refused)
    return found, left


def pairs_of(choices):
    return set(itertools.combinations(sorted(choices.items(), key=EVERYTHING.index), 2))


def meetable(refused):
    """pair -> the methods that can have both of its choices; those that nobody can are left out."""
    pairs = [p for p in itertools.combinations(EVERYTHING, 2) if p[0][0] != p[1][0] and not clash(dict(p))]
    able = {p: [name for name in sorted(seen_rows()) if possible(name, dict(p), refused)] for p in pairs}
    return {p: names for p, names in able.items() if names}


def all_pairs(refused):
    """Greedy: the pair that fewest methods can have, with the one of these that was used least, then the choices that bring
    most pairs that are left, and what the same types bring beside that."""
    able = meetable(refused)
    left, used, found = set(able), collections.Counter(), []

    def worth(choices):
        return len(pairs_of(choices) & left)

    def take(choices):
        left.difference_update(pairs_of(choices))
    for pair in sorted(reversed(able), key=lambda p: len(able[p])):
        if pair in left:
            name = min(able[pair], key=lambda n: (used[n], n))
            used[name] += 1
            found += with_variants(name, grown(name, dict(pair), worth, refused), worth, take, refused)
    return found


def uncovered(chosen, able):
    """What all_pairs owes: pairs that can meet and meet in none of the compositions, or in one that cannot be."""
    met = set()
    for name, choices in chosen:
        met |= {p for p in pairs_of(choices) if name in able.get(p, ())}
    return set(able) - met


def pair_cells(refused):
    return [cell(name, choices) for name, choices in all_pairs(refused)]


def types_of(cells):
    return list(dict.fromkeys((c["type"], c["model"]) for c in cells))


def jobs_of_pairs(cells, each=8):
    """Cells of a few types each; types of one method stand together, for they share much of what a compiler does."""
    types = sorted(types_of(cells), key=lambda t: min(c["row"] for c in cells if (c["type"], c["model"]) == t))
    return [[c for c in cells if (c["type"], c["model"]) in types[i:i + each]] for i in range(0, len(types), each)]


def told_of_pairs(out):
    """Composition -> verdict, of whatever `pairs` has run."""
    told = {}
    for file in sorted(out.glob("pairs_*.json")):
        told |= json.loads(file.read_text())
    return told


def pairs_found(out, refused):
    """What `pairs` found, of the compositions that are asked for now: (row, choices in words) -> choices, verdict."""
    told = told_of_pairs(out)
    return {(c["row"], key(c["choices"])): (c["choices"], told[named(c)]) for c in pair_cells(refused) if named(c) in told}


def pairs_left(out, cells, again=False):
    """stem -> cells that nobody has run, or that did not hold and are asked for `again`; stems that are not taken."""
    told = told_of_pairs(out)
    left = [c for c in cells if named(c) not in told or (again and told[named(c)] != "holds")]
    taken = len(list(out.glob("pairs_*.json")))
    return {f"pairs_{taken + i:02}": some for i, some in enumerate(jobs_of_pairs(left))}


def section_of_pairs(found, refused):
    """The part of the page on pairs; found: as of pairs_found."""
    able = meetable(refused)
    held = [(name, choices) for (name, _), (choices, v) in found.items() if v == "holds"]
    others = [(name, what, v) for (name, what), (_, v) in found.items() if v != "holds"]
    every = sum(a[0] != b[0] for a, b in itertools.combinations(EVERYTHING, 2))
    clashes = collections.Counter(filter(None, (clash(dict([a, b])) for a, b in itertools.combinations(EVERYTHING, 2) if a[0] != b[0])))
    missing = uncovered(held, able)
    lines = ["## All pairs", "",
             f"Of the {every} pairs of choices of two columns, {sum(clashes.values())} are facts about two policies, whatever the method:", "",
             *(f"- {count}: {reason}" for reason, count in sorted(clashes.items(), key=lambda c: (-c[1], c[0]))), "",
             f"{every - sum(clashes.values()) - len(able)} more have no method above that has both holes. {len(able) - len(missing)} of the other "
             f"{len(able)} meet in {len(held)} compositions",
             f"({len(types_of(cell(n, c) for n, c in held))} types) of {len({name for name, _ in held})} methods that hold as the cells above do (`tests/matrix/matrix.py pairs`), each of at most "
             f"{max((len(c) for _, c in held), default=0)} choices at once.", ""]
    lines += [f"- `{name}`, {what}: {v}" for name, what, v in others] + [""] * bool(others)
    if missing:
        lines += ["Not met yet: " + "; ".join(sorted(key(dict(pair)) for pair in missing)) + ".", ""]
    return lines


def says(text, found, refused):
    """Whether a page's section on pairs is of what was found."""
    return "\n".join(section_of_pairs(found, refused)).strip() in text


# The page --------------------------------------------------------------------------------------------------------------

def page(results, pairs=()):
    """results: row -> key -> verdict; pairs: lines."""
    cells = [v for r in results.values() for v in r.values()]
    holds = sum(v == "holds" for v in cells)
    refused = [v for v in cells if v.startswith("refused")]
    sentences = []
    for r in results.values():
        for v in r.values():
            if v.startswith("refused"):
                said = v.split(": ", 1)[1]
                if said not in sentences:
                    sentences.append(said)
    lines = ["# What meets what", "",
             "Written by `tests/matrix/matrix.py all`, which compiles and runs every cell. Rows are the methods of the library, found",
             "in its headers; a cell is the method with one choice of a column, all else as it is by default, on a tiny task.", "",
             f"Of {len(cells)} cells, of {len(results)} of {len(METHODS)} methods, {holds} hold, {len(refused)} are refused with a sentence, and "
             f"{sum(v.startswith('absent') for v in cells)} have nowhere to put the choice.", "",
             "- `+` holds: two rounds count and are finite; the same bits in memory and over the wire, for any order and number of",
             "  workers, and after a restart; clients, also one that never came, are answered in finite numbers.",
             "- a number in brackets: refused, by the compiler or before round one, with that sentence (below).",
             "- `.` the method has no such hole: no rule takes steps, no fold sums, nothing is routed, nothing has a prior.", "",
             "`scripts/test` compiles and runs a smaller set in which every method and every choice occurs;",
             "`tests/matrix/matrix.py pairs` compositions of many choices in which all pairs meet that can (below).", ""]
    for column, all_choices in COLUMNS.items():
        lines += [f"## {column[0].upper() + column[1:]}", "",
                  "| | " + " | ".join(all_choices) + " |", "|---|" + "---|" * len(all_choices)]
        for name, r in results.items():
            marks = []
            for choice in all_choices:
                v = r.get(key({column: choice})) or ("absent" if absent(name, {column: choice}) else "refused: not tried yet")
                marks.append("+" if v == "holds" else "." if v.startswith("absent") else
                             f"({sentences.index(v.split(': ', 1)[1]) + 1})" if v.startswith("refused") else "**broken**")
            if any(m != "." for m in marks):
                lines.append(f"| `{name}` | " + " | ".join(marks) + " |")
        lines.append("")
    lines += ["## Sentences", ""]
    lines += [f"{i}. {s}" for i, s in enumerate(sentences, 1)] + [""] * bool(pairs)
    lines += pairs
    return "\n".join(lines).rstrip() + "\n"


def rows_told(text):
    """What a page says of rows: row -> choices in words -> verdict."""
    sentences = dict(re.findall(r"^(\d+)\. (.+)$", text, re.MULTILINE))
    columns = {line: column for column, choices in COLUMNS.items() for line in ["| | " + " | ".join(choices) + " |"]}
    told, column = {}, None
    for line in text.splitlines():
        column = columns.get(line, column)
        entry = re.match(r"\| `(\w+)` \| (.*) \|$", line)
        if entry and column and entry[1] in METHODS:
            for choice, mark in zip(COLUMNS[column], entry[2].split(" | ")):
                verdict = "holds" if mark == "+" else f"refused: {sentences[mark[1:-1]]}" if mark[0] == "(" else None
                if verdict:
                    told.setdefault(entry[1], {})[key({column: choice})] = verdict
    return {name: {key(c["choices"]): r.get(key(c["choices"]), "absent: " + (c["absent"] or "")) for c in row(name)}
            for name, r in told.items()}


def run_rows(arguments, jobs):
    """jobs: stem -> cells. Verdicts are kept in OUT, and not asked for again."""
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    waiting = {stem: cells for stem, cells in jobs.items()
               if arguments.again or stem in arguments.row or not (out / f"{stem}.json").exists()}
    if waiting and (arguments.again or not (out / "cell.hpp.gch").exists()):
        precompiled(arguments, out)

    def one(stem):
        verdicts = tried(jobs[stem], arguments, out, stem)
        told = {key(c["choices"]) if c["row"] == stem else named(c): v for c, v in zip(jobs[stem], verdicts)}
        (out / f"{stem}.json").write_text(json.dumps(told, indent=1))
        broken = [f"{stem}, {key(c['choices'])} ({c['type']}): {v}" for c, v in zip(jobs[stem], verdicts)
                  if v.startswith("broken")]
        print(f"{stem}: {sum(v == 'holds' for v in verdicts)} hold, {sum(v.startswith('refused') for v in verdicts)} refused",
              *broken, sep="\n  ", flush=True)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(one, waiting))
    return {stem: json.loads((out / f"{stem}.json").read_text()) for stem in jobs if (out / f"{stem}.json").exists()}


def write_cover(out):
    """Two sources, so that cores share them; what is written says nothing of when, so that nothing is compiled again."""
    chosen, choices_left = covering(known())
    if choices_left:
        raise SystemExit(f"the covering set lacks {sorted(choices_left)}")
    out.mkdir(parents=True, exist_ok=True)
    parts = 2
    cells = [cell(n, c) for n, c in chosen]
    types = types_of(cells)
    for part in range(parts):
        text, _ = source([c for c in cells if (c["type"], c["model"]) in types[part::parts]])
        file = out / f"cover_{part}.cpp"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
    return chosen


def self_test():
    assert spelt("FedAlt", {"rule": "Adam"}) == "FedAlt<scope::Head, rule::Adam>"
    assert spelt("Ditto", {"mask": "static", "codec": "sign"}) == "Coded<Masked<Ditto<>, mask::RandomStatic>, codec::Sign>"
    assert spelt("Ditto", {"mask": "static", "DP": "examples"}) == f"Masked<Private<Ditto<{NOISY}>>, mask::RandomStatic>"
    assert spelt("Fallback", {"rule": "SAM"}) == "Fallback<Ditto<rule::Sam<>>>"
    assert absent("Local", {"fold": "Adam"}) and not absent("FedAvg", {"fold": "Adam"})
    text, at = source([cell("FedAvg", {}), cell("FedAvg", {"rule": "Adam"})])
    said = "a.hpp:1:2:   required from 'x'\nrow.cpp:5:9:   required from here\nb.hpp:3:4: error: static assertion failed: tessera::X: y\n"
    assert complaints(said, "row.cpp", at) == {1: "static assertion failed: tessera::X: y"}
    assert complaints(said.replace("row.cpp:5", "row.cpp:99"), "row.cpp", at) == {}
    chosen, choices_left = covering(known())
    assert not choices_left and {name for name, _ in chosen} == set(METHODS), choices_left
    assert set().union(*(c.items() for _, c in chosen)) == set(EVERYTHING)
    assert all(not clash(c) and possible(n, c, known()) for n, c in chosen)
    # The further kinds of a model are further cells and no further types.
    assert len(types_of(cell(n, c) for n, c in chosen)) < len(chosen)
    assert {key(c) for c in same_types("Local", {"model": "LSTM"})} == {
        f"model: {kind}, rule: {rule}" for kind, (model, _) in MODELS.items() if model == "Net" for rule in ("plain", "momentum")}
    assert [key(c) for c in same_types("PFedHn", {"model": "a user's", "rule": "SAM"})] == ["model: a user's, rule: SAM"]
    able, compositions_of_pairs = meetable(known()), all_pairs(known())
    assert able and not uncovered(compositions_of_pairs, able), uncovered(compositions_of_pairs, able)
    assert compositions_of_pairs == all_pairs(known())
    assert all(possible(n, c, known()) and not clash(c) for n, c in compositions_of_pairs)
    # Every composition has a pair that none before it has: without the last one, that pair is missed. So is one
    # whose method has no such hole.
    assert uncovered(compositions_of_pairs[:-1], able)
    assert uncovered([("Local", c) for _, c in compositions_of_pairs], able)
    said = "\n".join(section_of_pairs({(n, key(c)): (c, "holds") for n, c in compositions_of_pairs}, known()))
    assert f"{len(able)} of the other {len(able)} meet in {len(compositions_of_pairs)} compositions\n" in said and "Not met" not in said
    said = "\n".join(section_of_pairs({(n, key(c)): (c, "refused: x: y") for n, c in compositions_of_pairs}, known()))
    assert "0 of the other" in said and "refused: x: y" in said and "Not met yet: " in said
    pinned = [text for file in (HERE.parent / "compile_fail").glob("*.cpp")
              for text in re.findall(r"^// expect: (tessera::.+?)\s*$", file.read_text(), re.MULTILINE)]
    assert not unpinned(known().values(), pinned), unpinned(known().values(), pinned)
    assert unpinned(["tessera::Masked: nobody says this", "a text of an exception"], pinned) == ["tessera::Masked: nobody says this"]
    assert unpinned(known().values(), [text for text in pinned if "::Scaffold" not in text])
    # The page is of the compositions that are asked for now; whether they hold is for `matrix.py pairs`.
    found = {(n, key(c)): (c, "holds") for n, c in compositions_of_pairs}
    assert says(PAGE.read_text(), found, known()), "docs/matrix.md: run `matrix.py pairs OUT` and `matrix.py page OUT`"
    assert not says(PAGE.read_text(), dict(list(found.items())[:-1]), known())
    told = accepted({"Ditto": {"rule: Adam": "refused: x: y", "rule: SAM": "holds"}},
                    {("FedAvg", "fold: Adam"): "s", ("Ditto", "rule: SAM"): "gone"}, {"FedAvg", "Ditto"})
    assert "# rows: Ditto FedAvg\nDitto\trule: Adam\tx: y\nFedAvg\tfold: Adam\ts\n" in told and "gone" not in told, told
    page_rows = {name: {key(c["choices"]): "holds" for c in row(name)} for name in METHODS}
    assert "| `FedAvg` | + |" in page(page_rows)
    page_rows["FedAvg"]["rule: Adam"] = "refused: tessera::X: y"
    assert "1. tessera::X: y" in page(page_rows)
    # A page can be read back, and is the same again; with another verdict it is not.
    page_rows = {name: {w: "absent: " + absent(name, c["choices"]) if absent(name, c["choices"]) else v
                        for c in row(name) for w, v in [(key(c["choices"]), page_rows[name][key(c["choices"])])]} for name in METHODS}
    assert rows_told(page(page_rows)) == page_rows and page(rows_told(page(page_rows))) == page(page_rows)
    assert rows_told(page(page_rows).replace("| `FedAvg` | + | + |", "| `FedAvg` | (1) | + |")) != page_rows
    with tempfile.TemporaryDirectory() as folder:
        out, cells = pathlib.Path(folder), pair_cells(known())
        assert sum(len(some) for some in pairs_left(out, cells).values()) == len(cells)
        (out / "pairs_00.json").write_text(json.dumps({named(c): "holds" for c in cells[:-2]} | {named(cells[-2]): "refused: x"}))
        assert pairs_left(out, cells) == {"pairs_01": cells[-1:]}
        assert sorted(map(named, sum(pairs_left(out, cells, again=True).values(), []))) == sorted(map(named, cells[-2:]))
    print(f"{len(METHODS)} methods, {sum(len(c) for c in COLUMNS.values())} choices, "
          f"{len(METHODS) * sum(len(c) for c in COLUMNS.values())} cells, {len(chosen)} in the covering set, "
          f"{len(able)} pairs in {len(compositions_of_pairs)} compositions")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["all", "pairs", "cover", "accept", "page"])
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--row", action="append", default=[])
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--fresh", action="store_true", help="pairs: forget what OUT knows of them")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--flags", default="")
    parser.add_argument("--linked", default="linked.o")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if arguments.what == "cover":
        return write_cover(arguments.out) and None
    names = [name for name in sorted(METHODS) if not arguments.row or name in arguments.row]
    if arguments.what == "pairs":
        cells = pair_cells(known())
        if arguments.fresh:
            for file in [*arguments.out.glob("pairs_*.json"), *arguments.out.glob("cell.hpp.gch")]:
                file.unlink()
        run_rows(arguments, pairs_left(arguments.out, cells, arguments.again))
        found = pairs_found(arguments.out, known())
        wrong = [f"{name}, {what}: {v}" for (name, what), (_, v) in found.items() if v != "holds"]
        if not says(PAGE.read_text(), found, known()):
            wrong.append(f"docs/matrix.md says something else of pairs: `matrix.py page {arguments.out}` writes it")
        print(*wrong, sep="\n")
        return 1 if wrong else 0
    if arguments.what == "accept":
        results = {name: json.loads((arguments.out / f"{name}.json").read_text()) for name in names
                   if (arguments.out / f"{name}.json").exists()}
        REFUSED.write_text(accepted(results, known(), seen_rows()))
        return 0
    results = rows_told(PAGE.read_text()) if PAGE.exists() else {}
    results |= run_rows(arguments, {name: row(name) for name in names}) if arguments.what == "all" else {}
    for name in sorted(METHODS):
        if (arguments.out / f"{name}.json").exists():
            results[name] = json.loads((arguments.out / f"{name}.json").read_text())
    results = dict(sorted(results.items()))
    refused, wrong = known(), []
    for name, r in results.items():
        for what, v in r.items():
            if v.startswith("broken") or (v.startswith("refused") and refused.get((name, what)) != v.split(": ", 1)[1]):
                wrong.append(f"{name}, {what}: {v}")
            elif v == "holds" and (name, what) in refused:
                wrong.append(f"{name}, {what}: holds, refused.txt says otherwise")
    print(*wrong, sep="\n")
    if not wrong:
        found = pairs_found(arguments.out, refused)
        PAGE.write_text(page(results, section_of_pairs(found, refused) if found else ()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
