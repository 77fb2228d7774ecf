// SPDX-License-Identifier: BSD-3-Clause
// What methods with a mask per client share: the server's book of masks, packed messages, and who knows what.
//
// The server holds the bits of every client's mask: one mask for all who never changed theirs, and one each for the
// others. Bits go down only to a client that lacks them, and up only when they changed. A download names its mask by a
// hash of its bits. A client keeps the mask it trained with and the one it proposed, because the server may have taken
// the proposal or lost it; the name says which. A client that has neither (it was wiped, or keeps nothing) says so
// instead of training, and gets the bits with every download from then on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tessera/contracts/fold.hpp>
#include <tessera/contracts/masking.hpp>
#include <tessera/contracts/memory.hpp>
#include <tessera/contracts/site.hpp>
#include <tessera/contracts/sparse.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/form.hpp>
#include <tessera/nn/sparse.hpp>

namespace tessera {

// The masks that clients begin with: one for all, or one each.
enum class FirstMasks : std::uint8_t { same, different };
constexpr std::array<std::string_view, 2> words_of(FirstMasks) { return {"same", "different"}; }

namespace detail {

inline std::uint64_t name_of(const Mask& mask) {
    Hasher h;
    hash_into(h, mask);
    return h.finish().low;
}

template <class R>
struct MaskedDown {
    Vec<R> x;   // m o w, packed
    Mask mask;  // empty: the client knows it
    std::uint64_t name = 0;
};
template <class R>
struct MaskedUp {
    Vec<R> x;           // packed; empty: the client lacked its mask
    double weight = 1;
    Mask next;          // empty: the mask did not change
    Id from = 0;
};

// A bit for each parameter, a weight left in every tensor, and all running statistics.
inline bool is_mask_of(const Mask& mask, Layout layout) {
    if (mask.size() != dimension(layout)) return false;
    for (const Segment& s : layout)
        if (s.size() > 0 && count_in(mask, range_of(s)) < (s.part == Part::buffer ? s.size() : 1)) return false;
    return true;
}

inline constexpr std::string_view forgotten_masks =
    "their masks; set remember=false, which sends the bits at every visit, or leave stateless off";

enum class Bits : std::uint8_t { lacks, knows, forgets };

// What a client keeps.
struct KnownMasks {
    Mask mask, next;  // trained with, and proposed (empty: the same)

    // Makes `mask` the one that a download is packed by; false if that is neither sent nor known.
    template <class M>
    bool recall(const Site<M>&, MaskedDown<real<M>>& received) {
        if (!received.mask.empty()) mask = std::move(received.mask);
        else if (!next.empty() && name_of(next) == received.name) mask = std::move(next);
        else if (mask.empty() || name_of(mask) != received.name) return false;
        next = {};
        return true;
    }
    // Whether a download is packed by a mask of this model. One whose mask is neither sent nor known is not read.
    template <class M>
    bool takes(const Site<M>& at, const MaskedDown<real<M>>& received) const {
        if (!received.mask.empty())
            return is_mask_of(received.mask, at.model->layout()) && received.mask.count() == received.x.size();
        for (const Mask* known : {&next, &mask})
            if (!known->empty() && name_of(*known) == received.name) return known->count() == received.x.size();
        return true;
    }
    bool fits(std::size_t parameters) const {
        return (mask.empty() || mask.size() == parameters) && (next.empty() || next.size() == parameters);
    }
};

template <class Fold, class R>
struct MaskedServer {
    Vec<R> w;
    memory_t<Fold, R> fold{};
    Mask first{};          // of whoever has none of their own
    Vec<Mask> own{};       // by client; empty: the first one
    Vec<Bits> bits{};      // by client

    const Mask& mask(Id k) const { return k < own.size() && !own[k].empty() ? own[k] : first; }

