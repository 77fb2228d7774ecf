// SPDX-License-Identifier: BSD-3-Clause
// Coded: any method with messages in fewer bytes.
//
//   client: the inner method's upload; up: encode(x - received + e_k), e_k keeps what that lost
//   server: x = received + decode, then the inner method's merge; linear folds stream as before
//   down:   encode(what the inner method sends), by default whole
//
// Encoded is what the inner method sends, so after all noise: Coded<Private<Ditto<rule::DpSgd<>>>>.
// With masks what is packed is encoded. Codecs are in codec/; Whole equals the inner method.
#pragma once

#include <tessera/codec/quantised.hpp>
#include <tessera/codec/whole.hpp>
#include <tessera/contracts/method.hpp>
#include <tessera/method/detail/coding.hpp>

namespace tessera {

// Whether clients keep what a codec lost and send it the next time; `automatic`: as the codec says.
enum class Feedback : std::uint8_t { automatic, on, off };
constexpr std::array<std::string_view, 3> words_of(Feedback) { return {"automatic", "on", "off"}; }

template <class Inner, class Up = codec::Quantised<8>, class Down = codec::Whole>
struct Coded {
    static_assert(check_codec<Up, float>() && check_codec<Down, float>());
    static_assert(Down::per_byte > 0, "tessera::Coded: what goes down is a step from nothing that "
                                      "a client knows, so no coordinate of it can be left out");
    static constexpr auto by_default = verb::open | verb::merge;
    static constexpr Offers offers =
        offer::decode | offer::keeps | offer::needs_memory |
        offer::when(!detail::serves_own<Inner>(), offer::serves_global);
    Inner inner{};
    Up up{};
    Down down{};
    Feedback feedback = Feedback::automatic;
    std::size_t least = 64;  // vectors with fewer numbers travel as they are
    template <class R>
    struct Client {
        client_t<Inner, R> own;
        Vec<Vec<R>> lost;          // e_k, of every vector of the upload
        std::uint64_t places = 0;  // the mask that packed them
    };

    template <class R>
    auto send(const server_t<Inner, R>& server, Id client) const {
        auto plain = send_to<Inner, R>(inner, server, client);
        if constexpr (!Down::loses) return plain;
        else return detail::encode_message<R>(plain, to_nearest(), least, {}, {}, nullptr);
    }
    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, const down_t<Coded, R>& received, Client<R>& me) const {
        auto got = opened<R>(received);
        const auto known = known_of<R>(got);
        if (const auto now = places_of(got); now != me.places) me.lost = {}, me.places = now;
        const auto upload = visit_at<Inner, M>(inner, at, std::move(got), me.own);
        const Key key = at.key(purpose::codec)(at.round);
        auto* lost = keeps_lost() ? &me.lost : nullptr;
        return detail::encode_message<R>(upload, up, least, key, known, lost);
    }
    template <class M, class R = real<M>>
    auto serve(const Context<M>& at, const down_t<Coded, R>& received, Client<R> me) const {
        return serve_at<Inner, M>(inner, at, opened<R>(received), std::move(me.own));
    }
    // What a client's upload stands for: its steps are from what was sent to it.
    template <class R>
    bool decode(const server_t<Inner, R>& server, Id from, const Encoded<R>& coded,
                auto& upload) const {
        try {
            const auto sent = opened<R>(send<R>(server, from));
            detail::decode_message<R>(coded, up, known_of<R>(sent), upload);
            return true;
        } catch (const WireError&) {
            return false;
        }
    }
    template <class R>
    bool decode(const Encoded<R>& coded, auto& received) const {
        try {
            detail::decode_message<R>(coded, down, {}, received);
            return true;
        } catch (const WireError&) {
            return false;
        }
    }
    // Where messages hold more than one vector nobody knows the lengths of what was lost; it is
    // added only to a vector of its own length.
    template <class M, class R = real<M>>
    bool keeps(const Context<M>& at, const Client<R>& me, std::size_t length) const {
        if constexpr (std::is_same_v<down_t<Inner, R>, Vec<R>>)
            for (const auto& each : me.lost)
                if (!detail::fresh_or(each, length)) return false;
        return detail::keeps_state<Inner, M>(inner, at, me.own, length);
    }
    std::string_view needs_memory() const {
        const auto why = detail::needs_memory(inner);
        return why.empty() && keeps_lost() ? "what the codec lost; set feedback=off" : why;
    }

private:
    bool keeps_lost() const {
        const bool said = feedback == Feedback::on;
        return Up::loses && (feedback == Feedback::automatic ? Up::biased : said);
    }
    Down to_nearest() const {
        Down all = down;
        if constexpr (requires { all.rounding; }) all.rounding = codec::Rounding::nearest;
        return all;
    }
    template <class R, class T>
    auto opened(T received) const {
        if constexpr (!Down::loses) return received;
        else {
            down_t<Inner, R> plain;
            detail::decode_message<R>(received, down, {}, plain);
            return plain;
        }
    }
    template <class R>
    static auto known_of(const auto& received) {
        if constexpr (Up::loses) return detail::vectors_of<R>(received);
        else return detail::Vectors<R>{};
    }
    // Packed messages name their mask: what was lost under another mask belongs to other places.
    static std::uint64_t places_of(const auto& received) {
        if constexpr (requires { received.name; }) return received.name;
        else return 0;
    }
};

}  // namespace tessera
