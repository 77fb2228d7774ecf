// SPDX-License-Identifier: BSD-3-Clause
// Distillation at the server, and training of adapters on a frozen backbone.
#include <tessera/core/hash.hpp>
#include <tessera/method/feddf.hpp>
#include <tessera/method/partial.hpp>
#include <tessera/method/perada.hpp>
#include <tessera/nn/tuned.hpp>

#include "federated_session.hpp"
#include "server_fold.hpp"

namespace lab {
namespace {

using tessera::ConfigError;
using tessera::rule::Sgd;

}  // namespace

template <>
inline constexpr bool control_of_distillation<tessera::PerAda<Sgd, ServerFold>> = true;

// The rest stays where the stage began.
Entry on_adapters(Entry e) {
    e.open = [open = e.open](const Stage& stage, Task task, tessera::Vec<float> warm_start) {
        const tessera::Layout layout = task.model.layout();
        if (tessera::select<tessera::scope::Adapter>(layout).empty())
            throw ConfigError("--algorithm " + stage.options.algorithm + ": it trains adapters, of which --model " +
                              *stage.options.model + " has none; dnn-adapter has");
        if (warm_start.empty())
            warm_start =
                tessera::initial_parameters(task.model, tessera::Key{stage.options.seed}(tessera::purpose::init));
        tessera::Hasher h;
        h.bytes(warm_start.data(), warm_start.size() * sizeof(float));
        const tessera::nn::Tuned<Model> tuned(task.model, std::move(warm_start));
        const std::size_t trained = tessera::dimension(tuned), all = tessera::dimension(layout);
        task.facts.emplace_back("trained_parameters", trained);
        task.facts.emplace_back("frozen_parameters", all - trained);
        task.facts.emplace_back("backbone", h.finish().hex());
        task.model = tuned;
        return open(stage, task, {});
    };
    return e;
}

namespace {

// FedAvg on all but the adapters, which stay at their first values: what a backbone is made with.
struct AllButAdapters {
    static constexpr tessera::Offers offers{};
    Sgd local{};
    std::size_t epochs = 1;
    void operator()(const auto& at, auto& w, const auto&, const auto& common) const {
        descend(at, w, at.epochs(epochs), local, {.on = common});
    }
};
using Backbone = tessera::Partial<tessera::scope::IfAny<tessera::scope::Adapter>, AllButAdapters, ServerFold,
                                  tessera::Weigh::samples>;

// On the training examples of the lower half of the classes.
Entry on_half(Entry e) {
    e.open = [open = e.open](const Stage& stage, Task task, tessera::Vec<float> warm_start) {
        const auto& pool = task.clients.pool();
        auto split = task.clients.split();
        for (auto& share : split.clients)
            std::erase_if(share.train, [&](tessera::Index i) {
                return static_cast<std::size_t>(pool.label(i)) >= pool.examples().classes / 2;
            });
        task.clients = {pool, std::move(split)};
        return open(stage, task, std::move(warm_start));
    };
    return e;
}

}  // namespace

std::vector<Entry> adapter_methods() {
    using Distill = tessera::fold::Distill<ServerFold>;
    return {on_adapters(entry<tessera::PerAda<Sgd, Distill>>(
                "perada", "PerAda (Xie et al. 2024): adapters pulled to the server's, which distils; needs --aux")),
            on_adapters(entry<tessera::PerAda<Sgd, ServerFold>>("perada-nokd", "PerAda without distillation")),
            entry<tessera::FedAvg<Sgd, Distill>>(
                "feddf", "FedDF (Lin et al. 2020): FedAvg, then distillation at the server; needs --aux"),
            entry<Backbone>("backbone", "FedAvg on all but the adapters, for a stage before perada"),
            on_half(entry<Backbone>("backbone-half", "The same on the lower half of the classes"))};
}

}  // namespace lab
