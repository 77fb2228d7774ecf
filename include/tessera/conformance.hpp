// SPDX-License-Identifier: BSD-3-Clause
// The laws of the contracts, for policies of your own, in whatever test framework you use:
//
//   conformance::fold<F>()              empty, single and equal cohorts, order, weights, streaming, memory, masks
//   conformance::method<Me>()           repeatability, threads, wire, borders, resume, serving, relabelling, rate 0
//   conformance::check_gradients(model) gradients by central differences, fused steps by gradients
//
// Each returns one sentence per broken law; none means passed. `require` throws them instead:
//
//   conformance::require(conformance::fold<Mine>());
//
// Cost: milliseconds. Inputs are made up from fixed keys, so an answer never changes between runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/form.hpp>
#include <tessera/data/synthetic.hpp>
#ifdef _OPENMP
#include <tessera/exec/openmp.hpp>
#endif
#include <tessera/nn/gradient_check.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/uniform.hpp>

namespace tessera::conformance {

inline void require(const Complaints& complaints) {
    std::string all;
    for (const auto& each : complaints) all.append(all.empty() ? "" : "\n").append(each);
    if (!complaints.empty()) throw Error(all);
}

struct FoldLaws {
    bool weighted = true;      // a row of weight 3 counts as three rows; false: weights change nothing
    bool returns_rows = true;  // one row, or equal rows, come out as that row; false: a server optimizer
    bool absent_reads_unchanged = true;  // false: clients without a coordinate have no say in it
};

struct MethodLaws {
    std::size_t rounds = 4;
    bool rate_zero_stays = true;   // with every rate 0 the server's w stays where it began
    bool rate_zero_serves = true;  // and so do the clients' answers; false: a mask search, say, which asks no rate
    bool relabels = true;          // exchanging the numbers of clients exchanges their states and nothing else
};

namespace detail {

// One fold on small cohorts of made-up rows, in one precision.
template <class F, class R>
class FoldBench {
    using M = nn::Mclr<4, 3, R>;
    using Memory = memory_t<F, R>;
    static constexpr std::size_t cohort = 11;

public:
    FoldBench(const F& fold, const FoldLaws& laws, Complaints& complaints)
        : fold_(fold),
          laws_(laws),
          complaints_(complaints),
          data_(data::synthetic({.clients = 1, .seed = 1, .features = 4, .classes = 3, .max_examples = 20})) {
        Stream draw(Key{11});
        before_ = numbers(draw);
        for (std::size_t k = 0; k < cohort; ++k) x_.push_back(numbers(draw));
        for (const Vec<R>& x : x_) rows_.push_back({.x = x, .weight = static_cast<double>(1 + rows_.size() % 3)});
    }

    void check() {
        check_cohorts();
        check_weights();
        check_memory();
        check_streaming();
        if constexpr (accepts_masks<F>) check_masks();
    }

private:
    static Vec<R> numbers(Stream& draw) {
        Vec<R> x(M::parameters);
        for (R& v : x) v = static_cast<R>(draw.normal());
        return x;
    }
    Context<M> context() {
        const auto client = data_[0];
        return {.model = &model_, .examples = client.examples, .ids = client.train, .key = Key{7}, .batch = 5,
                .initial = &before_, .workspace = &workspace_};
    }
    Vec<R> folded(const Vec<Row<R>>& rows, Memory& memory) {
        auto w = before_;
        fold_rows(fold_, context(), w, Rows<R>(rows), memory);
        return w;
    }
    Vec<R> folded(const Vec<Row<R>>& rows) {
        Memory fresh{};
        return folded(rows, fresh);
    }
    // Sums of the same terms in another order: a few roundings of numbers of size 1.
    void near(const Vec<R>& is, const Vec<R>& should, const std::string& law) {
        const double d = distance(is, should), most = std::is_same_v<R, float> ? 1e-5 : 1e-12;
        if (d > most) broken(law + ": it differs by " + tessera::detail::shortest(d));
    }
    void same(const Vec<R>& is, const Vec<R>& should, const std::string& law) {
        if (is != should) broken(law + ": it differs by " + tessera::detail::shortest(distance(is, should)));
    }
    void broken(const std::string& law) {
        complaints_.push_back(std::string("fold, ") + (std::is_same_v<R, float> ? "float: " : "double: ") + law);
    }

