// SPDX-License-Identifier: BSD-3-Clause
// Methods whose clients train, or send, a part of the coordinates.
#include <array>
#include <cstdint>
#include <string_view>

#include <tessera/fold/owners_mean.hpp>
#include <tessera/mask/dynamic_sparse.hpp>
#include <tessera/mask/random_static.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/sub_fedavg.hpp>
#include <tessera/method/subsampling.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {

// Updates divided by the number of clients, or by the number of owners of a coordinate.
enum class Aggregate : std::uint8_t { mean_update, count_normalised };
constexpr std::array<std::string_view, 2> words_of(Aggregate) { return {"mean_update", "count_normalised"}; }

namespace {

using tessera::rule::Sgd;

template <Aggregate Usual>
struct MaskedFold {
    static constexpr auto offers = tessera::offer::masked;
    Aggregate aggregate = Usual;

    template <class M>
    void fold(const tessera::Context<M>& context, tessera::Vec<tessera::real<M>>& w,
              tessera::Rows<tessera::real<M>> rows, tessera::Nothing& none) const {
        if (aggregate == Aggregate::mean_update) tessera::fold::Mean{}.fold(context, w, rows, none);
        else tessera::fold::OwnersMean{}.fold(context, w, rows, none);
    }
};

template <class Masking>
using FedSpa = tessera::FedSpa<Masking, Sgd, MaskedFold<Aggregate::mean_update>>;
using SubFedAvg = tessera::SubFedAvg<Sgd, MaskedFold<Aggregate::count_normalised>>;

}  // namespace

std::vector<Entry> sparse_methods() {
    using Searched = FedSpa<tessera::mask::DynamicSparse>;
    return {with_codec<Searched>(entry<Searched>(
                "fedspa-dst", "FedSpa (Huang et al. 2022): sparse personal models, masks searched in training")),
            entry<FedSpa<tessera::mask::RandomStatic>>("fedspa-rsm", "FedSpa with one random mask that stays"),
            entry<SubFedAvg>("sub-fedavg", "Sub-FedAvg (Vahidian et al. 2021): clients prune as they train"),
            entry<tessera::Subsampling<Sgd, ServerFold>>("subsampling",
                                                         "FedAvg whose uploads are random parts of the update")};
}

}  // namespace lab
