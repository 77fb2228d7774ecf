// SPDX-License-Identifier: BSD-3-Clause
// Results that cannot lose their meaning.
//
// An Evaluation is a number with everything one must know to compare it: which model, before or after local
// training, on which data and split, on whom, at which round, how averaged. Leaving a tag out does not compile.
// PerClient has the first four tags in its type, so a global result cannot stand where a personal one belongs.
//
//   unweighted  (1/N) sum_k c_k / s_k        pooled  sum_k c_k / sum_k s_k        (c_k right of s_k examples)
//
// Clients without examples are skipped. With no client left a value is NaN, which the writers show as absent.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/contracts/judgement.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/report/spread.hpp>

namespace tessera::report {

enum class Which : std::uint8_t { global, personal };
enum class When : std::uint8_t { before, after };  // local training
enum class SplitOf : std::uint8_t { test, train, validation };
enum class Whom : std::uint8_t { sampled, all, unseen };
enum class Average : std::uint8_t { unweighted, pooled };
// perplexity: exp(mean loss), of each client or of all labels. in_vocabulary: accuracy over the labels that are words,
// so without unknown ones, begins and ends (FedAlt's accuracy on text). ece: expected calibration error
// (analysis/calibration.hpp). word_error_rate: words to change, leave out or put in over words meant, more than 1 being
// possible; of labels without a place (nn/ctc.hpp), whatever they stand for. gradient_norm: length of the gradient of
// the common objective, at the global model.
enum class Metric : std::uint8_t {
    accuracy,
    loss,
    auc,
    r2,
    perplexity,
    in_vocabulary,
    ece,
    word_error_rate,
    gradient_norm
};

// Shown in per cent.
constexpr bool is_share(Metric m) {
    return m == Metric::accuracy || m == Metric::auc || m == Metric::in_vocabulary || m == Metric::ece ||
           m == Metric::word_error_rate;
}

namespace detail {
using Word = std::string_view;
constexpr std::array<Word, 2> words(Which) { return {"global", "personal"}; }
constexpr std::array<Word, 2> words(When) { return {"before", "after"}; }
constexpr std::array<Word, 3> words(SplitOf) { return {"test", "train", "validation"}; }
constexpr std::array<Word, 3> words(Whom) { return {"sampled", "all", "unseen"}; }
constexpr std::array<Word, 2> words(Average) { return {"unweighted", "pooled"}; }
constexpr std::array<Word, 9> words(Metric) {
    return {"accuracy", "loss", "auc", "r2", "perplexity", "in_vocabulary", "ece", "word_error_rate",
            "gradient_norm"};
}
}  // namespace detail

template <class E>
concept Tag = requires(E tag) { detail::words(tag); };

template <Tag E>
constexpr std::string_view word(E tag) {
    return detail::words(tag)[static_cast<std::size_t>(tag)];
}

template <Tag E>
constexpr E parse(std::string_view text) {
    constexpr auto all = detail::words(E{});
    for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i] == text) return static_cast<E>(i);
    std::string known;
    for (const auto each : all) known.append(known.empty() ? "" : ", ").append(each);
    throw ConfigError("evaluation tag '" + std::string(text) + "' is none of " + known);
}

// On which examples: the client's own, all clients' together, or a named shift.
class On {
public:
    static On local() { return On("local"); }
    static On union_of_clients() { return On("union"); }
    static On shift(std::string_view name) {
        tessera::detail::require(!name.empty(), "evaluation tag 'on': a shift needs a name");
        return On("shift:" + std::string(name));
    }
    static On parse(std::string_view text) {
        if (text == "local") return local();
        if (text == "union") return union_of_clients();
        if (text.starts_with("shift:")) return shift(text.substr(6));
        throw ConfigError("evaluation tag 'on': '" + std::string(text) + "' is none of local, union, shift:NAME");
    }
    const std::string& word() const { return word_; }
    friend bool operator==(const On&, const On&) = default;

private:
    explicit On(std::string text) : word_(std::move(text)) {}
    std::string word_;
};