    void check_cohorts() {
        near(folded({}), before_, "an empty cohort leaves w as it was");
        const auto one = folded({rows_[0]});
        if (laws_.returns_rows) near(one, x_[0], "a single row comes out as that row");
        for (const std::size_t n : {2u, 3u, 5u})
            near(folded(Vec<Row<R>>(n, rows_[0])), one, std::to_string(n) + " equal rows act as one of them");
        auto idle = rows_;
        for (auto& row : idle) row.weight = 0;
        if (!all_finite(folded(idle))) broken("weights of zero give a number that is not finite");
        if (!all_finite(folded(rows_))) broken("finite rows give a number that is not finite");
        same(folded(rows_), folded(rows_), "the same cohort twice gives the same bits");
        auto reversed = rows_, shuffled = rows_;
        std::reverse(reversed.begin(), reversed.end());
        near(folded(reversed), folded(rows_), "the order of the rows does not matter");
        Stream(Key{12}).shuffle(std::span<Row<R>>(shuffled));
        near(folded(shuffled), folded(rows_), "the order of the rows does not matter");
    }
    void check_weights() {
        for (const double factor : {1024.0, 1.0 / 3}) {
            auto scaled = rows_;
            for (auto& row : scaled) row.weight *= factor;
            near(folded(scaled), folded(rows_), "a common factor of all weights does not matter");
        }
        if (laws_.weighted) {
            Vec<Row<R>> repeated;
            for (const auto& row : rows_)
                for (int i = 0; i < static_cast<int>(row.weight); ++i) repeated.push_back({.x = row.x});
            near(folded(rows_), folded(repeated), "a row of weight 3 counts as three rows of weight 1");
        } else {
            auto uniform = rows_;
            for (auto& row : uniform) row.weight = 1;
            near(folded(uniform), folded(rows_), "weights change nothing, as was said of this fold");
        }
    }
    void check_memory() {
        if constexpr (!tessera::detail::storable<Memory>()) {
            broken("Memory must be a plain struct of numbers, vectors, masks and such structs");
        } else {
            Memory kept{}, travelled{};
            for (std::size_t round = 0; round < 4; ++round) {
                const Vec<Row<R>> rows(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(3 + round));
                Bytes bytes;
                put(bytes, travelled);
                travelled = decode<Memory>(bytes);
                same(folded(rows, travelled), folded(rows, kept), "memory that was saved and read acts the same");
            }
        }
    }
    void check_streaming() {
        if constexpr (LinearFold<F, M>) {
            for (std::size_t n = 1; n <= cohort; ++n) {
                const Vec<Row<R>> rows(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(n));
                for (const bool backwards : {false, true})
                    same(streamed(rows, backwards), folded(rows), "a streamed cohort of " + std::to_string(n) +
                             " has the bits of a kept one, whatever the order of arrival");
            }
        }
    }
    Vec<R> streamed(const Vec<Row<R>>& rows, bool backwards) {
        const std::size_t groups = (rows.size() + lift_width<F> - 1) / lift_width<F>;
        CohortSum<F, R> sums;
        sums.begin(groups);
        auto w = before_;
        for (std::size_t i = 0; i < groups; ++i) {
            const std::size_t group = backwards ? groups - 1 - i : i, first = group * lift_width<F>;
            sum_t<F, R> sum;
            lift_rows<M>(fold_, Rows<R>(rows).subspan(first, std::min(lift_width<F>, rows.size() - first)), w, sum,
                         model_.layout());
            sums.arrive(fold_, group, std::move(sum));
        }
        Memory fresh{};
        finish_sum(fold_, context(), w, sums.total(), fresh);
        return w;
    }
    // A coordinate that a client does not own reads "unchanged"; coordinate 0 is nobody's.
    void check_masks() {
        const Mask all(before_.size(), true);
        auto whole = rows_;
        for (auto& row : whole) row.mask = &all;
        same(folded(whole), folded(rows_), "a mask of everything changes nothing");
        std::vector<Mask> masks;
        std::vector<Vec<R>> packed, filled;
        for (std::size_t k = 0; k < cohort; ++k) {
            auto& mask = masks.emplace_back(before_.size());
            auto& own = packed.emplace_back();
            auto& full = filled.emplace_back(before_);
            for (std::size_t j = 1; j < before_.size(); ++j)
                if ((j + k) % 3 != 0) {
                    mask.set(j, true);
                    own.push_back(full[j] = x_[k][j]);
                }
        }
        Vec<Row<R>> sparse, dense;
        for (std::size_t k = 0; k < cohort; ++k) {
            sparse.push_back({packed[k], rows_[k].weight, &masks[k]});
            dense.push_back({filled[k], rows_[k].weight});
        }
        const auto w = folded(sparse);
        if (laws_.absent_reads_unchanged) near(w, folded(dense), "an absent coordinate reads \"unchanged\"");
        near({w[0]}, {before_[0]}, "a coordinate that no client owns stays as it was");
    }

