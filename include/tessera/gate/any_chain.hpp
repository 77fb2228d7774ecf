// SPDX-License-Identifier: BSD-3-Clause
// Chain with widths chosen at run time: a model of L blocks takes the first L - 1 of them.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include <tessera/contracts/gate.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/gate/detail/exits.hpp>

namespace tessera::gate {

struct AnyChain {
    static constexpr auto offers = offer::validate | offer::saved | offer::forward_flops;
    std::size_t first = 350, second = 150, third = 50, fourth = 0, fifth = 0;  // widths; 0 ends the list
    double dropout = 0.3;                                                      // of an exit
    bool relu = true;                                                          // of an exit

private:
    static constexpr std::size_t widest = 65536;  // of 784 inputs 200 MB for each client

    template <class F>
    auto with(const Routes& routes, F&& f) const {
        const std::array<std::size_t, 5> all{first, second, third, fourth, fifth};
        std::size_t n = 0;
        while (n < all.size() && n + 1 < routes.blocks && all[n] > 0) ++n;
        return f(detail::Exits{std::span<const std::size_t>(all).first(n), dropout, relu});
    }

public:
    Vec<Segment> segments(const Routes& routes) const {
        return with(routes, [&](const detail::Exits& exits) { return exits.segments(routes); });
    }
    std::size_t saved(const Routes& routes) const {
        return with(routes, [](const detail::Exits& exits) { return exits.saved(); });
    }
    template <class R>
    void operator()(const Routes& routes, In<R> psi, const Batch<R>& batch, Out<R> q0, Out<R> saved) const {
        with(routes, [&](const detail::Exits& exits) { exits.forward(routes, psi, batch, q0, saved); });
    }
    template <class R>
    void pull_back(const Routes& routes, In<R> psi, const Batch<R>& batch, In<R> q0, In<R> saved, In<R> dq0,
                   Out<R> dpsi) const {
        with(routes, [&](const detail::Exits& exits) { exits.backward(routes, psi, batch, q0, saved, dq0, dpsi); });
    }
    double forward_flops(const Routes& routes) const {
        return with(routes, [&](const detail::Exits& exits) { return exits.flops(routes); });
    }
    void validate() const {
        for (const auto width : {first, second, third, fourth, fifth})
            tessera::detail::require(width <= widest, "a router's layer is at most " + std::to_string(widest) +
                                                          " wide, not " + std::to_string(width));
        detail::Exits{{}, dropout, relu}.validate();
    }
};

}  // namespace tessera::gate
