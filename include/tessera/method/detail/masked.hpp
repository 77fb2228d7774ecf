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

#include <tessera/contracts/context.hpp>
#include <tessera/contracts/descender.hpp>
#include <tessera/contracts/fold.hpp>
#include <tessera/contracts/masking.hpp>
#include <tessera/contracts/memory.hpp>
#include <tessera/contracts/method.hpp>
#include <tessera/contracts/sparse.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/form.hpp>
#include <tessera/core/scope.hpp>
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

// The bits of some coordinates, one after the other, and how many are set.
inline Mask gathered(const Mask& mask, const Coordinates& where) {
    Mask some(where.size(mask.size()));
    std::size_t i = 0;
    where.each(mask.size(), [&](Range r) {
        for (std::size_t j = r.begin; j < r.end; ++j) some.set(i++, mask[j]);
    });
    return some;
}
inline std::size_t count_in(const Mask& mask, const Coordinates& where) {
    std::size_t n = 0;
    where.each(mask.size(), [&](Range r) { n += tessera::count_in(mask, r); });
    return n;
}

inline constexpr std::string_view forgotten_masks =
    "their masks; set remember=false, which sends the bits at every visit, or leave stateless off";

enum class Bits : std::uint8_t { lacks, knows, forgets };

// What a client keeps: masks, and what the method under them keeps, packed by `mask`.
template <class Own>
struct KnownMasks {
    Mask mask, next;  // trained with, and proposed (empty: the same)
    Own own{};

    // Makes `mask` the one that a download is packed by; false if that is neither sent nor known.
    template <class R>
    bool recall(MaskedDown<R>& received) {
        if (!received.mask.empty()) mask = std::move(received.mask);
        else if (!next.empty() && name_of(next) == received.name) mask = std::move(next);
        else if (mask.empty() || name_of(mask) != received.name) return false;
        next = {};
        return true;
    }
    // Whether a download is packed by a mask of this model, of which `sent` travels. One whose mask is neither sent nor
    // known is not read.
    template <class M>
    bool takes(const Context<M>& at, const MaskedDown<real<M>>& received, const Coordinates& sent) const {
        if (!received.mask.empty())
            return is_mask_of(received.mask, at.model->layout()) && count_in(received.mask, sent) == received.x.size();
        for (const Mask* known : {&next, &mask})
            if (!known->empty() && name_of(*known) == received.name) return count_in(*known, sent) == received.x.size();
        return true;
    }
    bool fits(std::size_t parameters) const {
        return (mask.empty() || mask.size() == parameters) && (next.empty() || next.size() == parameters);
    }
};

// `Rest` is what the method under the masks has in its server beside w and a fold's memory.
template <class Fold, class R, class Rest = Nothing>
struct MaskedServer {
    Vec<R> w;
    memory_t<Fold, R> fold{};
    Mask first{};          // of whoever has none of their own
    Vec<Mask> own{};       // by client; empty: the first one
    Vec<Bits> bits{};      // by client
    Rest rest{};

    const Mask& mask(Id k) const { return k < own.size() && !own[k].empty() ? own[k] : first; }