    const F& fold_;
    FoldLaws laws_;
    Complaints& complaints_;
    data::FederatedDataset data_;
    M model_;
    Workspace<R> workspace_;
    Vec<R> before_;
    std::vector<Vec<R>> x_;
    Vec<Row<R>> rows_;
};

// The last task first: whoever shares something between visits is found out.
struct Backwards {
    static constexpr Offers offers{};
    std::size_t concurrency() const { return 1; }
    template <class Body>
    void for_each(std::size_t tasks, Body&& body) const {
        for (std::size_t task = tasks; task-- > 0;) body(task, std::size_t{0});
    }
};

// use(copy) for every vector of numbers in a value, each time with that one a number short; of many the first few.
template <class T, class Use>
void each_shortened(const T& value, Use&& use) {
    for (std::size_t turn = 0; turn < 12; ++turn) {
        T copy = value;
        std::size_t at = 0;
        bool done = false;
        for_each_vector(copy, [&](auto& x) {
            if (x.empty() || at++ != turn) return;
            x.pop_back();
            done = true;
        });
        if (!done) return;
        if (form_of(copy) != form_of(T{})) use(copy);  // a vector of one number is fresh without it
    }
}

template <class Me, class M>
class MethodBench {
    using R = real<M>;
    using Run = Federation<Me, M>;
    using Trace = std::vector<Fingerprint>;

public:
    MethodBench(const Me& method, const M& model, data::FederatedDataset clients, const MethodLaws& laws)
        : method_(method), model_(model), clients_(std::move(clients)), laws_(laws) {}

    Complaints check() {
        auto straight = make();
        const Trace expected = trace(straight);
        law(trace(make()) == expected, "two runs give the same bits (is something kept outside Server and Client?)");
        law(trace(make(), Backwards{}) == expected, "the order of visits does not matter (do visits share something?)");
#ifdef _OPENMP
        law(trace(make(), exec::OpenMp{3}) == expected, "three threads give the bits of one");
#endif
        auto wired = make();
        wired.over_the_wire();
        law(trace(wired) == expected, "messages that went through their bytes act the same");
        check_borders(straight);
        check_resume(expected);
        check_serving(expected);
        if (laws_.relabels) check_relabelling(straight);
        if (laws_.rate_zero_stays) check_rate_zero();
        return std::move(complaints_);
    }

private:
    void law(bool holds, const std::string& sentence) {
        const std::string complaint = "method: " + sentence;
        if (!holds && std::ranges::find(complaints_, complaint) == complaints_.end()) complaints_.push_back(complaint);
    }
    Settings settings() const { return {.seed = 5, .batch = 10, .rounds = laws_.rounds}; }
    sample::Uniform sampler() const { return {.count = std::min<std::size_t>(4, clients_.size())}; }
    Run make() const { return Run(model_, clients_, method_, settings()); }

    // The state after each of the rounds that are left.
    template <class E = exec::Serial>
    Trace trace(auto&& run, const E& executor = {}) {
        Trace states;
        bool sound = true;
        while (run.rounds_done() < laws_.rounds) {
            const auto report = run.round(sampler(), executor);
            sound = sound && report.diverged == 0 && report.outcome.counted;
            states.push_back(report.state);
        }
        law(sound, "rounds on a harmless toy task count, and end in finite numbers");
        return states;
    }