// At which round. There is no way to say "best on test".
class Pick {
public:
    static Pick last() { return Pick(Kind::last, 1); }
    static Pick best_validation() { return Pick(Kind::best_validation, 1); }
    static Pick mean_last(std::size_t rounds) {
        tessera::detail::require(rounds > 0, "evaluation tag 'pick': mean_last needs at least one round");
        return Pick(Kind::mean_last, rounds);
    }
    static Pick parse(std::string_view text) {
        if (text == "last") return last();
        if (text == "best_validation") return best_validation();
        if (constexpr std::string_view head = "mean_last:"; text.starts_with(head)) {
            std::size_t rounds = 0;
            const char* end = text.data() + text.size();
            const auto read = std::from_chars(text.data() + head.size(), end, rounds);
            if (read.ec == std::errc{} && read.ptr == end) return mean_last(rounds);
        }
        throw ConfigError("evaluation tag 'pick': '" + std::string(text) +
                          "' is none of last, best_validation, mean_last:N");
    }
    std::string word() const {
        if (kind_ == Kind::last) return "last";
        return kind_ == Kind::best_validation ? "best_validation" : "mean_last:" + std::to_string(rounds_);
    }
    std::size_t rounds() const { return rounds_; }
    friend bool operator==(const Pick&, const Pick&) = default;

private:
    enum class Kind : std::uint8_t { last, best_validation, mean_last };
    Pick(Kind kind, std::size_t rounds) : kind_(kind), rounds_(rounds) {}
    Kind kind_;
    std::size_t rounds_;
};

// A T that somebody had to state: it has no default, so an aggregate of these must name every field.
template <class T>
class Required {
public:
    template <class U>
        requires(std::convertible_to<U, T> && !std::same_as<std::remove_cvref_t<U>, Required>)
    constexpr Required(U&& value) : value_(std::forward<U>(value)) {}
    constexpr operator const T&() const { return value_; }
    constexpr const T& get() const { return value_; }
    constexpr bool operator==(const Required&) const = default;
    template <class U>
        requires(!std::same_as<U, Required> && std::convertible_to<U, T>)
    constexpr bool operator==(const U& value) const {
        return value_ == value;
    }

private:
    T value_;
};

template <Tag E>
constexpr std::string_view word(const Required<E>& tag) {
    return word(tag.get());
}

//   Evaluation{.model = Which::personal, .when = When::after, .on = On::local(), .split = SplitOf::test,
//              .clients = Whom::all, .pick = Pick::last(), .average = Average::unweighted,
//              .metric = Metric::accuracy, .stage = "", .value = 0.9}
struct Evaluation {
    Required<Which> model;
    Required<When> when;
    On on;
    Required<SplitOf> split;
    Required<Whom> clients;
    Pick pick;
    Required<Average> average;
    Required<Metric> metric;
    Required<std::string> stage;  // of a method that has several; else empty
    Required<double> value;

    // May stand on one curve: equal in all but value and stage, which changes along a run.
    friend bool comparable(const Evaluation& a, const Evaluation& b) {
        return a.model == b.model && a.when == b.when && a.on == b.on && a.split == b.split && a.clients == b.clients &&
               a.pick == b.pick && a.average == b.average && a.metric == b.metric;
    }
};

// "own test data, all clients"
inline std::string ground_in_words(const Evaluation& e) {
    std::string out;
    if (e.on == On::local()) out.append("own ").append(word(e.split)).append(" data");
    else if (e.on == On::union_of_clients()) out.append("union of all ").append(word(e.split)).append(" data");
    else out.append(e.on.word().substr(6)).append(" shift, ").append(word(e.split)).append(" data");
    out += e.clients == Whom::all       ? ", all clients"
           : e.clients == Whom::sampled ? ", sampled clients"
                                        : ", clients unseen in training";
    return out;
}
inline std::string in_words(const Pick& pick) {
    if (pick == Pick::best_validation()) return "round best on validation";
    if (pick.rounds() == 1) return "last round";
    return "mean of the last " + std::to_string(pick.rounds()) + " evaluated rounds";
}
inline std::string_view in_words(Average how) {
    return how == Average::unweighted ? "mean over clients" : "pooled over examples";
}

