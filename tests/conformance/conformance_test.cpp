// SPDX-License-Identifier: BSD-3-Clause
// The kit passes what is right and says what is wrong: every law has a policy here that breaks it.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <tessera/conformance.hpp>
#include <tessera/fold/relax.hpp>
#include <tessera/fold/server_adaptive.hpp>
#include <tessera/fold/server_momentum.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/local.hpp>

#include <support/two_models.hpp>

using namespace tessera;
using conformance::Complaints;

namespace {

bool says(const Complaints& complaints, const std::string& words) {
    for (const auto& each : complaints)
        if (each.find(words) != std::string::npos) return true;
    return false;
}
std::string joined(const Complaints& complaints) {
    std::string all;
    for (const auto& each : complaints) all += each + "\n";
    return all;
}

// ---- wrong folds: `mean` is right but for what its name says

enum class Wrong { nothing, forgets_weights, reads_order, adds_weights, ignores_absence, keeps_count, not_finite };

template <Wrong W>
struct Average {
    static constexpr Offers offers = offer::when(W == Wrong::ignores_absence, offer::masked);
    mutable std::uint64_t calls = 0;  // where memory does not belong
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        using R = real<M>;
        if (rows.empty()) return;
        double total = 0;
        Vec<double> sum(w.size());
        for (std::size_t k = 0; k < rows.size(); ++k) {
            double weight = W == Wrong::forgets_weights ? 1 : rows[k].weight;
            if (W == Wrong::reads_order && k == 0) weight *= 1.01;
            total += weight;
            std::size_t packed = 0;
            for (std::size_t j = 0; j < w.size(); ++j) {
                const bool here = !rows[k].mask || (*rows[k].mask)[j];
                sum[j] += weight * (here ? static_cast<double>(rows[k].mask ? rows[k].x[packed] : rows[k].x[j]) : 0.0);
                packed += here;
            }
        }
        if (W == Wrong::adds_weights) total += 1e-3;
        if (total == 0 && W != Wrong::not_finite) return;
        for (std::size_t j = 0; j < w.size(); ++j) w[j] = static_cast<R>(sum[j] / total);
        if (W == Wrong::keeps_count) w[0] += static_cast<R>(++calls) * R(0.01);
    }
};

// Linear, but streams with another arithmetic than it keeps.
struct StreamsDifferently : fold::Mean {
    static constexpr auto offers = offer::streams | offer::lift_width;
    template <class M>
    void fold(const Context<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        double total = 0;
        Vec<double> sum(w.size());
        for (const auto& row : rows) {
            total += row.weight;
            for (std::size_t j = 0; j < w.size(); ++j) sum[j] += row.weight * static_cast<double>(row.x[j]);
        }
        for (std::size_t j = 0; j < w.size(); ++j) w[j] = total > 0 ? static_cast<real<M>>(sum[j] / total) : w[j];
    }
};

// Remembers in a form that cannot be written down.
struct Unwritable {
    static constexpr auto offers = offer::keeps;
    template <class R>
    struct Memory {
        std::map<int, R> seen;
    };
    template <class M>
    void fold(const Context<M>& context, Vec<real<M>>& w, Rows<real<M>> rows, Memory<real<M>>&) const {
        Nothing nothing;
        fold::Mean{}.fold(context, w, rows, nothing);
    }
    bool keeps(const auto&, std::size_t) const { return true; }
};

// ---- wrong methods

// FedAvg's text with a slip.
enum class Bend : std::uint8_t {
    counts_in_client,
    counts_beside_client,
    counts_for_all,
    reads_number,
    moves_without_rate,
    explodes
};
std::atomic<std::uint64_t> visits_of_all{0};
std::array<std::atomic<std::uint64_t>, 16> visits_of_each{};