    // What is a number short is refused, both ways and in both states: else somebody reads past its end.
    void check_borders(const Run& run) {
        const std::size_t parameters = run.setup().initial.size(), round = run.rounds_done();
        Server<Me, M> server(run.setup(), run.size(), run.public_data(),
                             {&run.data().pool().examples(), run.data().split().server});
        server.restore(run.server(), round);
        Workspace<R> workspace;
        for (Id k = 0; k < run.size(); ++k) {
            const auto data = run.data()[k];
            each_shortened(server.send(k), [&](const auto& down) {
                bool refused = false;
                try {
                    Client<Me, M>(run.setup(), k, data, run.client(k))
                        .visit(io::encode_frame(io::Kind::download, parameters, round, k, down));
                } catch (const WireError&) {
                    refused = true;
                }
                law(refused, "a download that is a number short is refused (does `takes` look at every vector?)");
            });
            const auto up = Client<Me, M>(run.setup(), k, data, run.client(k)).visit(server.send(k), round, workspace);
            server.open_round({{.client = k}});
            each_shortened(up, [&](const auto& changed) {
                law(server.accept(k, changed) != Verdict::accepted,
                    "an upload that is a number short is refused (does `admits` look at every vector?)");
            });
            server.abandon_round();
            const Client<Me, M> client(run.setup(), k, data);
            law(client.keeps(run.client(k), workspace), "a client keeps its own state (what does `keeps` say?)");
            each_shortened(run.client(k), [&](const auto& state) {
                law(!client.keeps(state, workspace),
                    "a client's state that is a number short is refused (does `keeps` look at every vector?)");
            });
        }
        law(server.holds(run.server()), "the server's own state is one that it holds (what does `holds` say?)");
        each_shortened(run.server(), [&](const auto& state) {
            law(!server.holds(state),
                "a server's state that is a number short is refused (does `holds` look at every vector?)");
        });
    }

    void check_resume(const Trace& expected) {
        auto first = make();
        first.run(laws_.rounds / 2, sampler());
        Bytes bytes;
        first.save(bytes);
        auto second = make();
        Reader in(bytes);
        second.restore(in);
        law(second.fingerprint() == first.fingerprint(), "a saved state is read back bit for bit");
        law(trace(second).back() == expected.back(),
            "a run that was saved and resumed ends as one that was not (is something kept outside Server and Client?)");
    }

    // Every client's answers on its own training data, also of those who never take part, who come last.
    std::vector<Vec<R>> answers(const Run& run) const {
        std::vector<Vec<R>> all;
        Workspace<R> workspace;
        const auto ask = [&](const ClientData& data, const auto& client, auto received, Workspace<R>& space) {
            const auto predict = client.serve(std::move(received), run.rounds_done(), space);
            auto& out = all.emplace_back(data.train.size() * model_.outputs());
            predict(Batch<R>(*data.examples, data.train), Out<R>(out));
        };
        const auto& data = run.data();
        for (Id k = 0; k < data.size(); ++k) run.at_client(k, workspace, std::bind_front(ask, data[k]));
        for (Id k = 0; k < data.unseen(); ++k) run.at_unseen(k, workspace, std::bind_front(ask, data.unseen(k)));
        return all;
    }
    void check_serving(const Trace& expected) try {
        auto run = make();
        Trace states;
        bool repeats = true, finite = true, silent = true;
        for (std::size_t r = 0; r < laws_.rounds; ++r) {
            states.push_back(run.round(sampler()).state);
            const auto first = answers(run);
            repeats = repeats && first == answers(run);
            finite = finite && std::ranges::all_of(first, [](const Vec<R>& out) { return all_finite(out); });
            silent = silent && run.fingerprint() == states.back();
        }
        law(silent, "serving does not change the state");
        law(states == expected, "serving between rounds does not change the run");
        law(repeats, "a client that is served twice answers twice the same");
        answers_repeat_ = repeats;
        law(finite, "a client's answers are finite");
    } catch (const std::exception& e) {
        law(false, "who never took part is served too (is a number an index?): " + std::string(e.what()));
    }
    static Fingerprint print(const auto& state) {
        Hasher h;
        hash_into(h, state);
        return h.finish();
    }
    void check_relabelling(const Run& straight) {
        data::Split split = clients_.split();
        std::reverse(split.clients.begin(), split.clients.end());
        Run mirrored(model_, {clients_.pool(), std::move(split)}, method_, settings());
        trace(mirrored);
        bool same = true;
        const auto last = static_cast<Id>(straight.size() - 1);
        for (Id k = 0; k <= last; ++k) same = same && print(straight.client(k)) == print(mirrored.client(last - k));
        law(same, "exchanging the numbers of clients exchanges their states (does a visit read at.id?)");
        if (answers_repeat_) {
            const auto ours = answers(straight), theirs = answers(mirrored);
            for (Id k = 0; k <= last; ++k) same = same && ours[k] == theirs[last - k];
            law(same, "exchanging the numbers of clients exchanges their answers (does a visit read at.id?)");
        }
        if constexpr (requires { straight.server().w; })
            law(print(straight.server().w) == print(mirrored.server().w),
                "exchanging the numbers of clients leaves the server's w (does a visit read at.id?)");
    }

