// SPDX-License-Identifier: BSD-3-Clause
// One client of one method: its data, what it keeps between visits, and its end of the wire.
//
// The simulator makes these on the fly around stored states; a device keeps one and feeds it bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <tessera/core/batch.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/client_data.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/core/reflect.hpp>
#include <tessera/io/message.hpp>
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

}  // namespace detail

template <class Me, Model M>
class Client {
public:
    using R = real<M>;
    using State = client_t<Me, R>;
    using Down = down_t<Me, R>;
    using Upload = up_t<Me, M>;

    Client(const Setup<Me, M>& setup, Id id, const ClientData& data, State state = {})
        : setup_(&setup), id_(id), data_(data), state_(std::move(state)) {}

    // In memory. If the visit throws, or ends with a number that is not finite in the upload or in the
    // state, the state is as it was, except for what the client has spent of its privacy: that is gone.
    Upload visit(Down received, std::size_t round, Workspace<R>& workspace) {
        const FlushDenormals flush;
        workspace.tally = {};
        const auto at = setup_->site(data_, id_, round, workspace);
        State next = remembered(round);
        auto upload = [&] {
            try {
                return visit_at<Me, M>(setup_->method, at, std::move(received), next);
            } catch (const BudgetError&) {  // what a visit costs is known from now on
                if constexpr (requires { next.price; }) state_.price = std::move(next.price);
                throw;
            }
        }();
        sound_ = all_finite(next) && all_finite(upload);
        if (sound_ && !setup_->settings.stateless) state_ = std::move(next);
        else if constexpr (requires { next.ledger; }) state_.ledger = std::move(next.ledger);
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
        auto received = io::decode_payload<Down>(frame, io::Kind::download, setup_->initial.size());
        if constexpr (!detail::names_send<Me>)
            if (received.size() != setup_->download_size)
                throw WireError("the download holds " + std::to_string(received.size()) +
                                " numbers, this method sends " + std::to_string(setup_->download_size));
        if (!all_finite(received)) throw WireError("the download holds a number that is not finite");
        const auto upload = visit(std::move(received), static_cast<std::size_t>(frame.round), workspace);
        return io::encode_frame(io::Kind::upload, setup_->initial.size(), frame.round, id_, upload);
    }

    // A predictor for this client: predict(batch, out). The state is copied, so serving changes nothing. Steps taken
    // for it are no part of the training that schedules lead to its end: their rates stay as they are set.
    auto serve(Down received, std::size_t round, Workspace<R>& workspace) const {
        const FlushDenormals flush;
        workspace.tally = {};
        auto at = setup_->site(data_, id_, round, workspace);
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
};

}  // namespace tessera