    // Of a mask of the model what lies where w does.
    static constexpr bool split = requires(const Rest& r) { r.place; };
    decltype(auto) of_w(const Mask& m) const {
        if constexpr (split) {
            Coordinates sent = Coordinates::none();
            for (const Range& r : rest.place) sent.add(r);
            return gathered(m, sent);
        } else return (m);
    }
    MaskedDown<R> send(Id k, bool always_bits) const {
        const Mask& m = mask(k);
        const bool knows = !always_bits && k < bits.size() && bits[k] == Bits::knows;
        return {packed(w, of_w(m)), knows ? Mask{} : m, name_of(m)};
    }
    // The mask that an upload's numbers are packed by: the one it was trained by, or the one it proposes.
    const Mask& packed_by(const MaskedUp<R>& up, bool proposed) const {
        return proposed && !up.next.empty() ? up.next : mask(up.from);
    }
    // use(rows) of all that came.
    template <class Use>
    void with_rows(std::span<const MaskedUp<R>> ups, bool proposed, Use&& use) const {
        Vec<Row<R>> all;
        Vec<Mask> parts;
        parts.reserve(split ? ups.size() : 0);
        for (const auto& up : ups) {
            if (up.x.empty()) continue;
            const Mask* by = &packed_by(up, proposed);
            if constexpr (split) by = &parts.emplace_back(of_w(*by));
            all.push_back({up.x, up.weight, by});
        }
        use(Rows<R>(all));
    }
    // What an upload says of the client's mask.
    void note(const MaskedUp<R>& up) {
        if (up.x.empty()) bits[up.from] = Bits::forgets;
        else if (bits[up.from] == Bits::lacks) bits[up.from] = Bits::knows;
        if (!up.next.empty()) own[up.from] = up.next;
    }
    bool like(const MaskedServer& opened) const {
        const auto fits = [&](const Mask& each) { return each.empty() || each.size() == first.size(); };
        return w.size() == opened.w.size() && first.size() == opened.first.size() && own.size() == opened.own.size() &&
               bits.size() == own.size() && std::ranges::all_of(own, fits) && same_rest(opened) &&
               std::ranges::all_of(bits, [](Bits each) { return each <= Bits::forgets; });
    }
    bool admits(Id from, const MaskedUp<R>& up, bool proposed = false) const {
        if (up.from != from || (!up.next.empty() && up.next.size() != first.size())) return false;
        const bool lacked = up.x.empty() && up.weight == 0 && up.next.empty();
        return lacked || (up.weight > 0 && !up.x.empty() && up.x.size() == of_w(packed_by(up, proposed)).count());
    }

private:
    bool same_rest(const MaskedServer& opened) const {
        if constexpr (requires { rest.like(opened.rest); }) return rest.like(opened.rest);
        else return has_form(rest, form_of(opened.rest));
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

// Masks that a masking draws in the segments of a scope; outside of it everything is active.
template <class Masking, Scope Over>
struct Drawer {
    const Masking& masking;
    const Over& over;
    Layout layout;

    Mask operator()(Key key) const {
        const auto some = within();
        Mask mask = masking.first(some, key);
        require_mask(mask, some, "first");
        if (some.size() == layout.size()) return mask;
        Mask whole(dimension(layout), true);
        for (const Segment& s : some)
            for (std::size_t j = s.offset; j < s.end(); ++j) whole.set(j, mask[j]);
        return whole;
    }
    Vec<Segment> within() const {
        Vec<Segment> some;
        for (const Segment& s : layout)
            if (over.selects(s)) some.push_back(s);
        return some;
    }
};

// What a method must be like for masks to be put on it.
template <class Inner>
consteval bool sends_parameters() {
    using Me = merger_t<Inner>;
    return !names_merge<Me> && !names_send<Me> && requires { &Me::fold; } &&
           std::is_same_v<down_t<Inner, float>, Vec<float>>;
}
template <class Inner>
consteval bool wears_masks() {
    using Me = merger_t<Inner>;
    constexpr bool parameters = sends_parameters<Inner>();
    static_assert(parameters,
                  "tessera::Masked: masks are worn by methods whose messages are parameters: `send` gives the server's "
                  "w and a fold merges uploads {x, weight}, both by default");
    constexpr bool routes = requires { &Me::gate; };
    static_assert(!routes,
                  "tessera::Masked: this method routes examples between two copies of each block, and a sparse model "
                  "is one list without blocks to choose from");
    if constexpr (parameters && !routes) {
        constexpr bool understands = accepts_masks<std::remove_cvref_t<decltype(Me::fold)>>;
        static_assert(understands, "tessera::Masked: this aggregator does not understand rows with masks (Mean and "
                                   "OwnersMean do)");
    }
    return true;
}
template <class Inner, class Fold, class R>
using beside_vector_t =
    std::conditional_t<std::is_same_v<server_t<Inner, R>, Shared<Fold, R>>, Nothing, server_t<Inner, R>>;

inline void require_as_many(std::size_t at_server, std::size_t parameters) {
    require(at_server == parameters, "a mask is of a model's parameters: this method's server has " +
                                         std::to_string(at_server) + " numbers for " + std::to_string(parameters));
}
inline std::string knows_no_mask(Id client) {
    return "client " + std::to_string(client) +
           " was sent no mask and knows none; where clients keep nothing between visits, set remember=false";
}

template <class R>
MaskedUp<R> lacks_its_mask(Id from) {
    return {{}, 0, {}, from};
}

// The mask after a visit: the gradient is that of the first batch of a fresh shuffle, as evaluated (5.4). Only what
// lies in the scope is searched.
template <class Masking, Scope Over, class M, class Form>
void search_mask(const Masking& masking, const Over& over, const Context<M>& at, const Form& sparse, In<real<M>> x,
                 Mask& mask) {
    using R = real<M>;
    if (at.ids.empty()) return;
    const Layout all = at.model->layout();
    const auto some = Drawer<Masking, Over>{masking, over, all}.within();
    if (some.empty()) return;
    const bool whole = some.size() == all.size();
    const auto take = [&](Out<R> out) {
        if (auto* const other = Descender<R>::here()) other->stays("the gradient that a mask is searched by");
        const auto batches = at.epochs(1, Pass::own);
        Vec<R> dense(whole ? 0 : mask.size());
        sparse.full_gradient(x, batches[0].evaluated(), whole ? out : Out<R>(dense));
        if (!whole) std::copy_n(dense.begin(), out.size(), out.begin());
        at.workspace->tally.examples += batches[0].size();  // billed as a dense step (5.5)
    };
    const Key key = at.key(purpose::mask)(at.round);
    if (whole) {
        masking.next(MaskSearch<R>(some, x, key, at.round, at.rounds, take), mask);
        return require_mask(mask, all, "next");
    }
    Mask part(dimension(some));  // up to the scope's end, with its bits alone
    Vec<R> values;
    for (const Segment& s : some) {
        const std::size_t before = tessera::count_in(mask, {0, s.offset});
        const auto here = x.subspan(before, tessera::count_in(mask, range_of(s)));
        values.insert(values.end(), here.begin(), here.end());
        for_each_active(mask, range_of(s), [&](std::size_t j) { part.set(j, true); });
    }
    masking.next(MaskSearch<R>(some, values, key, at.round, at.rounds, take), part);
    require_mask(part, some, "next");
    for (const Segment& s : some)
        for (std::size_t j = s.offset; j < s.end(); ++j) mask.set(j, part[j]);
}

// Whether a method, or the one inside it, keeps a part of the model for itself, and which one.
template <class Me>
consteval bool is_split() {
    if constexpr (requires { &Me::own; }) return true;
    else if constexpr (WrapsMethod<Me>) return is_split<inner_t<Me>>();
    else return false;
}
template <class Me>
auto own_part(const Me& me) {
    if constexpr (requires { me.own; }) return me.own;
    else return own_part(inner_of(me));
}

// Every vector of a state that is packed by one mask, packed by another; what is new has the numbers of `fresh`, which
// is packed by that. Vectors of one part of the model have the length of that part.
template <class State, class R>
void repack(State& state, const Mask& before, const Mask& after, const Vec<R>& fresh, const Coordinates& part) {
    const auto moved = [&](const Vec<R>& x, const Coordinates& where) {
        Vec<R> out;
        std::size_t i = 0;
        where.each(before.size(), [&](Range r) {
            std::size_t next = tessera::count_in(after, {0, r.begin});
            for (std::size_t j = r.begin; j < r.end; ++j) {
                const bool had = before[j], has = after[j];
                if (has) out.push_back(had ? x[i] : fresh[next]);
                i += had;
                next += has;
            }
        });
        return out;
    };
    const std::size_t all = before.count(), some = count_in(before, part);
    for_each_vector(state, [&](auto& x) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(x)>, Vec<R>>) {
            if (x.size() == all) x = moved(x, Coordinates{});
            else if (!x.empty() && x.size() == some) x = moved(x, part);
        }
    });
}

