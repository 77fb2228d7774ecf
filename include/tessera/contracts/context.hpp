// SPDX-License-Identifier: BSD-3-Clause
// Context: what a visit stands on. The model, the client's data, its random key, its place in time.
// The server has one too (its data is the public set, if any).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <tessera/contracts/model.hpp>
#include <tessera/contracts/plan.hpp>
#include <tessera/contracts/private.hpp>
#include <tessera/core/client_data.hpp>

namespace tessera {

// Aggregation weights
enum class Weigh : std::uint8_t { samples, uniform, batches };
constexpr std::array<std::string_view, 3> words_of(Weigh) { return {"samples", "uniform", "batches"}; }

// Which shuffle stream a pass reads. Named at the call and never counted, so that two methods that must
// coincide in a limit read the same batches whatever else they do (L-GEN-10).
enum class Pass : std::uint8_t { shared, own };
constexpr std::array<std::string_view, 2> words_of(Pass) { return {"shared", "own"}; }

// What a visit did, for the report.
struct Tally {
    double loss = 0;  // sum over steps of the batch's mean loss
    std::uint64_t steps = 0, examples = 0;
    std::uint64_t counted = 0;  // of the examples, on a model that says what it costs: a sparse one less than the run's
    double forward_flops = 0;   // of those
};

template <class R>
struct Workspace {
    Vec<R> gradient;
    Tally tally;
    Vec<Spent> spent{};  // by the noisy steps of a visit
};

template <class M>
struct Context {
    using R = real<M>;

    const M* model = nullptr;
    const Examples* examples = nullptr;
    std::span<const Index> ids{};
    Key key{};               // of the client
    std::size_t batch = 0;   // batch size; 0 takes all data at once
    Id id = 0;
    std::size_t round = 0, rounds = 1;
    const Vec<R>* initial = nullptr;  // the run's initial parameters
    Workspace<R>* workspace = nullptr;
    const ClientData* labelled = nullptr;  // of the server: what the server may choose models by
    bool serving = false;  // no training: rates do not follow their schedule
    Participation participation{};  // of the server: how the round's clients were drawn

    // One permutation a pass, cut in batches, the short last batch kept.
    Batches<R> epochs(std::size_t passes, Pass pass = Pass::shared) const {
        const Key role = key(purpose::shuffle)(round)(static_cast<std::uint64_t>(pass));
        const Key drop = key(purpose::dropout)(round)(static_cast<std::uint64_t>(pass));
        Batches<R> out(*examples);
        Vec<Index> order;
        for (std::size_t e = 0; e < passes; ++e) {
            shuffled(role(e), order);
            for (std::size_t b = 0; b < order.size(); b += batch_size()) out.append(cut(order, b), drop(e)(b));
        }
        return out;
    }
    // The next `steps` batches of one of the client's infinite streams, reshuffled at each refill. The order is keyed
    // by the pass over the data, so it depends neither on rounds nor on how many steps were asked for at once.
    Batches<R> stream(Cursor& cursor, std::size_t steps, Pass pass = Pass::shared) const {
        const std::uint64_t role = pass == Pass::shared ? stream_role : own_stream_role;
        Batches<R> out(*examples);
        Vec<Index> order;
        while (!ids.empty() && out.size() < steps) {
            shuffled(key(purpose::shuffle)(role)(cursor.pass), order);
            for (; cursor.at < batch_count() && out.size() < steps; ++cursor.at)
                out.append(cut(order, static_cast<std::size_t>(cursor.at) * batch_size()),
                           key(purpose::dropout)(role)(cursor.pass)(cursor.at));
            if (cursor.at >= batch_count()) cursor = {cursor.pass + 1, 0};
        }
        return out;
    }
    // `steps` samples, each example in each with probability `rate`, drawn by itself; some may be empty.
    Batches<R> poisson(double rate, std::size_t steps, Key draw) const {
        const bool all = rate >= 1;
        const auto below = static_cast<std::uint64_t>(all ? 0 : rate * 0x1p64);
        Batches<R> out(*examples);
        Vec<Index> sample;
        sample.reserve(ids.size());
        for (std::size_t s = 0; s < steps; ++s) {
            sample.clear();
            Stream words(draw(s));
            for (const Index i : ids)
                if (const std::uint64_t word = words.word64(); all || word < below) sample.push_back(i);
            out.append(sample, draw(s)(purpose::dropout));
        }
        return out;
    }
    // A visit's work: `steps` batches of the pass's stream, or, if that is 0, `passes` epochs.
    Batches<R> work(std::size_t passes, std::size_t steps, Cursor& cursor, Pass pass = Pass::shared) const {
        return steps > 0 ? stream(cursor, steps, pass) : epochs(passes, pass);
    }
    Batch<R> everything() const { return Batch<R>(*examples, ids); }

    double weight(Weigh by) const {
        switch (by) {
            case Weigh::uniform: return 1;
            case Weigh::samples: return static_cast<double>(ids.size());
            case Weigh::batches: return static_cast<double>(batch_count());
        }
        return 1;
    }
    std::size_t batch_size() const { return batch > 0 ? batch : std::max<std::size_t>(1, ids.size()); }
    std::size_t batch_count() const { return ids.size() / batch_size() + (ids.size() % batch_size() != 0); }

    double gradient(In<R> x, const Batch<R>& b, Out<R> out) const { return model->gradient(x, b, out); }

    // The same place with another objective, which must outlive the result.
    template <Model Objective>
    Context<Objective> with(const Objective& objective) const {
        return {&objective, examples, ids,     key,       batch,    id,      round,
                rounds,     initial,  workspace, labelled, serving, participation};
    }

private:
    // No round number is this large.
    static constexpr std::uint64_t stream_role = 0x73747265616D, own_stream_role = 0x6F776E73747265;

    void shuffled(Key stream, Vec<Index>& order) const {
        order.assign(ids.begin(), ids.end());
        Stream(stream).shuffle(std::span<Index>(order));
    }
    std::span<const Index> cut(const Vec<Index>& order, std::size_t begin) const {
        return std::span<const Index>(order).subspan(begin, std::min(batch_size(), order.size() - begin));
    }
};

// First visit: v takes w's value.
template <class R>
Vec<R>& start(Vec<R>& v, const Vec<R>& w) {
    if (v.empty()) v = w;
    return v;
}

}  // namespace tessera
