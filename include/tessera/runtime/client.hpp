// SPDX-License-Identifier: BSD-3-Clause
// One client of one method: its data, what it keeps between visits, and its end of the wire.
//
// The simulator makes these on the fly around stored states; a device keeps one and feeds it bytes. A server is not
// trusted with the client's memory: what it sends is judged before anything reads it (runtime/judge.hpp). Nor is it
// trusted with time: a round older than the last one is refused, and the last one again gets the same answer, if it is
// the same question. What is remembered for that is no part of the state.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include <tessera/core/batch.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/client_data.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/reflect.hpp>
#include <tessera/io/message.hpp>
#include <tessera/runtime/judge.hpp>
#include <tessera/runtime/setup.hpp>

namespace tessera {

namespace detail {

// Puts every cursor in a state to the round's own stretch of the stream, which no visit reads to its end.
template <class T>
void start_streams(T& state, std::size_t round) {
    if constexpr (std::is_same_v<T, Cursor>) state = {std::uint64_t{round} << 32, 0};
    else if constexpr (std::is_class_v<T> && Reflectable<T> && !is_array<T>)
        with_fields(state, [&](auto&... field) { (start_streams(field, round), ...); });
}

// What came of a visit is not finite: if an example is not, nothing that the client does can be.
template <class R>
void require_finite_examples(const ClientData& data, Id id) {
    const Examples& e = *data.examples;
    if (e.storage == Storage::bytes || e.storage == Storage::int32) return;
    const Batch<R> all(e, data.train);
    Vec<R> row(e.width);
    for (std::size_t i = 0; i < all.size(); ++i) {
        all.read(i, Out<R>(row));
        for (std::size_t j = 0; j < row.size(); ++j)
            if (!std::isfinite(row[j]))
                throw ConfigError("client " + std::to_string(id) + ": feature " + std::to_string(j) + " of example " +
                                  std::to_string(data.train[i]) +
                                  " is not a finite number; data::filled_by_mean fills values that are missing");
    }
}

}  // namespace detail

// Streams of batches leave 32 bits for the round.
inline constexpr std::uint64_t last_possible_round = std::numeric_limits<std::uint32_t>::max() - 1;

template <class Me, Model M>
class Client {
public:
    using R = real<M>;
    using State = client_t<Me, R>;
    using Down = down_t<Me, R>;
    using Upload = up_t<Me, M>;

    Client(const Setup<Me, M>& setup, Id id, const ClientData& data, State state = {})
        : setup_(&setup), id_(id), data_(data), state_(std::move(state)) {}

    // In memory. WireError if the lengths of what was received are not those of this method on this model. If the visit
    // throws, or ends with a number that is not finite in the upload or in the state, which an example that is not
    // finite turns into a ConfigError that names it, the state is as it was, except for what the client has spent of
    // its privacy: that is gone.
    Upload visit(Down received, std::size_t round, Workspace<R>& workspace) {
        const FlushDenormals flush;
        workspace.tally = {};
        const auto at = setup_->context(data_, id_, round, workspace);
        State next = remembered(round);
        if (const auto fault = detail::download_fault<Me, M>(setup_->method, at, received, next, setup_->download_form);
            !fault.empty())
            throw WireError("the download is not what this method sends: " + fault);
        auto upload = [&] {
            try {
                return visit_at<Me, M>(setup_->method, at, std::move(received), next);
            } catch (const BudgetError&) {  // what a visit costs is known from now on
                detail::keep_spent(setup_->method, state_, next);
                throw;
            }
        }();
        sound_ = all_finite(next) && all_finite(upload);
        if (sound_ && !setup_->settings.stateless) state_ = std::move(next);
        else detail::keep_spent(setup_->method, state_, next);
        if (!sound_) detail::require_finite_examples<R>(data_, id_);
        return upload;
    }