// "personal model, after local training, own test data, all clients, last round, mean over clients"
inline std::string in_words(const Evaluation& e) {
    std::string out(word(e.model));
    out.append(" model, ").append(word(e.when)).append(" local training, ").append(ground_in_words(e));
    out.append(", ").append(in_words(e.pick)).append(", ").append(in_words(e.average));
    if (!e.stage.get().empty()) out += ", stage " + e.stage.get();
    return out;
}

struct ClientCount {
    Id client = 0;
    double correct = 0, loss_sum = 0;
    std::size_t n = 0;  // examples, or the labels that count where an example has several
    Fit fit{};          // of real targets, which have no accuracy: what R2 is made of
    double correct_words = 0;  // of the labels that are words of a vocabulary
    std::size_t words = 0;
    std::size_t edits = 0, meant = 0;  // of labels without a place

    bool real() const { return fit.examples > 0; }
    void add(const ClientCount& more) {
        correct += more.correct;
        loss_sum += more.loss_sum;
        n += more.n;
        fit.add(more.fit);
        correct_words += more.correct_words;
        words += more.words;
        edits += more.edits;
        meant += more.meant;
    }
};

// What clients' counts come to, whichever model they are of.
class ClientCounts {
public:
    const On& on() const { return on_; }
    const Pick& pick() const { return pick_; }
    const std::vector<ClientCount>& counts() const { return counts_; }  // clients with examples

    bool real() const { return !counts_.empty() && counts_[0].real(); }  // targets instead of classes

    // None of real targets.
    std::vector<double> accuracies() const { return real() ? std::vector<double>{} : ratios(&ClientCount::correct); }
    double stddev() const { return spread(accuracies()).stddev; }  // of accuracy over clients, each counting once
    double quantile(double q, Average how) const {                 // of accuracy; pooled weighs a client by n
        std::vector<Weighted> all;
        for (const auto& count : counts_) {
            if (count.real()) continue;
            const auto n = static_cast<double>(count.n);
            all.push_back({count.correct / n, how == Average::pooled ? n : 1.0});
        }
        return report::quantile(std::move(all), q);
    }

protected:
    using Sum = double ClientCount::*;

    ClientCounts(On on, Pick pick, std::string stage, std::vector<ClientCount> counts)
        : on_(std::move(on)), pick_(pick), stage_(std::move(stage)), counts_(std::move(counts)) {
        std::sort(counts_.begin(), counts_.end(),
                  [](const ClientCount& a, const ClientCount& b) { return a.client < b.client; });
        for (std::size_t k = 1; k < counts_.size(); ++k)
            tessera::detail::require(counts_[k].client != counts_[k - 1].client,
                                     "evaluation: a client is counted twice");
        std::erase_if(counts_, [](const ClientCount& count) { return count.n == 0; });
        for (const auto& count : counts_)
            tessera::detail::require(count.correct >= 0 && count.correct <= static_cast<double>(count.n),
                                     "evaluation: client " + std::to_string(count.client) +
                                         " has fewer than none or more than all examples right");
    }
    std::vector<double> ratios(Sum sum) const {
        std::vector<double> out;
        for (const auto& count : counts_) out.push_back(count.*sum / static_cast<double>(count.n));
        return out;
    }
    double mean(Average how, Sum sum) const {
        if (how == Average::unweighted) return spread(ratios(sum)).mean;
        double total = 0, examples = 0;
        for (const auto& count : counts_) total += count.*sum, examples += static_cast<double>(count.n);
        return examples > 0 ? total / examples : absent;
    }

    // Over clients whose targets differ at all, or of all examples together.
    double mean_r2(Average how) const {
        std::vector<double> each;
        Fit all;
        for (const auto& count : counts_) {
            all.add(count.fit);
            if (count.fit.spread > 0) each.push_back(count.fit.r2());
        }
        return how == Average::pooled ? all.r2() : spread(each).mean;
    }

