// SPDX-License-Identifier: BSD-3-Clause
// Regions of this file are quoted in docs/policies: how each kind of policy is used, and one written by a user.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <tessera/data/normalise.hpp>
#include <tessera/data/partition.hpp>
#include <tessera/exec/serial.hpp>
#include <tessera/fold/mean.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/sgd.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>
#include <tessera/sample/uniform.hpp>

using namespace tessera;

namespace mine {

// [rule]
// Sign descent (Bernstein et al., ICML 2018): x -= rate * sign(m), m = momentum m + (1 - momentum) d.
struct SignSgd {
    static constexpr auto offers = offer::validate;
    double rate = 0.001;
    double momentum = 0.9;  // in [0, 1)

    template <class R>
    struct Memory {
        Vec<R> m, g;
    };

    template <class M>
    double step(const Context<M>& at, Vec<real<M>>& x, const Batch<real<M>>& b, const Terms<real<M>>& terms,
                Memory<real<M>>& memory) const {
        using R = real<M>;
        memory.m.resize(x.size());
        memory.g.resize(x.size());
        const double loss = at.gradient(x, b, memory.g);
        terms.on.each(x.size(), [&](Range range) {
            for (std::size_t j = range.begin; j < range.end; ++j) {
                if (terms.active && !(*terms.active)[j]) continue;
                R d = memory.g[j];
                if (terms.prox_weight != 0) d += R(terms.prox_weight) * (x[j] - terms.prox_center[j]);
                if (!terms.linear.empty()) d += terms.linear[j];
                const R m = memory.m[j] = R(momentum) * memory.m[j] + R(1 - momentum) * d;
                x[j] -= R(rate) * static_cast<R>((m > 0) - (m < 0));
            }
        });
        return loss;
    }
    void validate() const {
        detail::require(rate >= 0, "rate must be 0 or more, not " + std::to_string(rate));
        detail::require(momentum >= 0 && momentum < 1, "momentum must lie in [0, 1), not " + std::to_string(momentum));
    }
};
// [/rule]

// [fold]
// Coordinate-wise median of the cohort. Ignores weights; not linear, so the cohort is kept in memory.
struct Median {
    static constexpr Offers offers{};
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        if (rows.empty()) return;
        Vec<real<M>> column(rows.size());
        const auto middle = column.begin() + static_cast<std::ptrdiff_t>(column.size() / 2);
        for (std::size_t j = 0; j < w.size(); ++j) {
            for (std::size_t k = 0; k < rows.size(); ++k) column[k] = rows[k].x[j];
            std::nth_element(column.begin(), middle, column.end());
            const auto upper = *middle;
            w[j] = column.size() % 2 == 1 ? upper : (*std::max_element(column.begin(), middle) + upper) / 2;
        }
    }
};
// [/fold]

// [decorator]
// No coordinate moves further than `most` in a round, whatever the inner fold says.
template <class Inner = fold::Mean>
struct Bounded {
    static constexpr auto offers = offer::validate;
    double most = 0.1;
    Inner inner{};

    template <class R>
    struct Memory {
        memory_t<Inner, R> inner;
    };

    template <class M>
    void around(const Context<M>&, Vec<real<M>>& w, auto&, auto&& fold_inner) const {
        using R = real<M>;
        auto to = w;
        fold_inner(to);
        for (std::size_t j = 0; j < w.size(); ++j) w[j] += std::clamp<R>(to[j] - w[j], R(-most), R(most));
    }
    void validate() const { detail::require(most > 0, "most must be positive, not " + std::to_string(most)); }
};
// [/decorator]

// [sampler]
// Every client takes part with the same probability, on its own coin. A round may be empty.
struct Coin {
    static constexpr Offers offers{};
    double probability = 0.1;  // in [0, 1]

    Plan plan(Key key, std::size_t round, std::span<const Candidate> candidates) const {
        const Key draw = key(purpose::sampling)(round);
        struct Drawn {
            double number;
            Id client;
        };
        Vec<Drawn> in;
        for (const auto& c : candidates)
            if (const double number = Stream(draw(c.key)).uniform(); number < probability) in.push_back({number, c.client});
        std::sort(in.begin(), in.end(), [](const Drawn& a, const Drawn& b) { return a.number < b.number; });
        Plan plan;
        for (const auto& drawn : in) plan.push_back({.client = drawn.client});
        return plan;
    }
};
// [/sampler]

// [executor]
// The last task first: a run must not notice.
struct Backwards {
    static constexpr Offers offers{};
    std::size_t concurrency() const { return 1; }

