// SPDX-License-Identifier: BSD-3-Clause
// The code of policies/mask.md and systems/fedspa.md.
#include <tessera/conformance.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/fold/owners_mean.hpp>
#include <tessera/mask.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/sub_fedavg.hpp>
#include <tessera/method/subsampling.hpp>
#include <tessera/report/analysis/cost.hpp>
#include <tessera/report/analysis/masks.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <cstdio>
#include <vector>

using namespace tessera;

namespace mine {

// [masking]
// Every few rounds a mask of the same density, drawn anew: what a search has to beat.
struct Redrawn {
    static constexpr auto offers = offer::validate;
    double density = 0.5;
    std::size_t every = 10;

    Mask first(Layout layout, Key key) const {
        return mask::drawn(layout, density, mask::Distribution::erk, key);
    }
    template <class R>
    void next(const MaskSearch<R>& at, Mask& mask) const {
        if ((at.round + 1) % every == 0) mask = first(at.layout, at.key);
    }
    void validate() const {
        mask::require_density(density);
        detail::require(every > 0, "every must be at least 1 round");
    }
};
// [/masking]

}  // namespace mine

int main() {
    using Net = nn::Dnn<60, 20, 10>;
    const auto clients = data::synthetic({.alpha = 1, .beta = 1, .clients = 8, .seed = 2, .max_examples = 60});
    // [masking_test]
    conformance::require(  // masks move, whatever the rate
        conformance::method(FedSpa<mine::Redrawn>{.masking = {.every = 2}}, Net{}, {.rate_zero_serves = false}));
    // [/masking_test]
    // [masking_use]
    const FedSpa<> dst{.masking = {.density = 0.2, .prune_rate = 0.3}, .local = {.rate = 0.1, .clip = 10}, .epochs = 5};
    const FedSpa<mask::RandomStatic> rsm{.masking = {.density = 0.2}};
    const FedSpa<mask::DynamicSparse, rule::Sgd, fold::OwnersMean> by_owners{.first = FirstMasks::different};
    const FedSpa<mine::Redrawn> redrawn{.masking = {.density = 0.2, .every = 5}};
    const SubFedAvg<> pruned{.epochs = 5, .pruning = {.prune_rate = 0.05, .target = 0.5}};
    const Subsampling<> sampled{.epochs = 5, .density = 0.5, .unbiased = true};
    // [/masking_use]
    detail::validate_all(rsm);
    detail::validate_all(by_owners);
    detail::validate_all(redrawn);
    detail::validate_all(pruned);
    detail::validate_all(sampled);
    Federation<FedSpa<>, Net> run{{}, clients, dst, {.seed = 1, .batch = 10, .rounds = 3}};
    run.run(3, sample::Uniform{.count = 4});
    report::RunRecord record;
    record.set("algorithm", "fedspa-dst");
    // [figures]
    report::analysis::add_mask_figures(record, run.setup().model.layout(), run.server(), run.size());
    record.add(report::analysis::accuracy_against(report::analysis::CostOf::formula_bytes, {record}));
    record.add(report::analysis::rounds_to_reach({record}, {70, 75, 80}));
    // [/figures]
    // [costs]
    const Layout layout = run.setup().model.layout();
    const std::vector<std::size_t> places(layout.size(), 1);  // H_out W_out of a convolution, 0 of a norm
    const auto shares = mask::densities(layout, 0.2, mask::Distribution::erk);
    std::vector<std::size_t> active;
    double numbers = 0;
    for (std::size_t l = 0; l < layout.size(); ++l) {
        active.push_back(mask::active_count(shares[l], layout[l].size()));
        numbers += static_cast<double>(active.back());
    }
    const report::analysis::Schedule plan{.rounds = 400, .per_round = 10, .epochs = 5, .examples = 600, .batch = 128};
    const double gigabytes = plan.bytes(numbers, numbers) / 1e9;
    const double flops = plan.training_flops(report::analysis::forward_flops(layout, places, active)) +
                         plan.search_flops(report::analysis::forward_flops(layout, places));
    // [/costs]
    std::printf("%zu figures, %.3f GB, %.3g FLOPs\n", record.extras.size(), gigabytes, flops);
    return record.extras.size() == 4 && gigabytes > 0 && flops > 0 ? 0 : 1;
}
