// SPDX-License-Identifier: BSD-3-Clause
// Sub-FedAvg, unstructured (Vahidian et al., 2021): clients prune down to a target density.
//
//   client: x = m_k o w, E epochs in the active coordinates
//           c1, c2: m_k without the `prune_rate` smallest |x| after the first, the last epoch
//           m_k = c2 if |c1 - c2| > distance, density > target and accuracy(c2 o x) > accuracy
//   server: w_j = mean over the clients whose mask has j; what nobody has stays
//   serve:  m_k o w
//
// Masks begin full. With one epoch c1 is c2 and nothing is ever pruned.
#pragma once

#include <tessera/contracts/method.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/fold/owners_mean.hpp>
#include <tessera/method/detail/local_epochs.hpp>
#include <tessera/method/detail/prune.hpp>
#include <tessera/method/masked.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Local = rule::Sgd, class Fold = fold::OwnersMean>
struct SubFedAvg {
    static_assert(accepts_masks<Fold>, "tessera::SubFedAvg: this aggregator does not understand "
                                       "rows with masks (Mean and OwnersMean do)");
    static constexpr auto by_default = verb::open | verb::send | verb::merge | verb::serve;
    static constexpr Offers offers{};
    Local local{};
    Fold fold{};
    std::size_t epochs = 5;  // E
    Pruning pruning{};
    bool old_owners = false;  // count owners by the mask before pruning (D-SPA-6)
    bool remember = true;     // clients keep their mask; false: its bits go down at every visit
    Arithmetic arithmetic = Arithmetic::table;

    auto inner() const {
        return Masked<detail::LocalEpochs<Local, Fold>, mask::RandomStatic>{
            .inner = {local, fold, epochs}, .masking = {.density = 1}, .remember = remember,
            .arithmetic = arithmetic, .proposed = !old_owners};
    }
    template <class M, class R = real<M>>
    auto visit(const Context<M>& at, detail::MaskedDown<R> got, auto& me) const {
        if (!me.recall(got)) return detail::lacks_its_mask<R>(at.id);
        const nn::Sparse sparse(*at.model, me.mask, at.batch_size(), arithmetic);
        const auto early = detail::after_first(at.with(sparse), got.x, at.epochs(epochs), local);
        const Mask next = pruning.next(at, sparse, early, got.x, me.mask);
        detail::MaskedUp<R> up{std::move(got.x), 1, {}, at.id};
        if (next != me.mask) {
            up.x = detail::cut(up.x, me.mask, next, old_owners);
            up.next = me.next = next;
        }
        if (!remember) me = {};
        return up;
    }
};

}  // namespace tessera