struct Bent {
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};
    Bend how = Bend::counts_in_client;
    template <class R>
    struct Client {
        std::uint64_t visits = 0;
    };
    auto visit(const auto& at, auto w, auto& me) const {
        descend(at, w, at.epochs(1), local);
        w[0] += 0.001f * static_cast<float>(slip(at, me));
        return up(at, std::move(w));
    }
    double slip(const auto& at, auto& me) const {
        switch (how) {
            case Bend::counts_in_client: return static_cast<double>(++me.visits);  // where it belongs
            case Bend::counts_beside_client: return static_cast<double>(++visits_of_each[at.id]);  // lost on resume
            case Bend::counts_for_all: return static_cast<double>(++visits_of_all);
            case Bend::reads_number: return at.id;
            case Bend::moves_without_rate: return 1;
            case Bend::explodes: return std::numeric_limits<double>::infinity();
        }
        return 0;
    }
};

std::atomic<std::uint64_t> times_served{0};
struct AnswersDifferently {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};
    auto visit(const auto& at, auto w, Nothing&) const {
        descend(at, w, at.epochs(1), local);
        return up(at, std::move(w));
    }
    auto serve(const auto& at, auto w, Nothing) const {
        w[0] += static_cast<float>(++times_served);
        return plain(at, std::move(w));
    }
};

// Keeps something for each client, and has nothing for a stranger.
struct ServesMembersOnly {
    static constexpr auto by_default = verb::serve;
    static constexpr auto offers = offer::no_global;
    rule::Sgd local{};
    template <class R>
    struct Server {
        Vec<R> w;
        Vec<Vec<R>> all;
    };
    template <class M, class R = real<M>>
    Server<R> open(const Context<M>&, Vec<R> w, std::size_t clients) const {
        return {w, Vec<Vec<R>>(clients, w)};
    }
    template <class R>
    Vec<R> send(const Server<R>& server, Id client) const {
        return server.all.at(client);
    }
    template <class M, class R = real<M>>
    Up<R> visit(const Context<M>& at, Vec<R> w, Nothing&) const {
        descend(at, w, at.epochs(1), local);
        return up(at, std::move(w));
    }
    template <class R>
    void merge(const auto&, Server<R>& server, std::span<const Up<R>> uploads) const {
        for (auto& w : server.all) w = uploads[0].x;
    }
};

// A personal model that moves whatever the rate; the server's w is FedAvg's.
struct DriftsAtHome {
    static constexpr auto by_default = verb::open | verb::send | verb::merge;
    static constexpr Offers offers{};
    rule::Sgd local{};
    fold::Mean fold{};
    template <class R>
    struct Client {
        Vec<R> v;
    };
    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, Vec<R> w, Client<R>& me) const {
        for (auto& v : start(me.v, w)) v += R(0.25);
        descend(at, w, at.epochs(1), local);
        return up(at, std::move(w));
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<R> w, Client<R> me) const {
        return plain(at, std::move(start(me.v, w)));
    }
};

// Nothing is called w, no client keeps anything, and a visit reads its client's number.
struct NumbersItsModels {
    static constexpr auto by_default = Verbs{};
    static constexpr auto offers = offer::admits | offer::no_global;
    rule::Sgd local{};
    double step = 0.1;
    template <class R>
    struct Server {
        Vec<Vec<R>> models;
    };
    template <class M, class R = real<M>>
    Server<R> open(const Context<M>&, Vec<R> w, std::size_t) const {
        return {{w, w}};
    }
    template <class R>
    Vec<R> send(const Server<R>& server, Id) const {
        return server.models[0];
    }
    template <class M, class R = real<M>>
    Up<R> visit(const Context<M>& at, Vec<R> w, Nothing&) const {
        descend(at, w, at.epochs(1), local);
        w[0] += R(step * (1 + at.id));
        return up(at, std::move(w));
    }
    bool admits(const auto& server, Id, const auto& up) const { return up.x.size() == server.models[0].size(); }
    template <class R>
    void merge(const auto&, Server<R>& server, std::span<const Up<R>> uploads) const {
        auto& model = server.models[0] = Vec<R>(uploads[0].x.size());
        for (const auto& upload : uploads)
            for (std::size_t j = 0; j < model.size(); ++j) model[j] += upload.x[j] / static_cast<R>(uploads.size());
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, Vec<R> w, Nothing) const {
        return plain(at, std::move(w));
    }
};