    // Over the wire: a download frame in, an upload frame out. WireError leaves the state as it was.
    Bytes visit(std::span<const std::byte> download) {
        Workspace<R> workspace;
        return visit(download, workspace);
    }
    Bytes visit(std::span<const std::byte> download, Workspace<R>& workspace) {
        const auto frame = io::decode_frame(download);
        if (frame.client != id_)
            throw WireError("the message is for client " + std::to_string(frame.client) + ", this is client " +
                            std::to_string(id_));
        if (frame.round > last_possible_round)
            throw WireError("the message is of round " + std::to_string(frame.round) + ", and no run has so many");
        if (frame.round + 1 < expected_)
            throw WireError("the message is of round " + std::to_string(frame.round) + ", this client was in round " +
                            std::to_string(expected_ - 1) + " already");
        auto received = io::decode_payload<Down>(frame, io::Kind::download, setup_->initial.size());
        if (!all_finite(received)) throw WireError("the download holds a number that is not finite");
        const auto round = static_cast<std::size_t>(frame.round);
        const Fingerprint asked = fingerprint(download);
        if (frame.round + 1 == expected_) {
            if (answer_.empty() || asked != asked_)
                throw WireError("this client has answered another message of round " + std::to_string(round));
            return answer_;
        }
        const auto upload = visit(std::move(received), round, workspace);
        expected_ = frame.round + 1;
        asked_ = asked;
        return answer_ = io::encode_frame(io::Kind::upload, setup_->initial.size(), frame.round, id_, upload);
    }
    // Takes rounds from this one on, whatever came before: for a client whose server was restored from a checkpoint and
    // stands at that round again.
    void expect_from(std::size_t round) {
        expected_ = round;
        answer_.clear();
    }

    // State and place in time as bytes, and back, for a device that is switched off in between. WireError if the bytes
    // cannot be this client's; it is then as it was.
    void save(Bytes& out) const {
        put(out, shape_of<State>());
        put(out, expected_);
        put(out, asked_);
        put(out, answer_);
        put(out, state_);
    }
    void restore(Reader& in) {
        std::uint64_t shape = 0, expected = 0;
        Fingerprint asked;
        Bytes answer;
        State state{};
        get(in, shape);
        if (shape != shape_of<State>()) throw WireError("the state is of another method");
        get(in, expected);
        get(in, asked);
        get(in, answer);
        get(in, state);
        if (in.left() > 0) throw WireError("bytes follow the end of the state");
        Workspace<R> workspace;
        if (expected > last_possible_round || !keeps(state, workspace))
            throw WireError("the state cannot be one that this method left with this client");
        state_ = std::move(state);
        expected_ = expected;
        asked_ = asked;
        answer_ = std::move(answer);
    }
    // Whether a state that came from outside may be this client's.
    bool keeps(const State& state, Workspace<R>& workspace) const {
        return detail::keeps_state<Me, M>(setup_->method, setup_->context(data_, id_, 0, workspace), state,
                                          setup_->state_length());
    }

    // A predictor for this client: predict(batch, out). The state is copied, so serving changes nothing. Steps taken
    // for it are no part of the training that schedules lead to its end: their rates stay as they are set.
    auto serve(Down received, std::size_t round, Workspace<R>& workspace) const {
        const FlushDenormals flush;
        workspace.tally = {};
        auto at = setup_->context(data_, id_, round, workspace);
        at.serving = true;
        return serve_at<Me, M>(setup_->method, at, std::move(received), remembered(round));
    }

    Id id() const { return id_; }
    bool sound() const { return sound_; }  // the last visit ended with finite numbers
    const State& state() const { return state_; }
    State take_state() { return std::move(state_); }

private:
    // A client that forgets cannot go on where its stream of batches stopped, and must not begin it anew every time.
    State remembered(std::size_t round) const {
        if (!setup_->settings.stateless) return state_;
        State fresh{};
        detail::start_streams(fresh, round);
        return fresh;
    }

    const Setup<Me, M>* setup_;
    Id id_;
    ClientData data_;
    State state_;
    bool sound_ = true;
    std::uint64_t expected_ = 0;  // the first round that is not too old
    Fingerprint asked_{};         // of the last download, and what was answered
    Bytes answer_{};
};

}  // namespace tessera
