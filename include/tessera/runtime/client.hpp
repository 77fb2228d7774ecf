// SPDX-License-Identifier: BSD-3-Clause
// One client of one method: its data, what it keeps between visits, and its end of the wire.
//
// The simulator makes these on the fly around stored states; a device keeps one and feeds it bytes.
#pragma once

#include <string>
#include <utility>

#include <tessera/core/bytes.hpp>
#include <tessera/core/client_data.hpp>
#include <tessera/core/denormals.hpp>
#include <tessera/io/message.hpp>
#include <tessera/runtime/setup.hpp>

namespace tessera {

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
        State next = setup_->settings.stateless ? State{} : state_;
        auto upload = visit_at<Me, M>(setup_->method, at, std::move(received), next);
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

    // A predictor for this client: predict(batch, out). The state is copied, so serving changes nothing.
    auto serve(Down received, std::size_t round, Workspace<R>& workspace) const {
        const FlushDenormals flush;
        workspace.tally = {};
        return serve_at<Me, M>(setup_->method, setup_->site(data_, id_, round, workspace), std::move(received), state_);
    }

    Id id() const { return id_; }
    bool sound() const { return sound_; }  // the last visit ended with finite numbers
    const State& state() const { return state_; }
    State take_state() { return std::move(state_); }

private:
    const Setup<Me, M>* setup_;
    Id id_;
    ClientData data_;
    State state_;
    bool sound_ = true;
};

}  // namespace tessera
