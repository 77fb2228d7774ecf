// SPDX-License-Identifier: BSD-3-Clause
// One client with quadratic examples a/2 (w - c)^2 to stand on, for policies that are called directly.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <tessera/contracts/prior.hpp>

#include <support/quadratic.hpp>

namespace tessera::support {

template <std::size_t D = 1>
class OneClient {
public:
    explicit OneClient(std::vector<Parabola> examples, std::size_t batch = 0)
        : data_(quadratic_data({std::move(examples)})), batch_(batch) {}
    OneClient(const OneClient&) = delete;
    OneClient& operator=(const OneClient&) = delete;

    Context<Quadratic<double, D>> context() {
        const auto share = data_[0];
        return {.model = &model_, .examples = share.examples, .ids = share.train, .key = Key{7}, .batch = batch_,
                .initial = &initial_, .workspace = &workspace_};
    }
    const Tally& tally() const { return workspace_.tally; }

    // mu for this prior at w, with what the client remembers; w moves if the prior moves it.
    template <class Prior>
    Vec<double> mean(const Prior& prior, Vec<double>& w, const Personal<double>& me) {
        Vec<double> mu(w.size());
        Cursor cursor;
        for (const auto b : local_steps(context(), cursor, 1, prior)) prior(context(), w, b, me, mu);
        return mu;
    }
    // Dmu(w)' v
    template <class Prior>
    Vec<double> pulled_back(const Prior& prior, const Vec<double>& w, const Personal<double>& me, Vec<double> v) {
        Cursor cursor;
        for (const auto b : local_steps(context(), cursor, 1, prior)) prior.pull_back(context(), w, b, me, v);
        return v;
    }

private:
    Quadratic<double, D> model_{};
    data::FederatedDataset data_;
    std::size_t batch_;
    Vec<double> initial_ = Vec<double>(D);
    Workspace<double> workspace_;
};

}  // namespace tessera::support
