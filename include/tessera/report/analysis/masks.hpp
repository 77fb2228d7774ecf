// SPDX-License-Identifier: BSD-3-Clause
// Clients' masks as figures: how dense each tensor is, and how much two clients share.
//
//   density(k, l) = active coordinates of tensor l at client k / its size
//   overlap(j, k) = |m_j and m_k| / |m_j or m_k|       1 for equal masks
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <vector>

#include <tessera/contracts/masking.hpp>
#include <tessera/core/error.hpp>
#include <tessera/report/evaluation.hpp>
#include <tessera/report/extra.hpp>
#include <tessera/report/record.hpp>
#include <tessera/report/text.hpp>

namespace tessera::report::analysis {

inline double overlap(const Mask& a, const Mask& b) {
    std::size_t both = 0, either = 0;
    for (std::size_t w = 0; w < std::min(a.words().size(), b.words().size()); ++w) {
        both += static_cast<std::size_t>(std::popcount(a.words()[w] & b.words()[w]));
        either += static_cast<std::size_t>(std::popcount(a.words()[w] | b.words()[w]));
    }
    return either == 0 ? 1 : static_cast<double>(both) / static_cast<double>(either);
}

// The mean over clients, with the least and the most dense beside it where they differ.
inline Extra density_per_layer(Layout layout, const std::vector<Mask>& masks) {
    tessera::detail::require(!masks.empty(), "density_per_layer needs at least one mask");
    Extra out{.id = "mask-density",
              .title = "Active weights of each tensor",
              .caption = "Share of a tensor's coordinates that exist, mean over clients.",
              .kind = Kind::bars,
              .x = {.title = "tensor"},
              .y = {.title = "density", .unit = "%", .from_zero = true},
              .series = {{.name = "mean"}, {.name = "least"}, {.name = "most"}}};
    bool differ = false;
    for (const auto& s : layout) {
        double sum = 0, least = 1, most = 0;
        for (const auto& mask : masks) {
            const double share = static_cast<double>(count_in(mask, range_of(s))) / static_cast<double>(s.size());
            sum += share, least = std::min(least, share), most = std::max(most, share);
        }
        differ = differ || least != most;
        out.categories.emplace_back(s.name.view());
        const double row[] = {sum / static_cast<double>(masks.size()), least, most};
        for (std::size_t i = 0; i < 3; ++i) out.series[i].y.push_back(100 * row[i]);
    }
    if (!differ) out.series.resize(1);
    return out;
}

// masks[i] is that of clients[i]. The diagonal, always 1, is a gap: the colours belong to the pairs.
inline Extra mask_overlap(const std::vector<Id>& clients, const std::vector<Mask>& masks) {
    tessera::detail::require(clients.size() == masks.size(), "mask_overlap: give one mask for each client");
    Extra out{.id = "mask-overlap",
              .title = "Overlap of masks",
              .kind = Kind::heat,
              .x = {.title = "client"},
              .y = {.title = "client"}};
    double sum = 0;
    for (std::size_t i = 0; i < clients.size(); ++i) {
        out.categories.push_back(std::to_string(clients[i]));
        auto& row = out.series.emplace_back(Extra::Series{.name = std::to_string(clients[i])});
        for (std::size_t k = 0; k < clients.size(); ++k) {
            row.y.push_back(i == k ? absent : overlap(masks[i], masks[k]));
            sum += i == k ? 0 : row.y.back();
        }
    }
    const double pairs = static_cast<double>(clients.size()) * (static_cast<double>(clients.size()) - 1);
    out.caption = report::detail::cat("Coordinates that both clients have, of those that either has; the diagonal is "
                                      "left out. Mean over pairs: ",
                                      pairs > 0 ? report::detail::rounded(sum / pairs, 3) : "n/a", ".");
    return out;
}

// Both, of a run whose server can be asked for the mask of client k < `clients`.
template <class Server>
void add_mask_figures(RunRecord& record, Layout layout, const Server& server, std::size_t clients) {
    std::vector<Id> ids;
    std::vector<Mask> masks;
    for (Id k = 0; k < clients; ++k) {
        ids.push_back(k);
        masks.push_back(server.mask(k));
    }
    record.add(density_per_layer(layout, masks));
    record.add(mask_overlap(ids, masks));
}

}  // namespace tessera::report::analysis
