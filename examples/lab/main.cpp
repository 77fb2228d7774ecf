// SPDX-License-Identifier: BSD-3-Clause
// tessera-lab: any method on any data and model, by name.
#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <string>

#include <tessera/core/error.hpp>
#include <tessera/data/partition.hpp>
#include <tessera/report/json.hpp>

#include "methods.hpp"
#include "outputs.hpp"
#include "presets.hpp"
#include "stages.hpp"
#include "tasks.hpp"

namespace {

using lab::Options;

int list(bool json) {
    if (json) {
        std::string out;
        tessera::report::JsonWriter w(out);
        const auto names = [&](std::string_view key, const auto& all) {
            w.key(key).array([&] {
                for (const auto& name : all) w.value(name);
            });
        };
        w.object([&] {
            w.key("algorithms").array([&] {
                for (const auto& e : lab::catalogue())
                    w.object([&] {
                        w.member("name", e.name);
                        w.member("what", e.what);
                        w.member("scope", e.scoped);
                        w.member("trains", e.trains_all ? "all" : "sampled");
                        w.key("settings").object([&] {
                            for (const auto& [name, value] : e.settings) w.member(name, value);
                        });
                    });
            });
            names("data", lab::data_names);
            names("partitions", tessera::data::partition_names());
            names("models", lab::model_names);
            w.key("presets").array([&] {
                for (const auto& p : lab::presets())
                    w.object([&] {
                        w.member("name", p.name);
                        w.member("what", p.what);
                        names("sets", lab::in_words(p));
                    });
            });
            w.key("preset_variants").array([&] {
                for (const auto& v : lab::preset_variants())
                    w.object([&] {
                        w.member("name", v.name);
                        w.member("what", v.what);
                    });
            });
        });
        std::printf("%s\n", out.c_str());
        return 0;
    }
    std::printf("Algorithms (settings with their defaults, for --set)\n");
    for (const auto& e : lab::catalogue()) {
        std::printf("  %-13s %s%s\n               ", e.name.c_str(), e.what.c_str(), e.scoped ? "; takes --scope" : "");
        for (const auto& [name, value] : e.settings) std::printf(" %s=%s", name.c_str(), value.c_str());
        std::printf("\n");
    }
    const auto names = [](const char* title, const auto& all) {
        std::printf("%s\n ", title);
        for (const auto& name : all) std::printf(" %s", std::string(name).c_str());
        std::printf("\n");
    };
    names("Data", lab::data_names);
    names("Partitions", tessera::data::partition_names());
    names("Models", lab::model_names);
    std::printf("Presets\n");
    for (const auto& p : lab::presets()) {
        std::printf("  %-24s %s\n                          ", std::string(p.name).c_str(), std::string(p.what).c_str());
        for (const auto& said : lab::in_words(p)) std::printf(" %s", said.c_str());
        std::printf("\n");
    }
    for (const auto& v : lab::preset_variants())
        std::printf("  ...%-21s %s\n", std::string(v.name).c_str(), std::string(v.what).c_str());
    return 0;
}

int run(Options o) {
    const auto said = lab::apply_preset(o);
    lab::apply_defaults(o);
    const auto positive = [](const char* flag, std::size_t value) {
        if (value == 0) throw tessera::ConfigError(std::string(flag) + " must be at least 1");
    };
    positive("--rounds", *o.rounds);
    positive("--clients", *o.clients);
    positive("--per-round", *o.per_round);
    positive("--eval-every", o.evaluate_every);
    positive("--checkpoint-every", o.checkpoint_every);
    if (o.resume && o.checkpoint.empty()) throw tessera::ConfigError("--resume needs --checkpoint DIR");
    const auto stages = lab::stages_of(o);
    if (!said.empty() && !o.quiet) {
        std::printf("preset %s sets", o.preset.c_str());
        for (const auto& each : said) std::printf("\n  %s", each.c_str());
        std::printf("\n");
    }
    const auto record = lab::run_stages(stages);
    if (!o.quiet) lab::print_summary(record);
    lab::write_outputs(record, o);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is a write that fails, with a sentence
    CLI::App app{"Personalized federated learning by name. `tessera-lab list` shows what there is."};
    app.require_subcommand(1);

    bool as_json = false;
    auto* lister = app.add_subcommand("list", "Algorithms, data, partitions, models and presets");
    lister->add_flag("--json", as_json, "As JSON");

    Options o;
    std::vector<std::string> set, also;
    auto* runner = app.add_subcommand("run", "Run one algorithm");
    runner->add_option("--algorithm", o.algorithm, "Name from `list`");
    runner->add_option("--stages", o.stages,
                       "Instead of --algorithm: 'fedavg rounds=50; fedalt rate=0.01; tune tune_epochs=5'");
    runner->add_option("--preset", o.preset, "A published experiment; other flags win over it");
    runner->add_option("--data", o.data, "fashion-mnist, synthetic:ALPHA,BETA, idx:IMAGES,LABELS, npy:FEATURES,LABELS");
    runner->add_option("--normalise", o.normalise, "standard, unit or none");
    runner->add_option("--partition", o.partition, "How examples are dealt to clients; see `list`");
    runner->add_option("--split-file", o.split_file, "Reload the split from this file, or save it there");
    runner->add_option("--clients", o.clients, "Number of clients");
    runner->add_option("--unseen", o.unseen, "Of them, how many are held out of training");
    runner->add_option("--validation", o.validation, "Share of each client's training data set aside");
    runner->add_option("--model", o.model, "mclr, dnn, dnn-norm or additive");
    runner->add_option("--rounds", o.rounds, "Number of rounds");
    runner->add_option("--per-round", o.per_round, "Clients aggregated in a round");
    runner->add_option("--batch", o.batch, "Batch size; 0 takes all data of a client");
    runner->add_option("--set", set, "NAME=VALUE, a setting of the algorithm; may be repeated");
    runner->add_option("--scope", o.scope,
                       "What is personal: none, input, output, adapter, norm, all, named:SEGMENTS, joined by +");
    runner->add_option("--trains", o.trains, "all or sampled clients train in a round; the method's own unless given");
    runner->add_option("--seed", o.seed, "Moves initial weights, sampling and shuffling");
    runner->add_option("--split-seed", o.split_seed, "Moves the partition; the seed unless given");
    runner->add_option("--quorum", o.quorum, "Share of uploads without which a round does not count");
    runner->add_flag("--stateless", o.stateless, "Clients forget after each visit");
    runner->add_flag("--wire", o.over_the_wire, "Send every message through its bytes");
    runner->add_option("--threads", o.threads, "Worker threads; the results do not depend on them");
    runner->add_option("--eval-every", o.evaluate_every, "Evaluate after every so many rounds");
    runner->add_option("--eval-last", o.evaluate_last, "Only in the last so many rounds");
    runner->add_option("--eval-also", also, "NAME=VALUE of tuning: every evaluation once more, served like this");
    runner->add_option("--analyse", o.analyse, "clients, losses, memory, theory, coherence: figures of the report")
        ->delimiter(',');
    runner->add_option("--json", o.json, "Write everything as JSON");
    runner->add_option("--csv", o.csv, "Write the rounds as CSV");
    runner->add_option("--report", o.report, "Write a self-contained HTML report");
    runner->add_option("--models", o.models, "Write the models (.npz or .safetensors)");
    runner->add_option("--checkpoint", o.checkpoint, "Directory for checkpoints");
    runner->add_option("--checkpoint-every", o.checkpoint_every, "Rounds between checkpoints");
    runner->add_flag("--resume", o.resume, "Go on from the newest checkpoint");
    runner->add_flag("--quiet", o.quiet, "Print nothing but errors");

    try {
        app.parse(argc, argv);
        if (*lister) return list(as_json);
        o.set = lab::named_values("--set", set);
        o.evaluate_also = lab::named_values("--eval-also", also);
        return run(std::move(o));
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);
        std::fprintf(stderr, "tessera-lab: %s\n", e.what());
        return 2;
    } catch (const tessera::ConfigError& e) {
        std::fprintf(stderr, "tessera-lab: %s\n", e.what());
        return 2;
    } catch (const tessera::IoError& e) {
        std::fprintf(stderr, "tessera-lab: %s\n", e.what());
        return 2;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "tessera-lab: %s\n", e.what());
        return 1;
    }
}
