// SPDX-License-Identifier: BSD-3-Clause
// tessera-lab: any method on any data and model, by name. Here the flags and the exit codes; a file for each command.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/version.hpp>

#include "commands.hpp"
#include "counts.hpp"
#include "interrupt.hpp"
#include "methods.hpp"
#include "nearest.hpp"
#include "presets.hpp"
#include "ranks.hpp"
#include "provenance.hpp"
#include "settings.hpp"
#include "stages.hpp"

namespace {

using lab::Options;

// What the command line says as NAME=VALUE.
struct Said {
    std::vector<std::string> set, also, dp;
    std::string seeds;
};

std::string not_a_count(const std::string& text) {
    if (text.empty()) return "its value is empty";
    if (text.starts_with('-')) return "0 or more is needed, not " + text;
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
    return (digits ? "a smaller number is needed, not " : "a whole number is needed, not ") + text;
}

// CLI11 has a sentence of its own where a text is no number.
const CLI::Validator& numbers() {
    static const CLI::Validator all(
        [](std::string& text) -> std::string {
            double value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (text.empty()) return "its value is empty";
            return error == std::errc{} && end == text.data() + text.size() ? "" : "a number is needed, not " + text;
        },
        "");
    return all;
}

// CLI11 would read -1 and what is too large as the largest number there is.
const CLI::Validator& counts() {
    static const CLI::Validator all([](std::string& text) { return lab::count_in(text) ? "" : not_a_count(text); }, "");
    return all;
}

void add_run_flags(CLI::App& command, Options& o, Said& said) {
    command.add_option("--algorithm", o.algorithm, "Name from `list`");
    command.add_option("--stages", o.stages,
                       "Instead of --algorithm: 'fedavg rounds=50; fedalt rate=0.01; tune tune_epochs=5'");
    command.add_option("--preset", o.preset,
                       "A published experiment, or FILE.ini of your own; other flags win over it");
    command.add_option(
        "--data", o.data,
        "fashion-mnist, synthetic:ALPHA,BETA, or files: cifar10, cifar100, idx, npy, leaf, csv, text; see `list`");
    command.add_option("--aux", o.aux,
                       "Public data of the server: held-out:SHARE of the clients', noise:COUNT, or data as --data has them");
    command.add_option("--normalise", o.normalise, "standard, unit, each (example by itself) or none");
    command.add_option("--augment", o.augment,
                       "Changed copies of the training images join them: flip,crop:PIXELS,copies:COUNT")
        ->delimiter(',');
    command.add_option("--partition", o.partition, "How examples are dealt to clients; see `list`");
    command.add_option("--split-file", o.split_file, "Reload the split from this file, or save it there");
    command.add_option("--clients", o.clients, "Number of clients");
    command.add_option("--unseen", o.unseen, "Of them, how many are held out of training");
    command.add_option("--validation", o.validation, "Share of each client's training data set aside");
    command.add_option("--model", o.model, "Name from `list`; mclr and dnn are made for any data");
    command.add_option("--loss", o.loss,
                       "softmax, binary, squared or huber; unless given, what the labels of the data call for");
    command.add_option("--backend", o.backend, "Who multiplies: simd, reference, eigen or xtensor-blas");
    command.add_option("--weights", o.weights,
                       "First values from FILE.safetensors or .npz: FILE[,new-head][,ignore-extra][,prefix=NAME]");
    command.add_option("--rounds", o.rounds, "Number of rounds");
    command.add_option("--per-round", o.per_round, "Clients aggregated in a round");
    command.add_option("--batch", o.batch, "Batch size; 0 takes all data of a client");
    command.add_option("--set", said.set, "NAME=VALUE, a setting of the algorithm; may be repeated");
    command.add_option("--scope", o.scope,
                       "What is personal: none, input, output, adapter, norm, all, named:SEGMENTS, joined by +");
    command.add_option("--trains", o.trains, "all or sampled clients train in a round; the method's own unless given");
    command.add_option("--dp", said.dp,
                       "Private example by example: clip=1,noise=1 or epsilon=2,delta=1e-5,source=system or keyed; "
                       "or per=client,clip=1,noise=1: whole clients")
        ->delimiter(',');
    auto* seed = command.add_option("--seed", o.seed, "Moves initial weights, sampling and shuffling");
    command.add_option("--seeds", said.seeds, "Several, as in 1,2,3: a run for each, on the split of the first")
        ->excludes(seed);
    command.add_option("--split-seed", o.split_seed, "Moves the partition; the first seed unless given");
    command.add_option("--quorum", o.quorum, "Share of uploads without which a round does not count");
    command.add_flag("--stateless", o.stateless, "Clients forget after each visit");
    command.add_flag("--wire", o.over_the_wire, "Send every message through its bytes");
    command.add_flag("--keep-uploads", o.keep_uploads, "Add uploads up when all are there, not as they come");
    command.add_option("--codec", o.codec, "Of uploads: 8bit, 4bit, sign, topk:0.01, randomk:0.01");
    command.add_option("--threads", o.threads, "Worker threads; the results do not depend on them");
    command.add_flag("--device", o.device, "Train the clients of a round together on a GPU; without one on the host");
    command.add_option("--eval-every", o.evaluate_every, "Evaluate after every so many rounds");
    command.add_option("--eval-last", o.evaluate_last, "Only in the last so many rounds");
    command.add_option("--eval-also", said.also, "NAME=VALUE of tuning: every evaluation once more, served like this");
    command.add_option("--metrics", o.metrics,
                       "Beside accuracy and loss: auc, ece (calibration), gradient (its length, at the common model)")
        ->delimiter(',');
    command.add_option("--analyse", o.analyse,
                       "clients, losses, memory, theory, coherence, ensemble, routing, masks: figures of the report")
        ->delimiter(',');
    command.add_option("--shifts", o.shifts,
                       "Final models on all clients' test images, shifted: none,noise:3,blur:2 or all")
        ->delimiter(',');
    command.add_option("--shift-dir", o.shift_dir, "Of these, files NAME.npy of five severities and labels.npy");
    command.add_option("--json", o.json, "Write everything as JSON");
    command.add_option("--jsonl", o.jsonl, "Write the rounds as JSON, one a line");
    command.add_option("--csv", o.csv, "Write the rounds as CSV");
    command.add_option("--tensorboard", o.tensorboard, "Write the rounds for TensorBoard, into a file whose name holds tfevents");
    command.add_option("--report", o.report, "Write a self-contained HTML report");
    command.add_option("--models", o.models, "Write the models (.npz or .safetensors)");
    command.add_option("--save-weights", o.save_weights,
                       "Write the common model alone, by its names in torch (.npz or .safetensors)");
    command.add_option("--trace", o.trace, "Write where the time went, for chrome://tracing");
    command.add_flag("--trace-kernels", o.trace_kernels, "In the trace, kernels too");
    command.add_flag("--hits", o.hits, "Keep in the JSON which test examples each client gets right");
    command.add_option("--checkpoint", o.checkpoint, "Directory for checkpoints");
    command.add_option("--checkpoint-every", o.checkpoint_every, "Rounds between checkpoints");
    command.add_option("--store", o.store,
                       "Where clients' states rest: memory, or log, in the directory of checkpoints");
    command.add_flag("--resume", o.resume, "Go on from the newest checkpoint");
    command.add_flag("--quiet", o.quiet, "Print nothing but errors");
    for (const auto* flag : {"--clients", "--unseen", "--rounds", "--per-round", "--batch", "--seed", "--split-seed",
                             "--threads", "--eval-every", "--eval-last", "--checkpoint-every"})
        command.get_option(flag)->check(counts());
    for (const auto* flag : {"--validation", "--quorum"}) command.get_option(flag)->check(numbers());
}

std::vector<std::uint64_t> seeds_in(const std::string& text) {
    std::vector<std::uint64_t> all;
    tessera::detail::for_each_piece(text, ',', [&](std::string_view piece) {
        const auto seed = lab::count_in(piece);
        if (!seed)
            throw tessera::ConfigError("--seeds: " + (piece.empty() ? "a seed is missing in '" + text + "'"
                                                                    : not_a_count(std::string(piece))));
        all.push_back(*seed);
    });
    return all;
}

Options read(Options o, const Said& said, const CLI::App& command) {
    if (command.count("--checkpoint-every") > 0 && o.checkpoint.empty())
        throw tessera::ConfigError("--checkpoint-every needs --checkpoint DIR");
    if (command.count("--seeds") > 0) o.seeds = seeds_in(said.seeds);
    o.set = lab::each_once("--set", said.set);
    // A flag here, a setting elsewhere.
    for (auto at = o.set.begin(); at != o.set.end();) {
        if (at->first != "batch" && at->first != "batch_size") {
            ++at;
            continue;
        }
        if (command.count("--batch") > 0)
            throw tessera::ConfigError("--set " + at->first + ": --batch says it already");
        lab::put_setting("--set", "batch", at->second, o);
        at = o.set.erase(at);
    }
    o.evaluate_also = lab::each_once("--eval-also", said.also);
    if (!said.dp.empty() && o.algorithm.empty() && o.stages.empty()) {  // a preset may name the one to make private
        Options with_preset = o;
        lab::apply_preset(with_preset);
        o.algorithm = with_preset.algorithm;
    }
    lab::make_private(o, lab::each_once("--dp", said.dp));
    return o;
}

// Those of a run's command, as it was given.
Options options_of(std::vector<std::string> words) {
    CLI::App app;
    Options o;
    Said said;
    auto* runner = app.add_subcommand("run");
    add_run_flags(*runner, o, said);
    std::vector<char*> pointers;
    for (auto& word : words) pointers.push_back(word.data());
    app.parse(static_cast<int>(pointers.size()), pointers.data());
    auto options = read(o, said, *runner);
    options.quiet = true;
    return options;
}

// "" is what a shell makes of a variable that nobody set; an output that goes nowhere should not pass for one.
void check_values(const CLI::App& command) {
    for (const auto* option : command.get_options())
        if (option->count() > 0 && std::ranges::all_of(option->results(), &std::string::empty))
            throw tessera::ConfigError(option->get_name() + ": its value is empty");
}

// What other programs have as a flag and this one as a setting: lr, local-epochs, lambda.
std::string as_setting(const std::string& flag) {
    auto name = flag.substr(2);
    std::ranges::replace(name, '-', '_');
    const auto usual = lab::usual_name(name);
    for (const auto& e : lab::catalogue())
        for (const auto& [setting, value] : e.settings)
            if (tessera::detail::means(setting, usual.empty() ? name : usual))
                return "; it is a setting of the algorithm: --set " + name + "=VALUE";
    return "";
}

// A flag or command that there is not, and what was meant.
std::string misspelt(const CLI::App& app, int argc, char** argv) {
    const auto complaint = [](const std::string& kind, const std::string& name, const std::vector<std::string>& known) {
        return name + ": there is no such " + kind + lab::perhaps(name, known);
    };
    std::vector<std::string> commands;
    const CLI::App* command = nullptr;
    for (const auto* each : app.get_subcommands({})) {
        commands.push_back(each->get_name());
        if (argc > 1 && each->get_name() == argv[1]) command = each;
    }
    if (argc < 2)
        return "say what to do: run, sweep, compare, report, generate, reproduce, watch, store, list or presets; `tessera-lab --help` tells "
               "more";
    if (!command && argv[1][0] == '-') return complaint("flag", argv[1], {"--help", "--version"});
    if (!command) return complaint("command", argv[1], commands);
    std::vector<std::string> flags;
    for (const auto* option : command->get_options())
        if (!option->get_lnames().empty()) flags.push_back("--" + option->get_lnames().front());
    for (int i = 2; i < argc; ++i) {
        const std::string word(argv[i]), name = word.substr(0, word.find('='));
        if (!name.starts_with("--") || std::ranges::find(flags, name) != flags.end()) continue;
        const bool trains = command->get_name() == "run" || command->get_name() == "sweep";
        if (const auto meant = as_setting(name); trains && !meant.empty()) return complaint("flag", name, {}) + meant;
        for (const auto& flag : flags)  // --batch-size, --json-file
            if (name.starts_with(flag + "-") || name.starts_with(flag + "_"))
                return complaint("flag", name, {}) + "; did you mean " + flag + "?";
        return complaint("flag", name, flags);
    }
    return "";
}

// The parser's sentences, where ours say more.
std::string in_our_words(const CLI::ParseError& e, const CLI::App& app) {
    const std::string what = e.what();
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&e))
        return what.substr(0, what.find(':')) +
               (what.find("At Most") == what.npos ? ": a value is missing" : ": it is given more than once");
    if (dynamic_cast<const CLI::ExtrasError*>(&e)) {
        std::string words;
        for (const auto& word : app.remaining(true)) words.append(words.empty() ? "" : " ").append(word);
        return words + ": not expected here; a flag is --NAME VALUE";
    }
    return what;
}