// Where the inner method stands: the same place with the sparse form of the model, for `rows` examples at a time.
template <class M>
struct SparseContext {
    Mask mask;
    nn::Sparse<M> form;
    Vec<real<M>> initial;
    SparseContext(const Context<M>& at, Mask m, std::size_t rows, Arithmetic how)
        : mask(std::move(m)), form(*at.model, mask, rows, how), initial(packed(*at.initial, mask)) {}
    Context<nn::Sparse<M>> context(const Context<M>& at) const {
        auto there = at.with(form);
        there.initial = &initial;
        return there;
    }
};

// A predictor on the sparse form of a model, which never holds a dense copy.
template <class M, class Predict>
class SparsePredictor {
public:
    static constexpr auto offers =
        offer::when(offers_of<Predict>().has(offer::parameters), offer::whole);

    void operator()(const Batch<real<M>>& b, Out<real<M>> out) const { (*predict_)(b, out); }
    const Mask& mask() const { return kept_->mask; }
    Vec<real<M>> whole() const
        requires(offers_of<Predict>().has(offer::parameters))
    {
        return kept_->form.whole(predict_->parameters);
    }

    static constexpr std::size_t asked_at_once = 64;  // or more, whatever the batches of training
    SparsePredictor(std::unique_ptr<const SparseContext<M>> kept, Predict predict)
        : kept_(std::move(kept)), predict_(std::make_unique<Predict>(std::move(predict))) {}

private:
    std::unique_ptr<const SparseContext<M>> kept_;
    std::unique_ptr<const Predict> predict_;
};

}  // namespace detail
}  // namespace tessera
