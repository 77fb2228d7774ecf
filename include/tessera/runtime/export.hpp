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

// A lambda offers nothing and is not written.
struct PredictorNames {
    int parameters, whole, segments, takes_second;
};
template <class P> concept names_parameters = !requires { &Probed<P, PredictorNames>::parameters; };
template <class P> concept names_whole = !requires { &Probed<P, PredictorNames>::whole; };
template <class P> concept names_segments = !requires { &Probed<P, PredictorNames>::segments; };
template <class P> concept names_takes_second = !requires { &Probed<P, PredictorNames>::takes_second; };
template <class P>
consteval bool predictor_is_spelt() {
    if constexpr (std::is_class_v<P> && !std::is_final_v<P>) {
        static_assert(
            names_parameters<P> == (offers_of<P>().has(offer::parameters) || offers_of<P>().has(offer::segments)),
            "tessera: a predictor with `parameters` lists `parameters` in `offers` (or `segments`, with a "
            "layout of its own), and no other does; is it misspelt?");
        static_assert(
            agrees<P>(names_segments<P>, offer::segments),
            "tessera: `segments` must be a member of a predictor and be listed in `offers`, or neither; is it "
            "misspelt?");
        static_assert(agrees<P>(names_whole<P>, offer::whole),
                      "tessera: `whole` must be a member of a predictor and be listed in `offers`, or neither; is it "
                      "misspelt?");
        static_assert(agrees<P>(names_takes_second<P>, offer::either),
                      "tessera: a predictor with `takes_second` lists `either` in `offers`, and no other does; is it "
                      "misspelt?");
    }
    return true;
}

// What a client predicts with, as far as it is a vector of parameters: the model's own, a sparse one's whole, or those
// of a routed model, whose tensors are named global.*, local.* and as its gate says.
template <class R, class P>
void append_predictor(std::vector<io::NamedTensor>& all, Layout layout, const P& predictor, const std::string& name) {
    static_assert(predictor_is_spelt<P>());
    if constexpr (offers_of<P>().has(offer::either)) {
        if (predictor.takes_second) append_predictor<R>(all, layout, predictor.second, name);
        else append_predictor<R>(all, layout, predictor.first, name);
    } else if constexpr (offers_of<P>().has(offer::segments)) {
        io::append_tensors<R>(all, predictor.segments(), predictor.parameters(), name);
    } else if constexpr (offers_of<P>().has(offer::whole)) {
        io::append_tensors<R>(all, layout, predictor.whole(), name);
    } else if constexpr (offers_of<P>().has(offer::parameters)) {
        io::append_tensors<R>(all, layout, predictor.parameters, name);
    }
}

}  // namespace detail

// A method that leaves `serve` to its default has no clients' models beside the server's, nor has one whose clients
// answer with more than parameters (kNN-Per). On several ranks all call this, and rank 0 writes.
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
        for (Id k = 0; k < run.size(); ++k) {
            run.bring(k);
            run.at_client(k, workspace, [&](const auto& client, auto received, Workspace<R>& space) {
                detail::append_predictor<R>(all, layout, client.serve(std::move(received), run.rounds_done(), space),
                                            "client/" + std::to_string(k) + "/");
            });
        }
    }
    detail::require(!all.empty(), "this method has no model that can be written to " + path +
                                      ": neither its server nor its clients answer with parameters alone");
    run.ranks().first_does([&] { io::write_tensors(path, all); });
}

}  // namespace tessera
