// SPDX-License-Identifier: BSD-3-Clause
// Two sets of runs against each other, with intervals that say what they are about.
//
// Over seeds: how the two methods differ on this data, over everything a seed moves. Runs with the same seed are paired
// (Student's t of their differences); sets with other seeds are not (Welch's t). Values are taken as independent and
// near normal, which a mean over many test examples is. Only this interval supports a claim.
//
// Over clients: how the trained models at hand differ, over clients like these; the clients' differences are drawn
// again with replacement (percentile bootstrap). All clients of a run share its seed's luck, so two seeds of one method
// often differ here: that is no difference between methods, and no claim is made from it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/seeds.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report {

// Which model of a method stands for it: the personal one where there is one, or always this one.
enum class Compared : std::uint8_t { served, personal, global };
constexpr std::array<std::string_view, 3> words_of(Compared) { return {"served", "personal", "global"}; }

struct CompareSettings {
    double confidence = 0.95;
    bool unpaired = false;  // sets on different data or splits: means only, clients are not matched
    Compared model = Compared::served;
    std::size_t resamples = 4000;  // of the clients
    std::uint64_t seed = 1;        // of the resampling

    void validate() const {
        tessera::detail::require(confidence > 0 && confidence < 1, "confidence must lie between 0 and 1, as in 0.95");
        tessera::detail::require(resamples >= 100, "resamples must be at least 100");
    }
};

struct Interval {
    double mean = absent, low = absent, high = absent;
    bool known() const { return std::isfinite(low) && std::isfinite(high); }
    // A point has no width to be sure of: equal differences are a coincidence or no experiment.
    bool excludes_zero() const { return known() && low < high && (low > 0 || high < 0); }
};