// A name of a thousand letters hides what is wrong with it, and bytes that steer a terminal are no words.
std::string readable(const std::string& said) {
    constexpr std::size_t longest = 160, kept = 60;
    std::string text;
    for (const char c : said) {
        const auto byte = static_cast<unsigned char>(c);
        char code[8];
        std::snprintf(code, sizeof code, "\\x%02x", byte);
        if (byte < 0x20 || byte == 0x7f) text += code;
        else text += c;
    }
    for (std::size_t begin = 0; begin < text.size();) {
        const auto end = std::min(text.find(' ', begin), text.size());
        if (end - begin <= longest) begin = end + 1;
        else text.replace(begin + kept, end - begin - kept, "..."), begin += kept + 4;
    }
    return text;
}

std::string& last_complaint() {
    static std::string said;
    return said;
}

int complain(const std::string& what, int code) {
    last_complaint() = readable(what);
    std::fprintf(stderr, "tessera-lab: %s\n", last_complaint().c_str());
    return code;
}

const char* const out_of_memory =
    "memory ran out; make the run smaller: fewer --clients, a smaller --model or --batch, fewer copies of --augment, "
    "fewer --threads, or --data with fewer examples";

// Runs the command that is asked for and returns the exit code.
int obey(int argc, char** argv) {
    CLI::App app{"Personalized federated learning by name. `tessera-lab list` shows what there is."};
    app.require_subcommand(1);

    app.set_version_flag("--version", std::string("tessera-lab ") + tessera::version);

    bool as_json = false;
    std::string listed;
    auto* lister = app.add_subcommand("list", "Algorithms, data, partitions, models and presets");
    lister->add_option("NAME", listed, "One algorithm with its settings, or one preset");
    lister->add_flag("--json", as_json, "As JSON");

    std::string preset;
    bool as_text = false;
    auto* shower = app.add_subcommand("presets", "What presets set, with a hash of it");
    shower->add_option("NAME", preset, "One preset, as in pfedbred/fmnist-dnn+am, or a file");
    shower->add_flag("--text", as_text, "Print its file, to copy and change");

    Options o;
    Said said;
    auto* runner = app.add_subcommand("run", "Run one algorithm");
    add_run_flags(*runner, o, said);

    lab::SweepOptions grid;
    auto* sweeper = app.add_subcommand("sweep", "Try settings on validation data and run the best on all");
    add_run_flags(*sweeper, o, said);
    sweeper->add_option("--grid", grid.grid, "NAME=VALUE,VALUE,... of what is tried; several make a product");
    sweeper->add_option("--select", grid.select, "On which data the best is chosen: validation");

    std::string logged;
    auto* keeper = app.add_subcommand("store", "Read and check the log of clients' states that --store log keeps");
    keeper->add_option("RUN", logged, "The run's directory of checkpoints")->required();

    lab::CompareOptions comparison;
    auto* comparer = app.add_subcommand("compare", "Runs against each other, with confidence intervals");
    comparer->add_option("FILES", comparison.files, "JSON files of runs; the others are held against the first");
    comparer->add_option("--report", comparison.report, "Write a self-contained HTML report");
    comparer->add_option("--json", comparison.json, "Write the figures as JSON");
    comparer->add_option("--model", comparison.model, "served (personal where there is one), personal or global");
    comparer->add_option("--baseline", comparison.baseline,
                         "Which of the files gains are held against; a run of local, else the first, unless given");
    comparer->add_option("--confidence", comparison.confidence, "Of the intervals")->check(numbers());
    comparer->add_flag("--unpaired", comparison.unpaired, "Compare means of runs on different data or splits");

    lab::ReportOptions drawing;
    auto* drawer = app.add_subcommand("report", "The page of a run, from its JSON");
    drawer->add_option("FILE", drawing.file, "JSON of a run, or of its seeds; a program of your own may have written it")->required();
    drawer->add_option("--figures", drawing.figures, "JSON of figures over its runs, beside those that the runs hold");
    drawer->add_option("--out", drawing.out, "Where the page goes; FILE with .html unless given");
    drawer->add_option("--title", drawing.title, "What stands above it");

    lab::GenerateOptions speech;
    auto* speaker = app.add_subcommand("generate", "Text from a run's models, by its checkpoint");
    speaker->add_option("RUN", speech.run, "JSON of a run of texts that kept checkpoints")->required();
    speaker->add_option("--client", speech.client, "Whose personal model speaks too: its name, or its number")->required();
    speaker->add_option("--prompt", speech.prompt, "The text that is gone on from")->required();
    speaker->add_option("--tokens", speech.tokens, "How many characters or words");
    speaker->add_option("--seed", speech.seed, "Of what is drawn");
    speaker->add_option("--temperature", speech.temperature, "0: the likeliest; 1: as the model says; above: wilder")
        ->check(numbers());
    for (const auto* flag : {"--tokens", "--seed"}) speaker->get_option(flag)->check(counts());

    std::string made, watched;
    bool check = false, once = false;
    auto* again = app.add_subcommand("reproduce", "The command that made a run, or the run once more");
    again->add_option("FILE", made, "JSON of a run")->required();
    again->add_flag("--check", check, "Run it again and hold the final state against it");
    auto* watcher = app.add_subcommand("watch", "The rounds of a run while it goes on");
    watcher->add_option("FILE", watched, "What the run writes with --jsonl")->required();
    watcher->add_flag("--once", once, "Only those that are there");

    lab::tell_command(argc, argv);
    try {
        app.parse(argc, argv);
        for (const auto* command : app.get_subcommands()) check_values(*command);
        if (lab::ranks() && !*runner) {
            if (*sweeper || *speaker || *again)
                throw tessera::ConfigError(app.get_subcommands()[0]->get_name() +
                                           ": of all commands run alone shares its work among processes; start this one once");
            if (!lab::speaks()) return 0;
        }
        if (*lister) return lab::list(as_json, listed);
        if (*shower) return lab::list_presets(preset, as_text);
        if (*comparer) return lab::compare(comparison);
        if (*drawer) return lab::report(drawing);
        if (*keeper) return lab::check_store(logged);
        if (*watcher) return lab::watch(watched, once);
        if (*speaker) return lab::generate(options_of(lab::command_of(speech.run)), speech);
        if (*again)
            return lab::reproduce(made, check, [](std::vector<std::string> words) {
                std::vector<char*> pointers;
                for (auto& word : words) pointers.push_back(word.data());
                return obey(static_cast<int>(pointers.size()), pointers.data());
            });
        if (sweeper->count("--validation") > 0 && o.validation == 0)
            throw tessera::ConfigError("--validation 0: a sweep chooses on validation data; give a share above 0, or "
                                       "leave it out for 0.2");
        if (*sweeper) return lab::sweep(read(o, said, *sweeper), grid);
        return lab::run(read(o, said, *runner));
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);
        const auto meant = misspelt(app, argc, argv);
        return complain(meant.empty() ? in_our_words(e, app) : meant, 2);
    } catch (const lab::Interrupted& e) {
        return complain(e.what(), lab::exit_of_interrupted());
    } catch (const tessera::ConfigError& e) {
        return complain(e.what(), 2);
    } catch (const tessera::IoError& e) {
        return complain(e.what(), 2);
    } catch (const std::bad_alloc&) {
        return complain(out_of_memory, 1);
    } catch (const std::length_error&) {  // of a vector that no memory could hold
        return complain(out_of_memory, 1);
    } catch (const std::exception& e) {
        return complain(e.what(), 1);
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is a write that fails, with a sentence
    lab::heed_interrupts();
    const auto obeyed = [&] {
        try {
            lab::join_ranks(argc, argv);
        } catch (const tessera::Error& e) {
            return complain(e.what(), 2);
        }
        const int code = obey(argc, argv);
        const bool told = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
        if (told || code != 0) return code;
        return complain("standard output could not be written; send it to a place that has room", 1);
    };
    const int code = obeyed();
    return lab::leave_ranks(code, last_complaint());
}
