// SPDX-License-Identifier: BSD-3-Clause
// The models of a run in one file: the server's under "global/", each client's under "client/K/".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <tessera/io/model_file.hpp>
#include <tessera/runtime/evaluate.hpp>

namespace tessera {

namespace detail {

// What a client predicts with, as far as it is a vector of parameters: the model's own, a sparse one's whole, or those
// of a routed model, whose tensors are named global.*, local.* and as its gate says.
template <class R, class P>
void append_predictor(std::vector<io::NamedTensor>& all, Layout layout, const P& predictor, const std::string& name) {
    if constexpr (requires { predictor.takes_second; }) {
        if (predictor.takes_second) append_predictor<R>(all, layout, predictor.second, name);
        else append_predictor<R>(all, layout, predictor.first, name);
    } else if constexpr (requires { predictor.segments(); }) {
        io::append_tensors<R>(all, predictor.segments(), predictor.parameters(), name);
    } else if constexpr (requires { predictor.whole(); }) {
        io::append_tensors<R>(all, layout, predictor.whole(), name);
    } else if constexpr (requires { predictor.parameters; }) {
        io::append_tensors<R>(all, layout, predictor.parameters, name);
    }
}

}  // namespace detail

// A method that leaves `serve` to its default has no clients' models beside the server's, nor has one whose clients
// answer with more than parameters (kNN-Per).
template <class Me, class M>
void write_models(const std::string& path, const Federation<Me, M>& run) {
    using R = real<M>;
    std::vector<io::NamedTensor> all;
    const Layout layout = run.setup().model.layout();
    if constexpr (detail::HasGlobalModel<Me, M>) {
        const auto& global = detail::global_parameters(run);
        if (global.size() == dimension(layout)) io::append_tensors<R>(all, layout, global, "global/");
    }
    if constexpr (detail::serves_own<Me>()) {
        Workspace<R> workspace;
        for (Id k = 0; k < run.size(); ++k)
            run.at_client(k, workspace, [&](const auto& client, auto received, Workspace<R>& space) {
                detail::append_predictor<R>(all, layout, client.serve(std::move(received), run.rounds_done(), space),
                                            "client/" + std::to_string(k) + "/");
            });
    }
    detail::require(!all.empty(), "this method has no model that can be written to " + path +
                                      ": neither its server nor its clients answer with parameters alone");
    io::write_tensors(path, all);
}

}  // namespace tessera
