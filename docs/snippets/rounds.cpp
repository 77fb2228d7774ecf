// SPDX-License-Identifier: BSD-3-Clause
// Regions of this file are quoted in the documentation: a run, a method, endpoints, checkpoints, evaluation.
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/predict.hpp>
#include <tessera/runtime/checkpoint.hpp>
#include <tessera/runtime/controls.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/export.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>
#include <tessera/store/log.hpp>

using namespace tessera;

namespace {

int failures = 0;
void expect(const char* what, bool holds) {
    if (!holds) std::printf("failed: %s\n", what), ++failures;
}

// [method]
// Half of the server's move is kept back by the client: it uploads the mean of what it received and learnt.
template <class Local = rule::Sgd, class Fold = fold::Mean>
struct Cautious {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr auto offers = offer::validate;
    Local local{};
    Fold fold{};
    std::size_t epochs = 1;
    double share = 0.5;  // of the client's move that goes up, in [0, 1]
    Weigh weights = Weigh::samples;

    template <class R>
    struct Client {
        Vec<R> own;  // the client's model; empty until the first visit
    };

    auto visit(const auto& at, auto w, auto& me) const {
        const auto received = w;
        descend(at, w, at.epochs(epochs), local);
        me.own = w;
        for (std::size_t j = 0; j < w.size(); ++j)
            w[j] = static_cast<std::remove_cvref_t<decltype(w[j])>>(received[j] + share * (w[j] - received[j]));
        return up(at, std::move(w), weights);
    }
    auto serve(const auto& at, auto w, auto me) const { return plain(at, start(me.own, w)); }

