// SPDX-License-Identifier: BSD-3-Clause
// FedSpa (Huang et al., 2022): every client trains a sparse model of its own.
//
//   client: x = m_k o w, E epochs of the local rule in the active coordinates alone
//           m_k' = masking(x, m_k)                mask::DynamicSparse: DST, mask::RandomStatic: RSM
//   server: w = w - (1/M) sum_k (m_k o w - x_k)   fold::Mean; fold::OwnersMean divides by owners
//   serve:  m_k' o w
//
// That is Masked around local epochs. A grown coordinate starts at the server's value; a pruned one
// keeps its value there.
#pragma once

#include <tessera/fold/mean.hpp>
#include <tessera/method/detail/local_epochs.hpp>
#include <tessera/method/masked.hpp>
#include <tessera/rule/sgd.hpp>

namespace tessera {

template <class Masking = mask::DynamicSparse, class Local = rule::Sgd, class Fold = fold::Mean>
struct FedSpa {
    static_assert(accepts_masks<Fold>, "tessera::FedSpa: this aggregator does not understand "
                                       "rows with masks (Mean and OwnersMean do)");
    static constexpr auto by_default =
        verb::open | verb::send | verb::visit | verb::merge | verb::serve;
    static constexpr Offers offers{};
    Masking masking{};
    Local local{};
    Fold fold{};
    std::size_t epochs = 1;  // E
    FirstMasks first = FirstMasks::same;
    bool remember = true;  // clients keep their mask; false: its bits go down at every visit
    Arithmetic arithmetic = Arithmetic::table;

    auto inner() const {
        return Masked<detail::LocalEpochs<Local, Fold>, Masking>{
            {local, fold, epochs}, masking, {}, first, remember, arithmetic};
    }
};

}  // namespace tessera