    double mean_perplexity(Average how) const {
        if (how == Average::pooled) return std::exp(mean(how, &ClientCount::loss_sum));
        auto each = ratios(&ClientCount::loss_sum);
        for (double& value : each) value = std::exp(value);
        return spread(each).mean;
    }
    // Of what not every label is: over clients that have some, or of all together.
    template <class Part>
    double mean_of_some(Average how, Part ClientCount::*part, std::size_t ClientCount::*whole) const {
        std::vector<double> each;
        double parts = 0, all = 0;
        for (const auto& count : counts_) {
            if (count.*whole == 0) continue;
            const auto n = static_cast<double>(count.*whole), has = static_cast<double>(count.*part);
            parts += has;
            all += n;
            each.push_back(has / n);
        }
        return each.empty() ? absent : how == Average::pooled ? parts / all : spread(each).mean;
    }

    On on_;
    Pick pick_;
    std::string stage_;
    std::vector<ClientCount> counts_;
};

// One number, with the tags that are in a type and those that are not.
template <Which W, When T, SplitOf S, Whom P>
Evaluation evaluation_of(const On& on, const Pick& pick, const std::string& stage, Average how, Metric metric,
                         double value) {
    return {.model = W,
            .when = T,
            .on = on,
            .split = S,
            .clients = P,
            .pick = pick,
            .average = how,
            .metric = metric,
            .stage = stage,
            .value = value};
}

// Results of one model per client (or of one model on every client's data), in order of client number, so the
// averages have the same bits in whatever order the clients arrived.
template <Which W, When T, SplitOf S, Whom P>
class PerClient : public ClientCounts {
public:
    PerClient(On on, Pick pick, std::string stage, std::vector<ClientCount> counts)
        : ClientCounts(std::move(on), pick, std::move(stage), std::move(counts)) {}

    // Absent where targets are real; R2 is absent where they are not.
    Evaluation accuracy(Average how) const {
        return tagged(how, Metric::accuracy, real() ? absent : mean(how, &ClientCount::correct));
    }
    Evaluation r2(Average how) const { return tagged(how, Metric::r2, mean_r2(how)); }
    // Whichever of the two there is.
    Evaluation quality(Average how) const { return real() ? r2(how) : accuracy(how); }
    Evaluation loss(Average how) const { return tagged(how, Metric::loss, mean(how, &ClientCount::loss_sum)); }
    Evaluation perplexity(Average how) const {
        return tagged(how, Metric::perplexity, real() ? absent : mean_perplexity(how));
    }
    // Absent where labels are no words.
    Evaluation in_vocabulary(Average how) const {
        return tagged(how, Metric::in_vocabulary,
                      mean_of_some(how, &ClientCount::correct_words, &ClientCount::words));
    }
    // Absent where labels have their places.
    Evaluation word_error_rate(Average how) const {
        return tagged(how, Metric::word_error_rate, mean_of_some(how, &ClientCount::edits, &ClientCount::meant));
    }

private:
    Evaluation tagged(Average how, Metric metric, double value) const {
        return evaluation_of<W, T, S, P>(on_, pick_, stage_, how, metric, value);
    }
};

// Of a client's examples, how many each model gets right; as fractions, averaged over clients.
struct Shares {
    double both = absent, global_only = absent, personal_only = absent, neither = absent;
    double accuracy_global() const { return both + global_only; }
    double accuracy_personal() const { return both + personal_only; }
};

// What personalization does to each client.
struct Effect {
    struct Delta {
        Id client;
        double value;  // personal minus global accuracy, or R2
    };
    std::vector<Delta> deltas;               // in order of client number
    std::size_t benefiting = 0, harmed = 0;  // strictly better, strictly worse
    std::optional<Shares> shares;            // when counted per example
    double share_benefiting() const {
        return deltas.empty() ? absent : static_cast<double>(benefiting) / static_cast<double>(deltas.size());
    }
};