    // Only where the rate is a setting named local.rate; what follows from it may be named differently elsewhere.
    void check_rate_zero() {
        if constexpr (Reflectable<Me>) {
            Me still = method_;
            if (!set_by_name(still, "local.rate", "0")) return;
            set_by_name(still, "rate", "0");
            try {
                Run run(model_, clients_, still, settings());
                const bool asks = laws_.rate_zero_serves && answers_repeat_;
                const auto before = asks ? answers(run) : std::vector<Vec<R>>{};
                const auto began = run.server();
                run.run(2, sampler());
                if constexpr (requires { Vec<R>(run.server().w); })
                    law(distance<R>(run.server().w, began.w) < 1e-6,
                        "with every rate 0 the server's w stays where it began");
                const auto after = asks ? answers(run) : before;
                double moved = 0;
                for (std::size_t k = 0; k < before.size(); ++k)
                    moved = std::max(moved, distance<R>(after[k], before[k]));
                // A mean of equal vectors may round, and a network enlarges that.
                law(moved < 1e-4, "with every rate 0 the clients' answers stay what they were (where something moves "
                                  "them that is no rate, or not called so: rate_zero_serves = false)");
            } catch (const ConfigError&) {  // a method may refuse a rate of 0
            }
        }
    }

    const Me& method_;
    const M& model_;
    data::FederatedDataset clients_;
    MethodLaws laws_;
    Complaints complaints_;
    bool answers_repeat_ = false;  // else no other law asks for them
};

// Clients of different sizes with inputs and labels of their own; one never takes part.
inline data::FederatedDataset toy_clients(std::size_t width, std::size_t classes) {
    return data::synthetic({.clients = 8, .seed = 3, .features = width, .classes = classes, .max_examples = 75,
                            .train_share = 0.5, .unseen = 1});
}

}  // namespace detail

// What is asked of F unless you say otherwise: a decorator need not return rows, a server optimizer does not.
template <class F>
constexpr FoldLaws usual_laws() {
    return {.weighted = true, .returns_rows = PlainFold<F, nn::Mclr<4, 3>>};
}

template <class F>
[[nodiscard]] Complaints fold(const F& fold = {}, const FoldLaws& laws = usual_laws<F>()) {
    static_assert(check_fold<F, nn::Mclr<4, 3>>() && check_fold<F, nn::Mclr<4, 3, double>>());
    Complaints complaints;
    detail::FoldBench<F, float>(fold, laws, complaints).check();
    detail::FoldBench<F, double>(fold, laws, complaints).check();
    return complaints;
}

template <class Me, Model M>
[[nodiscard]] Complaints method(const Me& method, const M& model, const data::FederatedDataset& clients,
                                const MethodLaws& laws = {}) {
    return detail::MethodBench<Me, M>(method, model, clients, laws).check();
}
template <class Me, Model M = nn::Dnn<8, 6, 4>>
[[nodiscard]] Complaints method(const Me& method = {}, const M& model = {}, const MethodLaws& laws = {}) {
    return conformance::method(method, model, detail::toy_clients(input_width(model), model.outputs()), laws);
}

// The same on a made-up batch. A model that does not say how wide an example is must be told.
template <Model M>
[[nodiscard]] Complaints check_gradients(const M& model, double tolerance = 1e-6, std::size_t width = 0) {
    if (width == 0) width = input_width(model);
    if (width == 0)
        return {"model: say how many numbers an example has, as in check_gradients(model, 1e-6, 60)"};
    const auto clients = detail::toy_clients(width, std::max<std::size_t>(1, model.outputs()));
    const auto data = clients[0];
    const Key draw{22};  // a training batch: dropout acts, the same way every time
    return check_gradients(model, Batch<real<M>>(*data.examples, data.train.first(8), {}, &draw), tolerance);
}

}  // namespace tessera::conformance