    template <class Body>
    void for_each(std::size_t tasks, Body&& body) const {
        for (std::size_t task = tasks; task-- > 0;) body(task, std::size_t{0});
    }
};
// [/executor]

// [partition]
// Client k of N gets a share of the training file proportional to 1/(k + 1); tests are dealt evenly.
struct PowerLaw {
    data::Split operator()(const data::Dataset& pool, const data::PartitionSettings& s) const {
        detail::require(s.clients > 0 && s.train_size <= pool.size(), "power law: the settings do not fit the pool");
        std::vector<Index> order(pool.size());
        std::iota(order.begin(), order.end(), Index{0});
        const Key key = Key{s.seed}(purpose::partition);
        Stream(key(0)).shuffle(std::span(order).first(s.train_size));
        Stream(key(1)).shuffle(std::span(order).subspan(s.train_size));

        double total = 0, reached = 0;
        for (std::size_t k = 0; k < s.clients; ++k) total += 1.0 / static_cast<double>(k + 1);
        const auto at = [&](std::size_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
        const std::size_t tests = pool.size() - s.train_size;
        std::size_t from = 0;
        data::Split split;
        for (std::size_t k = 0; k < s.clients; ++k) {
            reached += 1.0 / static_cast<double>(k + 1) / total;
            const auto share = static_cast<std::size_t>(reached * static_cast<double>(s.train_size));
            const std::size_t to = k + 1 < s.clients ? std::min(share, s.train_size) : s.train_size;
            split.clients.push_back({.train = {at(from), at(to)},
                                     .test = {at(s.train_size + k * tests / s.clients),
                                              at(s.train_size + (k + 1) * tests / s.clients)},
                                     .key = Key{s.seed}(purpose::client)(k).key});
            from = to;
        }
        return split;
    }
};
// [/partition]

// [layer]
// y = tanh(x). Backward reads the output, so nothing is saved.
struct Tanh {
    static constexpr Offers offers{};

    constexpr void infer(nn::Spec& s) const {
        s.out = s.in[0];
        s.in_place = true;                    // y may lie where x lies
        s.backward_reads = nn::Reads::y;      // and x may be gone by then
    }
    template <class R>
    void forward(const nn::Pass<R>& p) const {
        for (std::size_t i = 0; i < p.read(); ++i) p.y[i] = std::tanh(p.x()[i]);
    }
    template <class R>
    void backward(const nn::Pass<R>& p) const {
        for (std::size_t i = 0; p.dx() && i < p.read(); ++i) p.dx()[i] = p.dy[i] * (1 - p.y[i] * p.y[i]);
    }
};
static_assert(nn::check_layer<Tanh, float>());
// [/layer]

// [model]
// Least squares with a line through the origin: f(w) = mean of (w . x - target)^2 / 2.
template <std::size_t Features, class R = double>
struct Line {
    using Real = R;
    static constexpr Offers offers{};
    static constexpr std::array<Segment, 1> segments{
        Segment{.name = "slope", .part = Part::head, .shape = {Features, 1, 1, 1}, .fan_in = Features}};

    Layout layout() const { return segments; }
    std::size_t outputs() const { return 1; }

    double gradient(In<R> w, const Batch<R>& batch, Out<R> out) const {
        std::fill(out.begin(), out.end(), R(0));
        double loss = 0;
        each(w, batch, [&](std::size_t i, In<R> x, R value) {
            const R miss = value - batch.target(i), scale = batch.weight(i) / static_cast<R>(batch.size());
            loss += static_cast<double>(scale * miss * miss) / 2;
            for (std::size_t j = 0; j < Features; ++j) out[j] += scale * miss * x[j];
        });
        return loss;
    }
    void predict(In<R> w, const Batch<R>& batch, Out<R> out) const {
        each(w, batch, [&](std::size_t i, In<R>, R value) { out[i] = value; });
    }

private:
    template <class F>
    static void each(In<R> w, const Batch<R>& batch, F&& f) {
        Vec<R> x(Features);
        for (std::size_t i = 0; i < batch.size(); ++i) {
            batch.read(i, x);
            f(i, x, std::inner_product(x.begin(), x.end(), w.begin(), R(0)));
        }
    }
};
static_assert(Model<Line<3>>);
// [/model]

}  // namespace mine