// Global first, personal second, on the same examples of the same clients.
template <When G, When L, SplitOf S, Whom P>
Effect compare(const PerClient<Which::global, G, S, P>& global, const PerClient<Which::personal, L, S, P>& personal) {
    using tessera::detail::require;
    require(global.on() == personal.on(), "compare: the two results are on different data");
    require(global.counts().size() == personal.counts().size(), "compare: the two results have different clients");
    Effect effect;
    for (std::size_t k = 0; k < global.counts().size(); ++k) {
        const ClientCount &g = global.counts()[k], &p = personal.counts()[k];
        require(g.client == p.client && g.n == p.n, "compare: the two results differ in clients or test sizes");
        const bool real = g.real();
        if (real && !(g.fit.spread > 0)) continue;  // targets that do not differ have no R2
        const double gain = real ? p.fit.r2() - g.fit.r2() : (p.correct - g.correct) / static_cast<double>(g.n);
        effect.deltas.push_back({g.client, gain});
        effect.benefiting += real ? p.fit.missed < g.fit.missed : p.correct > g.correct;
        effect.harmed += real ? p.fit.missed > g.fit.missed : p.correct < g.correct;
    }
    return effect;
}
template <When L, When G, SplitOf S, Whom P>
Effect compare(const PerClient<Which::personal, L, S, P>& global_comes_first,
               const PerClient<Which::global, G, S, P>& then_personal) = delete;

struct BreakdownCount {
    Id client = 0;
    std::size_t both = 0, global_only = 0, personal_only = 0, neither = 0;
    std::size_t n() const { return both + global_only + personal_only + neither; }
};

// Example i of a client is right under a model when its entry is not 0.
inline BreakdownCount break_down(Id client, In<std::uint8_t> global_right, In<std::uint8_t> personal_right) {
    tessera::detail::require(global_right.size() == personal_right.size(),
                             "break_down: the two models saw different numbers of examples");
    BreakdownCount count{.client = client};
    for (std::size_t i = 0; i < global_right.size(); ++i) {
        if (global_right[i]) ++(personal_right[i] ? count.both : count.global_only);
        else ++(personal_right[i] ? count.personal_only : count.neither);
    }
    return count;
}

// Both models on the same examples, example by example. The global model is seen at G, the personal one at L.
template <When G, When L, SplitOf S, Whom P>
class Breakdown {
public:
    Breakdown(On on, Pick pick, std::string stage, std::vector<BreakdownCount> counts)
        : on_(std::move(on)), pick_(pick), stage_(std::move(stage)), counts_(std::move(counts)) {}

    // Losses are not known here and read as absent.
    PerClient<Which::global, G, S, P> global() const {
        return view<Which::global, G>([](const BreakdownCount& c) { return c.both + c.global_only; });
    }
    PerClient<Which::personal, L, S, P> personal() const {
        return view<Which::personal, L>([](const BreakdownCount& c) { return c.both + c.personal_only; });
    }
    Shares shares() const {
        Shares sum{0, 0, 0, 0};
        double clients = 0;
        for (const auto& count : counts_) {
            if (count.n() == 0) continue;
            const auto n = static_cast<double>(count.n());
            sum.both += static_cast<double>(count.both) / n;
            sum.global_only += static_cast<double>(count.global_only) / n;
            sum.personal_only += static_cast<double>(count.personal_only) / n;
            sum.neither += static_cast<double>(count.neither) / n;
            ++clients;
        }
        if (clients == 0) return {};
        return {sum.both / clients, sum.global_only / clients, sum.personal_only / clients, sum.neither / clients};
    }
    Effect effect() const {
        Effect out = compare(global(), personal());
        out.shares = shares();
        return out;
    }

private:
    template <Which W, When T, class Right>
    PerClient<W, T, S, P> view(Right right) const {
        std::vector<ClientCount> out;
        for (const auto& count : counts_)
            out.push_back({count.client, static_cast<double>(right(count)), absent, count.n()});
        return {on_, pick_, stage_, std::move(out)};
    }

    On on_;
    Pick pick_;
    std::string stage_;
    std::vector<BreakdownCount> counts_;
};

}  // namespace tessera::report