    MaskedDown<R> send(Id k, bool always_bits) const {
        const Mask& m = mask(k);
        const bool knows = !always_bits && k < bits.size() && bits[k] == Bits::knows;
        return {packed(w, m), knows ? Mask{} : m, name_of(m)};
    }
    // The mask that an upload's numbers are packed by: the one it was trained by, or the one it proposes.
    const Mask& packed_by(const MaskedUp<R>& up, bool proposed) const {
        return proposed && !up.next.empty() ? up.next : mask(up.from);
    }
    Vec<Row<R>> rows(std::span<const MaskedUp<R>> ups, bool proposed = false) const {
        Vec<Row<R>> all;
        for (const auto& up : ups)
            if (!up.x.empty()) all.push_back({up.x, up.weight, &packed_by(up, proposed)});
        return all;
    }
    // What an upload says of the client's mask.
    void note(const MaskedUp<R>& up) {
        if (up.x.empty()) bits[up.from] = Bits::forgets;
        else if (bits[up.from] == Bits::lacks) bits[up.from] = Bits::knows;
        if (!up.next.empty()) own[up.from] = up.next;
    }
    bool like(const MaskedServer& opened) const {
        const auto fits = [&](const Mask& each) { return each.empty() || each.size() == w.size(); };
        return w.size() == opened.w.size() && first.size() == w.size() && own.size() == opened.own.size() &&
               bits.size() == own.size() && std::ranges::all_of(own, fits) &&
               std::ranges::all_of(bits, [](Bits each) { return each <= Bits::forgets; });
    }
    bool admits(Id from, const MaskedUp<R>& up, bool proposed = false) const {
        if (up.from != from || (!up.next.empty() && up.next.size() != w.size())) return false;
        const bool lacked = up.x.empty() && up.weight == 0 && up.next.empty();
        return lacked || (up.weight > 0 && !up.x.empty() && up.x.size() == packed_by(up, proposed).count());
    }
};

// A mask has a bit for each parameter and leaves every tensor a weight; a masking of one's own may not know.
inline void require_mask(const Mask& mask, Layout layout, const char* made_by) {
    if (mask.size() != dimension(layout))
        throw ConfigError("masking: " + std::string(made_by) + " gives a mask of " + std::to_string(mask.size()) +
                          " bits for a model of " + std::to_string(dimension(layout)) + " parameters");
    for (const Segment& s : layout)
        if (s.size() > 0 && count_in(mask, range_of(s)) == 0)
            throw ConfigError("masking: " + std::string(made_by) + " leaves no active weight in " +
                              std::string(s.name.view()) + " (" + std::to_string(s.size()) + " weights)");
    require_buffers(mask, layout);
}

template <class Fold, class R>
MaskedServer<Fold, R> masked_server(Vec<R> w0, Mask first, std::size_t clients) {
    return {std::move(w0), {}, std::move(first), Vec<Mask>(clients), Vec<Bits>(clients, Bits::lacks)};
}
template <class Fold, class Masking, class M>
auto masked_server(const Masking& masking, FirstMasks how, const Site<M>& hub, Vec<real<M>> w0, std::size_t clients) {
    const Key key = hub.key(purpose::mask);
    const Layout layout = hub.model->layout();
    const auto first = [&](Key of) {
        Mask mask = masking.first(layout, of);
        require_mask(mask, layout, "first");
        return mask;
    };
    auto s = masked_server<Fold>(std::move(w0), first(key), clients);
    if (how == FirstMasks::different)
        for (std::size_t k = 0; k < clients; ++k) s.own[k] = first(key(k));
    return s;
}

template <class R>
MaskedUp<R> lacks_its_mask(Id from) {
    return {{}, 0, {}, from};
}

// The mask after a visit: the gradient is that of the first batch of a fresh shuffle, as evaluated (5.4).
template <class Masking, class M, class Form>
void search_mask(const Masking& masking, const Site<M>& at, const Form& sparse, In<real<M>> x, Mask& mask) {
    if (at.ids.empty()) return;
    const auto take = [&](Out<real<M>> out) {
        const auto batches = at.epochs(1, Pass::own);
        sparse.full_gradient(x, batches[0].evaluated(), out);
        at.workspace->tally.examples += batches[0].size();  // billed as a dense step (5.5)
    };
    masking.next(MaskSearch<real<M>>(at.model->layout(), x, at.key(purpose::mask)(at.round), at.round, at.rounds, take),
                 mask);
    require_mask(mask, at.model->layout(), "next");
}

// m o w as a predictor, which never holds a dense copy.
template <class M>
class SparsePredictor {
public:
    static constexpr auto offers = offer::whole;
    SparsePredictor(const Site<M>& at, Mask mask, Vec<real<M>> x, Arithmetic how)
        : kept_(std::make_unique<Kept>(at, std::move(mask), std::move(x), how)) {}

    void operator()(const Batch<real<M>>& b, Out<real<M>> out) const { kept_->form.predict(kept_->x, b, out); }
    const Mask& mask() const { return kept_->mask; }
    Vec<real<M>> whole() const { return kept_->form.whole(kept_->x); }

private:
    static constexpr std::size_t asked_at_once = 64;  // or more, whatever the batches of training
    struct Kept {
        Mask mask;
        Vec<real<M>> x;
        nn::Sparse<M> form;
        Kept(const Site<M>& at, Mask m, Vec<real<M>> values, Arithmetic how)
            : mask(std::move(m)), x(std::move(values)), form(*at.model, mask, asked_at_once, how) {}
    };
    std::unique_ptr<const Kept> kept_;
};

template <class M>
SparsePredictor<M> serve_masked(const Site<M>& at, MaskedDown<real<M>> received, KnownMasks me, Arithmetic how) {
    require(me.recall(at, received),
            "client " + std::to_string(at.id) +
                " was sent no mask and knows none; where clients keep nothing between visits, set remember=false");
    return {at, std::move(me.mask), std::move(received.x), how};
}

}  // namespace detail
}  // namespace tessera