// ---- wrong models

enum class Slip { none, sign, bias, adds, fused };

template <Slip S, class R>
struct Slipping : nn::Dnn<6, 5, 3, R> {
    using Net = nn::Dnn<6, 5, 3, R>;
    double gradient(In<R> x, const Batch<R>& b, Out<R> out) const {
        const Vec<R> before(out.begin(), out.end());
        const double loss = Net::gradient(x, b, out);
        if (S == Slip::sign) out[3] = -out[3];
        if (S == Slip::bias)
            for (std::size_t j = 30; j < 35; ++j) out[j] *= R(1.1);
        if (S == Slip::adds)
            for (std::size_t j = 0; j < out.size(); ++j) out[j] += before[j];
        return loss;
    }
    double fused_step(Out<R> x, const Batch<R>& b, const Step<R>& s) const {
        const double loss = Net::fused_step(x, b, s);
        if (S == Slip::fused) x[2] += R(0.01);
        return loss;
    }
};

}  // namespace

TEST_CASE("the library's own folds pass") {
    CHECK_MESSAGE(conformance::fold<fold::Mean>().empty(), joined(conformance::fold<fold::Mean>()));
    CHECK(conformance::fold<fold::Relax<>>().empty());
    CHECK(conformance::fold<fold::Relax<>>({.beta = 0.3}).empty());
    CHECK(conformance::fold<fold::ServerMomentum<>>().empty());
    CHECK(conformance::fold<fold::ServerAdam<>>().empty());
    CHECK(conformance::fold<fold::ServerYogi<fold::Relax<>>>().empty());
    CHECK(conformance::fold<Average<Wrong::nothing>>().empty());
}

TEST_CASE("a wrong fold is told what it does wrong, in both precisions") {
    const auto finds = []<class F>(const F& fold, const std::string& law, conformance::FoldLaws laws = {}) {
        const auto complaints = conformance::fold<F>(fold, laws);
        CAPTURE(joined(complaints));
        CHECK(says(complaints, "float: " + law));
        CHECK(says(complaints, "double: " + law));
    };
    finds(Average<Wrong::forgets_weights>{}, "a row of weight 3 counts as three rows of weight 1");
    finds(Average<Wrong::reads_order>{}, "the order of the rows does not matter");
    finds(Average<Wrong::adds_weights>{}, "a single row comes out as that row");
    finds(Average<Wrong::adds_weights>{}, "3 equal rows act as one of them");
    finds(Average<Wrong::adds_weights>{}, "a common factor of all weights does not matter");
    finds(Average<Wrong::ignores_absence>{}, "an absent coordinate reads \"unchanged\"");
    finds(Average<Wrong::ignores_absence>{}, "a coordinate that no client owns stays as it was");
    finds(Average<Wrong::keeps_count>{}, "the same cohort twice gives the same bits");
    finds(Average<Wrong::keeps_count>{}, "memory that was saved and read acts the same");
    finds(Average<Wrong::not_finite>{}, "weights of zero give a number that is not finite");
    finds(Unwritable{}, "Memory must be a plain struct");
    finds(StreamsDifferently{}, "a streamed cohort of");
    finds(fold::Mean{}, "weights change nothing, as was said of this fold", {.weighted = false});
    finds(fold::ServerAdam<>{}, "a single row comes out as that row");
    CHECK(conformance::fold<Average<Wrong::forgets_weights>>({}, {.weighted = false}).empty());
}

TEST_CASE_TEMPLATE("the library's own methods pass", Me, FedAvgFt<>, Local<>, FedAvg<rule::Sgd, fold::ServerAdam<>>,
                   support::TwoModels<>) {
    const auto complaints = conformance::method<Me>();
    CHECK_MESSAGE(complaints.empty(), joined(complaints));
}