    void validate() const {
        detail::require(share >= 0 && share <= 1, "share must lie in [0, 1], not " + std::to_string(share));
    }
};
// [/method]

// [state]
struct Moments {
    Vec<float> mean, variance;
    std::uint64_t steps = 0;
};
static_assert(field_count<Moments> == 3);
static_assert(field_names<Moments>[1] == "variance");
// [/state]

const data::FederatedDataset& people() {
    static const auto clients =
        data::synthetic({.alpha = 0.5, .beta = 0.5, .clients = 12, .seed = 3, .max_examples = 60});
    return clients;
}
using Net = nn::Dnn<60, 20, 10>;

void a_first_run() {
    // [first]
    const auto clients = data::synthetic({.alpha = 0.5, .beta = 0.5, .clients = 12, .seed = 3, .max_examples = 60});
    const FedAvg<> method{.local = {.rate = 0.05}, .epochs = 2};
    Federation<FedAvg<>, nn::Dnn<60, 20, 10>> run{{}, clients, method, {.seed = 1, .batch = 10, .rounds = 5}};

    run.run(5, sample::Uniform{.count = 6});
    const auto global = evaluate<Which::global>(run).accuracy(Average::pooled);
    std::printf("%.3f: %s\n", global.value.get(), report::in_words(global).c_str());
    // [/first]
    expect("five rounds were done", run.rounds_done() == 5);
}

void methods() {
    // [methods]
    const Local<> local{.local = {.rate = 0.05}, .epochs = 2};
    const FedAvg<> average{.local = {.rate = 0.05}, .epochs = 2};
    const FedAvgFt<> tuned{.local = {.rate = 0.05}, .epochs = 2, .tune_epochs = 1};
    const FedProx<> pulled{.local = {.rate = 0.05}, .epochs = 2, .mu = 0.1};
    const FedAvg<rule::Sgd, fold::ServerAdam<>> adam{.local = {.rate = 0.05}, .fold = {.server_rate = 0.01}};
    // [/methods]
    const Settings settings{.seed = 1, .batch = 10, .rounds = 2};
    const auto two_rounds = [&](const auto& method) {
        Federation<std::remove_cvref_t<decltype(method)>, Net> run{{}, people(), method, settings};
        run.run(2, sample::Everyone{});
        return run.fingerprint();
    };
    expect("methods differ", two_rounds(average) != two_rounds(pulled) && two_rounds(average) != two_rounds(adam));
    expect("local runs", two_rounds(local) == two_rounds(local));
    // [identity]
    Federation<FedAvg<>, Net> a{{}, people(), {.local = {.rate = 0.05}}, settings};
    Federation<FedProx<>, Net> b{{}, people(), {.local = {.rate = 0.05}, .mu = 0}, settings};
    a.run(2, sample::Everyone{});
    b.run(2, sample::Everyone{});
    const bool same_bits = a.fingerprint() == b.fingerprint();
    // [/identity]
    expect("FedProx without a pull is FedAvg", same_bits);
    // [tuned]
    Federation<FedAvgFt<>, Net> run{{}, people(), tuned, settings};
    run.run(2, sample::Everyone{});
    const auto both = break_down(run);                // global and personal model, example by example
    const auto effect = both.effect();                // who gains, who loses
    const auto floor = majority_class(run.data());    // lower control
    const auto ceiling = oracle_best_of(both.global(), both.personal());  // upper control: reads test data
    // [/tuned]
    expect("every client is counted", effect.deltas.size() == run.size() && ceiling.size() == run.size() &&
                                          floor.counts().size() == run.size());
    // [pooled]
    Federation<FedAvg<>, Net> centralised{{}, pooled(people()), average, settings};
    // [/pooled]
    expect("one client holds all", centralised.size() == 1);
}

void a_method_of_ones_own() {
    Federation<Cautious<>, Net> run{{}, people(), {.local = {.rate = 0.05}, .share = 1}, {.batch = 10}};
    Federation<FedAvg<>, Net> plain_run{{}, people(), {.local = {.rate = 0.05}}, {.batch = 10}};
    run.run(2, sample::Everyone{});
    plain_run.run(2, sample::Everyone{});
    double worst = 0;
    for (std::size_t j = 0; j < run.server().w.size(); ++j)
        worst = std::max(worst, std::abs(double(run.server().w[j]) - double(plain_run.server().w[j])));
    expect("share 1 is FedAvg up to rounding", worst < 1e-5);
}

void nested_folds() {
    // [nested]
    using Fold = fold::ServerMomentum<fold::Relax<fold::Mean>>;
    FedAvg<rule::Sgd, Fold> method{.fold = {.server_momentum = 0.5, .inner = {.beta = 0.9}}};
    set_by_name(method, "rate", "0.05");         // every field called rate
    set_by_name(method, "fold.inner.beta", "1");  // exactly this one
    for (const auto& [name, value] : settings_of(method)) std::printf("%s=%s ", name.c_str(), value.c_str());
    // [/nested]
    std::printf("\n");
    expect("set by name", method.local.rate == 0.05 && method.fold.inner.beta == 1);
}

void endpoints() {
    const Settings settings{.seed = 1, .batch = 10, .rounds = 3, .quorum = 0.5};
    // [endpoints]
    const Setup<FedAvg<>, Net> setup(Net{}, {.local = {.rate = 0.05}}, settings);
    Server<FedAvg<>, Net> server(setup, 3);
    std::vector<Client<FedAvg<>, Net>> devices;
    for (Id k = 0; k < 3; ++k) devices.emplace_back(setup, k, people()[k]);

    server.open_round({{.client = 0}, {.client = 1}, {.client = 2}});
    for (Id k = 0; k < 2; ++k) {                       // the third device does not answer
        const Bytes down = server.download(k);         // bytes to send
        const Bytes up = devices[k].visit(down);       // on the device
        const Verdict verdict = server.receive(k, up);    // bytes that came back
        if (verdict != Verdict::accepted) std::puts("refused");
    }
    const Outcome outcome = server.close_round();
    // [/endpoints]
    expect("two of three meet a quorum of one half", outcome.counted && outcome.merged == 2);
}

void checkpoints(const std::string& directory) {
    using Run = Federation<FedAvg<>, Net>;
    const FedAvg<> method{.local = {.rate = 0.05}};
    const Settings settings{.seed = 1, .batch = 10, .rounds = 4};
    const sample::Uniform sampler{.count = 6};
    Run whole{{}, people(), method, settings};
    whole.run(4, sampler);
    // [checkpoint]
    const std::string name = "fedavg, synthetic, seed 1";  // what decides the numbers of this run
    {
        Run run{{}, people(), method, settings};
        run.run(2, sampler);
        CheckpointDirectory(directory).save(run, name);
    }
    Run resumed{{}, people(), method, settings};
    const auto from = CheckpointDirectory(directory).resume(resumed, name);
    resumed.run(4 - resumed.rounds_done(), sampler);
    // [/checkpoint]
    expect("resumed from a file", from.has_value());
    expect("kill and resume give the same bits", resumed.fingerprint() == whole.fingerprint());
    // [store]
    Run large{{}, people(), method, settings};
    large.keep_in(store::Log{.directory = directory + "/states"});  // before round one, or before a checkpoint is read
    {
        const CheckpointDirectory kept(directory + "/kept");
        for (int r = 0; r < 4; ++r) {
            large.round(sampler);
            kept.save(large, name);  // the server's state, and where the log ends
        }
    }
    // [/store]
    expect("a log changes no bit", large.fingerprint() == whole.fingerprint());

    const std::string file = directory + "/models.safetensors";
    // [predict]
    write_models(file, resumed);                          // "global/0.weight", "global/0.bias", ...
    const Predictor<Net> model(file, "global/");
    const std::vector<float> example(60, 0.5f);
    const Vec<float> probabilities = model(example);
    // [/predict]
    double sum = 0;
    for (const float p : probabilities) sum += double(p);
    expect("probabilities sum to one", std::abs(sum - 1) < 1e-5);
}

void run_time_choice() {
    // [any]
    const bool deep = true;
    const nn::AnyModel<float> model = deep ? nn::AnyModel<float>(nn::Dnn<60, 20, 10>{}) : nn::Mclr<60, 10>{};
    Federation<FedAvg<>, nn::AnyModel<float>> run{model, people(), {.local = {.rate = 0.05}}, {.batch = 10}};
    // [/any]
    Federation<FedAvg<>, Net> named{{}, people(), {.local = {.rate = 0.05}}, {.batch = 10}};
    run.run(2, sample::Everyone{});
    named.run(2, sample::Everyone{});
    expect("a model chosen at run time gives the same bits", run.fingerprint() == named.fingerprint());
}

void tags() {
    Federation<FedAvgFt<>, Net> run{{}, people(), {}, {.batch = 10}};
    run.run(1, sample::Everyone{});
    // [tags]
    const auto global = evaluate<Which::global>(run);                             // before local training
    const auto personal = evaluate<Which::personal>(run);                         // after it
    const auto everywhere = evaluate_on_union<Which::personal>(run);              // each model on everybody's test data
    const report::Evaluation e = personal.accuracy(Average::unweighted);          // carries all its tags
    const double tenth = personal.quantile(0.10, Average::unweighted);            // of accuracy over clients
    const report::Effect effect = report::compare(global, personal);              // this order only
    // [/tags]
    expect("tags", e.model == Which::personal && e.when == When::after && tenth >= 0 && !effect.deltas.empty() &&
                       everywhere.on() == report::On::union_of_clients());
}

}  // namespace

int main() {
    a_first_run();
    methods();
    a_method_of_ones_own();
    nested_folds();
    endpoints();
    checkpoints("checkpoints");  // in the directory it is started in
    run_time_choice();
    tags();
    return failures == 0 ? 0 : 1;
}
