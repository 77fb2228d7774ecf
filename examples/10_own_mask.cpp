// SPDX-License-Identifier: BSD-3-Clause
// A mask search of your own. FedSpa's clients hold a part of the model's weights; after each visit
// a masking says which part. Here: the weights that would be largest after one dense step.
//
// Teaches: a masking, what a search may look at, how it is compared with those of the paper.
// Next: lab/
#include <tessera/conformance.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/kernels/select.hpp>
#include <tessera/mask/random_static.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <cstdio>

using namespace tessera;

// Of each tensor as many as before: those with the largest |w - rate g|.
struct LookAhead {
    static constexpr auto offers = offer::validate;
    double density = 0.5, rate = 0.1;

    Mask first(Layout layout, Key key) const {
        return mask::drawn(layout, density, mask::Distribution::erk, key);
    }
    template <class R>
    void next(const MaskSearch<R>& at, Mask& mask) const {
        Vec<R> ahead;
        for (const R g : at.gradient())  // in every coordinate, active or not
            ahead.push_back(static_cast<R>(-rate) * g);
        std::size_t i = 0;  // at.values holds the active weights, one after the other
        for_each_active(mask, {0, mask.size()}, [&](std::size_t j) { ahead[j] += at.values[i++]; });
        Mask chosen(mask.size());
        for (const Segment& s : at.layout) {
            const auto best = kernels::largest(In<R>(ahead).subspan(s.offset, s.size()),
                                               count_in(mask, range_of(s)));
            for_each_active(best, {0, s.size()}, [&](auto j) { chosen.set(s.offset + j, true); });
        }
        mask = chosen;
    }
    void validate() const { mask::require_density(density); }
};

// Trains, prints, and gives back the clients' mean accuracy with their own sparse models.
template <class Masking>
double accuracy(const char* name, const Masking& masking) {
    using Net = nn::Dnn<60, 20, 10>;
    const auto clients =
        data::synthetic({.alpha = 1, .beta = 1, .clients = 20, .seed = 2, .max_examples = 200});
    const FedSpa<Masking> method{.masking = masking, .local = {.rate = 0.05}, .epochs = 2};
    Federation<FedSpa<Masking>, Net> run{Net{}, clients, method, {.batch = 20, .rounds = 40}};
    double megabytes = 0;
    run.run(40, sample::Uniform{10}, exec::Serial{}, [&](const RoundReport& report) {
        megabytes += static_cast<double>(report.bytes_up + report.bytes_down) / 1e6;
    });
    const double mean = evaluate<Which::personal>(run).accuracy(Average::unweighted).value;
    std::printf("%-32s accuracy %.3f, %.2f MB\n", name, mean, megabytes);
    return mean;
}

int main() {
    conformance::require(  // masks move, whatever the rate
        conformance::method(FedSpa<LookAhead>{}, nn::Dnn<8, 6, 4>{}, {.rate_zero_serves = false}));
    accuracy("everything (FedAvg, uniform)", mask::RandomStatic{.density = 1});
    const double fixed = accuracy("a random half that stays (RSM)", mask::RandomStatic{});
    accuracy("a half that is searched (DST)", mask::DynamicSparse{});
    return accuracy("one step ahead (this file)", LookAhead{}) > fixed ? 0 : 1;
}