TEST_CASE("a wrong method is told what it does wrong") {
    const auto of = [](Bend how, const conformance::MethodLaws& laws = {}) {
        return conformance::method(Bent{.how = how}, nn::Dnn<8, 6, 4>{}, laws);
    };
    CHECK(of(Bend::counts_in_client, {.rate_zero_stays = false}).empty());

    const auto shares = of(Bend::counts_for_all);
    CAPTURE(joined(shares));
    CHECK(says(shares, "two runs give the same bits"));
    CHECK(says(shares, "the order of visits does not matter"));
    CHECK(says(shares, "a run that was saved and resumed ends as one that was not"));
    CHECK(says(shares, "messages that went through their bytes act the same"));
#ifdef _OPENMP
    CHECK(says(shares, "three threads give the bits of one"));
#endif

    CHECK(says(of(Bend::counts_beside_client), "a run that was saved and resumed ends as one that was not"));

    const auto numbered = of(Bend::reads_number);
    CHECK(says(numbered, "exchanging the numbers of clients leaves the server's w"));
    CHECK_FALSE(says(numbered, "two runs"));
    CHECK(of(Bend::reads_number, {.rate_zero_stays = false, .relabels = false}).empty());  // laws can be laid aside

    const auto moves = of(Bend::moves_without_rate);
    CHECK(moves.size() == 2);
    CHECK(says(moves, "with every rate 0 the server's w stays"));
    CHECK(says(moves, "with every rate 0 the clients' answers stay"));
    const auto drifts = conformance::method<DriftsAtHome>();
    CHECK(drifts.size() == 1);
    CHECK(says(drifts, "with every rate 0 the clients' answers stay"));
    CHECK(conformance::method(DriftsAtHome{}, nn::Dnn<8, 6, 4>{}, {.rate_zero_serves = false}).empty());
    const auto nameless = conformance::method<NumbersItsModels>();
    CHECK(nameless.size() == 2);
    CHECK(says(nameless, "exchanging the numbers of clients exchanges their answers"));
    CHECK(says(nameless, "with every rate 0 the clients' answers stay"));
    CHECK(says(of(Bend::explodes), "end in finite numbers"));
    const auto moody = conformance::method<AnswersDifferently>();
    CHECK(moody.size() == 1);
    CHECK(says(moody, "a client that is served twice answers twice the same"));
    const auto closed = conformance::method<ServesMembersOnly>();
    CHECK(closed.size() == 1);
    CHECK(says(closed, "who never took part is served too (is a number an index?)"));
}

TEST_CASE("right gradients pass, also with kinks, dropout and in float") {
    CHECK(conformance::check_gradients(nn::Mclr<6, 3, double>{}).empty());
    CHECK(conformance::check_gradients(nn::Mclr<6, 3>{}).empty());
    CHECK(conformance::check_gradients(nn::Dnn<8, 5, 3, double>{}).empty());
    CHECK(conformance::check_gradients(nn::Dnn<60, 20, 10>{}).empty());
    const auto deep = nn::chain(nn::Linear{9}, nn::Relu{}, nn::Linear{7}, nn::Dropout{}, nn::Linear{3});
    CHECK(conformance::check_gradients(nn::Network<double>(6, deep)).empty());
    CHECK(conformance::check_gradients(Slipping<Slip::none, double>{}).empty());
}

TEST_CASE_TEMPLATE("a wrong gradient is named", R, float, double) {
    const auto sign = conformance::check_gradients(Slipping<Slip::sign, R>{});
    CAPTURE(joined(sign));
    CHECK(says(sign, "the gradient of 0.weight is wrong in 1 of 30 coordinates tried; coordinate 3 says"));
    const auto bias = conformance::check_gradients(Slipping<Slip::bias, R>{});
    CAPTURE(joined(bias));
    CHECK(says(bias, "the gradient of 0.bias is wrong"));
    CHECK_FALSE(says(bias, "0.weight"));
    CHECK(says(conformance::check_gradients(Slipping<Slip::adds, R>{}), "must overwrite `out`"));
    CHECK(says(conformance::check_gradients(Slipping<Slip::fused, R>{}), "a fused step is not a step along"));
}

TEST_CASE("require throws what was said") {
    CHECK_NOTHROW(conformance::require({}));
    CHECK_THROWS_WITH_AS(conformance::require({"one", "two"}), "one\ntwo", Error);
}