namespace {

int failures = 0;
void expect(const char* what, bool holds) {
    if (!holds) std::printf("failed: %s\n", what), ++failures;
}

data::Dataset pictures() {
    Stream draw(Key{5});
    std::vector<std::uint8_t> pixels(400 * 8);
    std::vector<std::int32_t> labels;
    for (auto& p : pixels) p = static_cast<std::uint8_t>(draw.below(256));
    for (std::int32_t i = 0; i < 400; ++i) labels.push_back(i % 4);
    return data::Dataset::own(std::move(pixels), std::move(labels), 4);
}
using Net = nn::Mclr<8, 4>;

void data_room() {
    // [data]
    data::Dataset pool = data::standardised(pictures());  // bytes stay bytes; they are read as (byte - shift) * scale
    const data::PartitionSettings settings{.clients = 10, .seed = 1, .train_size = 300, .validation = 0.1, .unseen = 2};
    data::Split split = data::Dirichlet{.alpha = 0.3}(pool, settings);
    const data::FederatedDataset clients(pool, split);  // 8 that train, 2 never seen
    // [/data]
    expect("eight and two", clients.size() == 8 && clients.unseen() == 2);
    const data::Split named = data::partition_by_name("dirichlet:0.3", pool, settings);
    expect("by name", named.clients[3].train == split.clients[3].train);

    // [borrow]
    const std::vector<float> rows(6 * 2, 0.5f);  // six examples of two numbers, kept by you
    const std::vector<std::int32_t> labels{0, 1, 0, 1, 0, 1};
    const auto mine = data::Dataset::borrow(rows, labels, 2);  // no copy
    // [/borrow]
    expect("borrowed", mine.size() == 6);

    // [partition_test]
    const data::Split dealt = mine::PowerLaw{}(pool, {.clients = 5, .seed = 1, .train_size = 300});
    const auto fault = data::fault_in(dealt, pool.size(), data::Tests::disjoint);  // a sentence, or nothing
    // [/partition_test]
    expect(fault ? fault->c_str() : "power law", !fault);
    std::size_t held = 0;
    for (const auto& c : dealt.clients) held += c.train.size() + c.test.size();
    expect("every example is dealt", held == pool.size());
}

data::FederatedDataset clients() {
    const auto pool = data::standardised(pictures());
    return {pool, data::Iid{}(pool, {.clients = 8, .seed = 1, .train_size = 300})};
}

void rules() {
    // [rule_use]
    const FedAvg<> sgd{.local = {.rate = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .clip = 1,
                                 .schedule = {.decay = rule::Decay::cosine}}};
    const FedAvg<mine::SignSgd> sign{.local = {.rate = 0.01}};
    // [/rule_use]
    Federation<FedAvg<>, Net> a{{}, clients(), sgd, {.rounds = 4}};
    Federation<FedAvg<mine::SignSgd>, Net> b{{}, clients(), sign, {.rounds = 4}};
    const auto first = a.round(sample::Everyone{}).train_loss;
    a.run(3, sample::Everyone{});
    b.run(4, sample::Everyone{});
    expect("SGD ran", std::isfinite(first) && a.rounds_done() == 4);
    expect("sign descent moves every coordinate", b.server().w != b.setup().initial);

    // [rule_test]
    const mine::Line<1> line;
    const auto one = data::Dataset::regression({1}, {3});  // f(w) = (w - 3)^2 / 2
    const Index zero = 0;
    Workspace<double> workspace;
    const Context<mine::Line<1>> at{
        .model = &line, .examples = &one.examples(), .ids = {&zero, 1}, .workspace = &workspace};
    Vec<double> w{0};
    descend(at, w, at.epochs(5), mine::SignSgd{.rate = 0.25, .momentum = 0});
    const bool five_steps_up = w[0] == 1.25;
    // [/rule_test]
    expect("five steps of a quarter", five_steps_up);
    // [step_use]
    auto step =
        walk(at, rule::Sgd{.rate = 0.5}, {.prox_center = w, .prox_weight = 0.1});  // one step at a time; `w` must stay
    Vec<double> x{0};
    for (const auto b : at.epochs(2)) step(x, b);
    // [/step_use]
    expect("two pulled steps", x[0] > 1.5 && x[0] < 3);
}

void folds() {
    // [fold_use]
    const FedAvg<rule::Sgd, fold::Relax<fold::ServerMomentum<>>> a{
        .fold = {.beta = 0.5, .inner = {.server_rate = 1, .server_momentum = 0.9}}};
    const FedAvg<rule::Sgd, mine::Bounded<mine::Median>> b{.fold = {.most = 0.05}};
    // [/fold_use]
    Federation<std::remove_cvref_t<decltype(a)>, Net> run_a{{}, clients(), a};
    Federation<std::remove_cvref_t<decltype(b)>, Net> run_b{{}, clients(), b};
    run_a.run(2, sample::Everyone{});
    run_b.run(1, sample::Everyone{});
    double furthest = 0;
    for (std::size_t j = 0; j < run_b.server().w.size(); ++j)
        furthest = std::max(furthest, std::abs(double(run_b.server().w[j]) - double(run_b.setup().initial[j])));
    expect("the median is bounded", furthest > 0 && furthest < 0.0501);

    // [fold_test]
    using M = mine::Line<2>;
    static_assert(Fold<mine::Median, M> && !LinearFold<mine::Median, M>);
    static_assert(LinearFold<mine::Bounded<>, M> && accepts_masks<mine::Bounded<>>);  // as its inner fold
    const std::vector<double> x1{1, 10}, x2{2, 30}, x3{9, 20};
    const std::vector<Row<double>> rows{{x1}, {x2}, {x3}};
    Vec<double> w{0, 0};
    Nothing nothing;
    fold_rows(mine::Median{}, Context<M>{}, w, Rows<double>(rows), nothing);
    const bool medians = w == Vec<double>{2, 20};
    // [/fold_test]
    expect("medians by hand", medians);
}

void samplers_and_executors() {
    // [sample_use]
    Federation<FedAvg<>, Net> run{{}, clients(), {}, {.seed = 1}};
    run.round(sample::Everyone{});
    run.round(sample::Uniform{.count = 4});
    run.round(sample::Uniform{.count = 4, .everyone_trains = true});  // all visit, four are merged
    run.round(mine::Coin{.probability = 0.5});
    // [/sample_use]
    expect("four rounds", run.rounds_done() == 4);

    // [sample_test]
    const std::vector<Candidate> people{{0, 11}, {1, 12}, {2, 13}}, relabelled{{0, 13}, {1, 11}, {2, 12}};
    const Plan a = mine::Coin{.probability = 0.7}.plan(Key{1}, 0, people);
    const Plan b = mine::Coin{.probability = 0.7}.plan(Key{1}, 0, relabelled);
    bool same = a.size() == b.size();  // the same people, in the same order, under other numbers
    for (std::size_t i = 0; same && i < a.size(); ++i) same = people[a[i].client].key == relabelled[b[i].client].key;
    // [/sample_test]
    expect("relabelling changes nothing", same);

    // [exec_test]
    Federation<FedAvg<>, Net> forwards{{}, clients(), {}, {.seed = 1}}, backwards{{}, clients(), {}, {.seed = 1}};
    forwards.run(3, sample::Uniform{.count = 5}, exec::Serial{});
    backwards.run(3, sample::Uniform{.count = 5}, mine::Backwards{});
    const bool same_bits = forwards.fingerprint() == backwards.fingerprint();
    // [/exec_test]
    expect("the order of tasks does not show", same_bits);
}

void nets() {
    // [nn_use]
    constexpr auto layers = nn::chain(nn::Linear{16}, mine::Tanh{}, nn::Dropout{.rate = 0.2}, nn::Linear{4});
    static_assert(nn::parameters(8, layers) == 8 * 16 + 16 + 16 * 4 + 4);
    const nn::Network<float> net(8, layers);
    const Coordinates head = on<scope::Head>(net);
    // [/nn_use]
    expect("the head is the last layer", head.size(dimension(net)) == 16 * 4 + 4);
    Federation<FedAvg<>, nn::Network<float>> run{net, clients(), {.local = {.rate = 0.1}}};
    expect("a network trains", std::isfinite(run.round(sample::Everyone{}).train_loss));

    // [model_use]
    const auto pool = data::Dataset::regression({1, 2, 3, 4}, {2, 4, 6, 8});  // targets are twice the feature
    const data::FederatedDataset two(pool, {.clients = {{.train = {0, 1}, .key = 1}, {.train = {2, 3}, .key = 2}}});
    Federation<FedAvg<>, mine::Line<1>> lines{{}, two, {.local = {.rate = 0.05}}, {.batch = 0}};
    lines.run(60, sample::Everyone{});
    // [/model_use]
    expect("the slope is found", std::abs(lines.server().w[0] - 2) < 1e-6);
}

}  // namespace

int main() {
    data_room();
    rules();
    folds();
    samplers_and_executors();
    nets();
    return failures == 0 ? 0 : 1;
}
