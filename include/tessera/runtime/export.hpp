// SPDX-License-Identifier: BSD-3-Clause
// The models of a run in one file: the server's under "global/", each client's under "client/K/".
#pragma once

#include <string>
#include <vector>

#include <tessera/io/model_file.hpp>
#include <tessera/runtime/evaluate.hpp>

namespace tessera {

// A client's model is written when its predictor is the model with parameters of its own (Plain, or a sparse one that
// can say them whole); a method that leaves `serve` to its default has none beside the server's.
template <class Me, class M>
void write_models(const std::string& path, const Federation<Me, M>& run) {
    using R = real<M>;
    std::vector<io::NamedTensor> all;
    const Layout layout = run.setup().model.layout();
    if constexpr (detail::HasGlobalModel<Me, M>)
        if (run.server().w.size() == dimension(layout))
            io::append_tensors<R>(all, layout, run.server().w, "global/");
    if constexpr (detail::serves_own<Me>()) {
        Workspace<R> workspace;
        for (Id k = 0; k < run.size(); ++k)
            run.at_client(k, workspace, [&](const auto& client, auto received, Workspace<R>& space) {
                const auto predictor = client.serve(std::move(received), run.rounds_done(), space);
                const std::string name = "client/" + std::to_string(k) + "/";
                if constexpr (requires { predictor.parameters; })
                    io::append_tensors<R>(all, layout, predictor.parameters, name);
                else if constexpr (requires { predictor.whole(); })
                    io::append_tensors<R>(all, layout, predictor.whole(), name);
            });
    }
    io::write_tensors(path, all);
}

}  // namespace tessera
