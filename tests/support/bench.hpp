// SPDX-License-Identifier: BSD-3-Clause
// A place to stand on with one client's quadratic data: what a visit would see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tessera/contracts/context.hpp>

#include <support/coupled.hpp>
#include <support/quadratic.hpp>

namespace tessera::support {

template <class M>
class QuadraticVisit {
public:
    explicit QuadraticVisit(const std::vector<Parabola>& examples, std::size_t batch = 0, Vec<double> initial = {0, 0},
                            M model = {})
        : data_(quadratic_data({examples})), batch_(batch), initial_(std::move(initial)), model_(model) {}
    QuadraticVisit(const QuadraticVisit&) = delete;
    QuadraticVisit& operator=(const QuadraticVisit&) = delete;

    Context<M> context() {
        const auto share = data_[0];
        return {.model = &model_,
                .examples = share.examples,
                .ids = share.train,
                .key = Key{share.key},
                .batch = batch_,
                .initial = &initial_,
                .workspace = &workspace_};
    }
    std::uint64_t steps() const { return workspace_.tally.steps; }
    const Tally& tally() const { return workspace_.tally; }

private:
    data::FederatedDataset data_;
    std::size_t batch_;
    Vec<double> initial_;
    M model_;
    Workspace<double> workspace_;
};

}  // namespace tessera::support