namespace detail {

// Regularised incomplete beta function by Lentz's continued fraction, for x < (a + 1) / (a + b + 2).
inline double beta_fraction(double a, double b, double x) {
    constexpr double tiny = 1e-300;
    const auto away = [](double v) { return std::abs(v) < tiny ? tiny : v; };
    double c = 1, d = 1 / away(1 - (a + b) * x / (a + 1)), f = d;
    for (int m = 1; m < 400; ++m) {
        const double k = m;
        for (const double step : {k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k)),
                                  -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))}) {
            d = 1 / away(1 + step * d);
            c = away(1 + step / c);
            f *= c * d;
        }
        if (std::abs(c * d - 1) < 1e-15) break;
    }
    return f;
}
inline double incomplete_beta(double a, double b, double x) {
    if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
    const double front =
        std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace detail

// The t for which |T| <= t has this probability; the degrees of freedom need not be whole.
inline double student_t(double confidence, double freedom) {
    const auto outside = [&](double t) {
        return detail::incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
    };
    double low = 0, high = 1;
    while (outside(high) > 1 - confidence && high < 1e12) high *= 2;
    for (int i = 0; i < 200 && high - low > 1e-14 * high; ++i) {
        const double middle = (low + high) / 2;
        (outside(middle) > 1 - confidence ? low : high) = middle;
    }
    return (low + high) / 2;
}

// Of the mean of paired differences.
inline Interval paired_interval(In<double> differences, double confidence) {
    const double mean = spread(differences).mean;
    if (differences.size() < 2) return {.mean = mean};
    const auto n = static_cast<double>(differences.size());
    const double half = student_t(confidence, n - 1) * sample_deviation(differences) / std::sqrt(n);
    return {mean, mean - half, mean + half};
}

// Of mean(b) - mean(a), independent samples with their own variances (Welch 1947).
inline Interval welch_interval(In<double> a, In<double> b, double confidence) {
    const double mean = spread(b).mean - spread(a).mean;
    if (a.size() < 2 || b.size() < 2) return {.mean = mean};
    const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
    const double va = std::pow(sample_deviation(a), 2) / n, vb = std::pow(sample_deviation(b), 2) / m;
    if (!(va + vb > 0)) return {mean, mean, mean};
    const double freedom = (va + vb) * (va + vb) / (va * va / (n - 1) + vb * vb / (m - 1));
    const double half = student_t(confidence, freedom) * std::sqrt(va + vb);
    return {mean, mean - half, mean + half};
}

// Of the mean, from samples of the same size with replacement; the same bits for the same key.
inline Interval bootstrap_interval(In<double> values, double confidence, std::size_t resamples, tessera::Key key) {
    const double mean = spread(values).mean;
    if (values.size() < 2) return {.mean = mean};
    std::vector<double> means(resamples);
    for (std::size_t r = 0; r < resamples; ++r) {
        Stream draw(key(r));
        double sum = 0;
        for (std::size_t i = 0; i < values.size(); ++i) sum += values[draw.below(values.size())];
        means[r] = sum / static_cast<double>(values.size());
    }
    std::ranges::sort(means);
    const auto at = [&](double q) {
        return means[static_cast<std::size_t>(std::floor(q * static_cast<double>(resamples - 1) + 0.5))];
    };
    return {mean, at((1 - confidence) / 2), at((1 + confidence) / 2)};
}

// One kind of number of both sets.
struct ComparedNumber {
    Evaluation of;  // tags of the second set; the value is its mean
    double mean_a = absent, mean_b = absent;
    Interval over_seeds{};  // of b - a
    std::size_t seeds_a = 0, seeds_b = 0;
    bool paired = false;  // seed by seed
    bool claims() const { return over_seeds.excludes_zero(); }
};

// Of the test examples, who gets them right; mean over clients.
struct Overlap {
    double both = 0, only_a = 0, only_b = 0, neither = 0;
};

struct Comparison {
    std::string a, b;
    std::vector<std::string> differing{};  // of data, split, aux and version
    std::vector<ComparedNumber> numbers{};
    std::vector<Id> clients{};        // those that both sets have
    std::vector<double> by_client{};  // accuracy of b minus that of a, mean over runs
    Interval over_clients{};
    std::size_t better = 0, worse = 0;  // of the clients, under b
    std::optional<Overlap> overlap{};   // when the runs kept their hits
};

namespace detail {

inline std::string text_in(const RunRecord& run, std::string_view setting) {
    const Setting* value = run.find(setting);
    return value ? shown(*value) : std::string();
}
inline bool same_in(const RunRecord& a, const RunRecord& b, std::string_view setting) {
    return text_in(a, setting) == text_in(b, setting);
}
inline bool on_one_split(const RunRecord& a, const RunRecord& b) {
    return same_in(a, b, "data_fingerprint") && same_in(a, b, "split_fingerprint");
}

inline bool one_split(const std::vector<RunRecord>& a, const std::vector<RunRecord>& b) {
    const auto same = [&](const RunRecord& run) { return on_one_split(run, a.at(0)); };
    return !text_in(a.at(0), "split_fingerprint").empty() && std::ranges::all_of(a, same) &&
           std::ranges::all_of(b, same);
}

// What two runs were made on and with, where it is not the same: of data, split, aux and version. Public data that were
// taken from the clients change what these hold, and not how it was dealt; runs that do not say how it was dealt are
// told apart by what they hold.
inline std::vector<std::string> differing(const RunRecord& a, const RunRecord& b) {
    const bool dealt_known = a.find("dealt_fingerprint") && b.find("dealt_fingerprint");
    std::vector<std::string> out;
    if (!same_in(a, b, "data_fingerprint")) out.emplace_back("data");
    if (!same_in(a, b, dealt_known ? "dealt_fingerprint" : "split_fingerprint")) out.emplace_back("split");
    if (!same_in(a, b, "aux_fingerprint")) out.emplace_back("aux");
    if (a.version != b.version) out.emplace_back("version");
    return out;
}
// Of pairs, or of everybody with everybody where there are none.
inline std::vector<std::string> differing(const std::vector<RunRecord>& a, const std::vector<RunRecord>& b,
                                          const std::vector<const RunRecord*>& partners = {}) {
    std::vector<std::string> out;
    const auto add = [&](const RunRecord& run, const RunRecord& other) {
        for (auto& what : differing(run, other))
            if (std::ranges::find(out, what) == out.end()) out.push_back(std::move(what));
    };
    for (std::size_t i = 0; i < partners.size(); ++i) add(a[i], *partners[i]);
    if (!partners.empty()) return out;
    for (const auto& run : a)
        for (const auto& other : b) add(run, other);
    return out;
}

// Why runs are no pairs, and how to make them some.
inline std::string no_pairs(const std::vector<RunRecord>& a, const std::vector<RunRecord>& b) {
    std::string names, advice;
    const auto advise = [&](std::string_view text) { advice.append(advice.empty() ? "" : " and ").append(text); };
    for (const auto& what : differing(a, b)) {
        names.append(names.empty() ? "" : " and ").append(what);
        if (what == "data") advise("on the same data");
        if (what == "split") advise("with one --split-seed and --partition");
        if (what == "aux") advise("with the same --aux");
    }
    if (names.empty()) return "they do not say on which split they were made";
    return "they differ in " + names + (advice.empty() ? "" : "; run them " + advice);
}

// For each run of a the run of b with its seed and split; empty where one has none.
inline std::vector<const RunRecord*> partners(const std::vector<RunRecord>& a, const std::vector<RunRecord>& b) {
    std::vector<const RunRecord*> out;
    for (const auto& run : a)
        for (const auto& other : b)
            if (seed_of(run) == seed_of(other) && on_one_split(run, other)) {
                out.push_back(&other);
                break;
            }
    if (out.size() != a.size() || a.size() != b.size()) out.clear();
    return out;
}

inline void check_seeds(const std::vector<RunRecord>& runs, const std::string& name) {
    tessera::detail::require(!runs.empty(), "compare: " + name + " has no run");
    for (std::size_t i = 0; i < runs.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            tessera::detail::require(seed_of(runs[i]) != seed_of(runs[j]),
                                     cat("compare: ", name, " has seed ", digits(seed_of(runs[i])), " twice"));
}

inline Which model_of(const RunRecord& run, Compared model) {
    if (model != Compared::served) return model == Compared::personal ? Which::personal : Which::global;
    const auto own = [stage = main_stage(run)](const Evaluation& e) {
        return e.model == Which::personal && e.stage == stage;
    };
    return std::ranges::any_of(run.final_evaluations, own) ? Which::personal : Which::global;
}

// The value of a run for a number that another run tagged.
inline std::optional<double> value_like(const RunRecord& run, const Evaluation& tag, Compared model) {
    const Which which = model_of(run, model);
    const std::string stage = main_stage(run);
    for (const auto& e : run.final_evaluations)
        if (e.model == which && e.stage == stage && e.on == tag.on && e.split == tag.split &&
            e.clients == tag.clients && e.pick == tag.pick && e.average == tag.average && e.metric == tag.metric)
            return e.value.get();
    return {};
}

inline std::vector<double> values_like(const std::vector<RunRecord>& runs, const Evaluation& tag, Compared model) {
    std::vector<double> out;
    for (const auto& run : runs)
        if (const auto value = value_like(run, tag, model)) out.push_back(*value);
    if (out.size() != runs.size()) out.clear();
    return out;
}

inline double accuracy_of(const ClientRecord& client, Which which) {
    return which == Which::personal ? client.accuracy_personal : client.accuracy_global;
}
inline const std::string& hits_of(const ClientRecord& client, Which which) {
    return which == Which::personal ? client.hits_personal : client.hits_global;
}
inline const ClientRecord* client_in(const RunRecord& run, Id id) {
    const auto found = std::ranges::lower_bound(run.per_client, id, {}, &ClientRecord::id);
    return found != run.per_client.end() && found->id == id ? &*found : nullptr;
}

// Mean over runs of a client's accuracy; absent where a run lacks it or tested on other examples.
inline double mean_accuracy(const std::vector<RunRecord>& runs, Id id, std::size_t n_test, Compared model) {
    std::vector<double> seen;
    for (const auto& run : runs) {
        const auto* client = client_in(run, id);
        if (!client || client->n_test != n_test) return absent;
        seen.push_back(accuracy_of(*client, model_of(run, model)));
    }
    return spread(seen).mean;
}

inline std::optional<Overlap> overlap_of(const std::vector<RunRecord>& a, const std::vector<const RunRecord*>& b,
                                         Compared model) {
    Overlap sum;
    double counted = 0;
    for (std::size_t r = 0; r < std::min(a.size(), b.size()); ++r)
        for (const auto& client : a[r].per_client) {
            const auto* other = client_in(*b[r], client.id);
            const auto& left = hits_of(client, model_of(a[r], model));
            if (!other || left.empty()) continue;
            const auto& right = hits_of(*other, model_of(*b[r], model));
            if (left.size() != right.size()) continue;
            const double share = 1 / static_cast<double>(left.size());
            for (std::size_t i = 0; i < left.size(); ++i) {
                const bool in_a = left[i] == '1', in_b = right[i] == '1';
                (in_a ? in_b ? sum.both : sum.only_a : in_b ? sum.only_b : sum.neither) += share;
            }
            ++counted;
        }
    if (counted == 0) return {};
    return Overlap{sum.both / counted, sum.only_a / counted, sum.only_b / counted, sum.neither / counted};
}

}  // namespace detail

// b against a. Throws ConfigError where the runs cannot be compared so.
inline Comparison compare(const std::vector<RunRecord>& a, const std::vector<RunRecord>& b, const std::string& name_a,
                          const std::string& name_b, const CompareSettings& settings = {}) {
    settings.validate();
    detail::check_seeds(a, name_a);
    detail::check_seeds(b, name_b);
    const auto partners = settings.unpaired ? std::vector<const RunRecord*>{} : detail::partners(a, b);
    const bool matched = !settings.unpaired && (!partners.empty() || detail::one_split(a, b));
    tessera::detail::require(matched || settings.unpaired,
                             "compare: the clients and seeds of " + name_a + " and " + name_b + " are no pairs: " +
                                 detail::no_pairs(a, b) + ", or compare their means alone with --unpaired");
    Comparison out{.a = name_a, .b = name_b, .differing = detail::differing(a, b, partners)};
    const Which which = detail::model_of(b[0], settings.model);
    for (const auto& tag : b[0].final_evaluations) {
        if (tag.model != which || tag.stage != detail::main_stage(b[0]) || tag.split != SplitOf::test) continue;
        if (tag.pick == Pick::mean_last(1)) continue;  // the last round, which has its line
        const auto of_a = detail::values_like(a, tag, settings.model),
                   of_b = detail::values_like(b, tag, settings.model);
        if (of_a.empty() || of_b.empty()) continue;
        ComparedNumber number{.of = tag};
        number.mean_a = spread(of_a).mean;
        number.mean_b = spread(of_b).mean;
        number.of.value = number.mean_b;
        number.seeds_a = a.size();
        number.seeds_b = b.size();
        number.paired = !partners.empty();
        if (number.paired) {
            std::vector<double> differences;
            for (std::size_t r = 0; r < a.size(); ++r)
                differences.push_back(*detail::value_like(*partners[r], tag, settings.model) - of_a[r]);
            number.over_seeds = paired_interval(differences, settings.confidence);
        } else {
            number.over_seeds = welch_interval(of_a, of_b, settings.confidence);
        }
        out.numbers.push_back(std::move(number));
    }
    tessera::detail::require(!out.numbers.empty(),
                             "compare: " + name_a + " and " + name_b + " have no final evaluation in common");
    if (!matched) return out;
    for (const auto& client : a[0].per_client) {
        const double difference = detail::mean_accuracy(b, client.id, client.n_test, settings.model) -
                                  detail::mean_accuracy(a, client.id, client.n_test, settings.model);
        if (!std::isfinite(difference)) continue;
        out.clients.push_back(client.id);
        out.by_client.push_back(difference);
        out.better += difference > 0;
        out.worse += difference < 0;
    }
    if (!out.by_client.empty())
        out.over_clients = bootstrap_interval(out.by_client, settings.confidence, settings.resamples,
                                              tessera::Key{settings.seed}(purpose::sampling));
    auto beside = partners;
    if (beside.empty())
        for (const auto& run : b) beside.push_back(&run);
    out.overlap = detail::overlap_of(a, beside, settings.model);
    return out;
}

}  // namespace tessera::report
