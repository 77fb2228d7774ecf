// SPDX-License-Identifier: BSD-3-Clause
// Label shares drawn from a Dirichlet distribution, in the three forms the papers use.
//
//   Dirichlet            p_k ~ Dir(alpha 1_C) per client, all clients filled at once  
//   DirichletFixed       the same p_k for train and test, client after client          (8.1)
//   DirichletUnbalanced  q_c ~ Dir(alpha 1_N) per class, so client sizes differ        (8.3)
//
// alpha -> infinity gives every client the pool's shares; alpha -> 0 gives a client one class (or a class one
// client, 8.3). Every training example has at most one owner. Needs: class labels; alpha > 0; clients <= train_size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/data/dataset.hpp>
#include <tessera/data/partition/by_class.hpp>
#include <tessera/data/partition/settings.hpp>

namespace tessera::data {

// floor(train_size / clients) examples each: an unfilled client at random, a class ~ p_k, the last one left
// of it. Differs from the scripts: a client whose classes are used up draws uniformly among those that are
// not, where the scripts may draw forever. Test sets are label-matched (8.4): clients may share test examples.
struct Dirichlet {
    double alpha = 0.3;

    Split operator()(const Dataset& pool, const PartitionSettings& settings) const {
        detail::check_files(pool, settings);
        detail::check_labels(pool, "dirichlet");
        detail::check_alpha(alpha, "dirichlet");

        const std::size_t n = settings.clients, size = settings.train_size / n;
        auto left = detail::by_class(pool, 0, settings.train_size);
        const std::size_t classes = left.size();
        std::vector<double> p(n * classes);
        for (std::size_t k = 0; k < n; ++k) {
            Stream stream(detail::key_of(settings, detail::Draw::preference)(k));
            stream.dirichlet(alpha, std::span(p).subspan(k * classes, classes));
        }

        std::vector<Share> shares(n);
        std::vector<std::size_t> open(size > 0 ? n : 0);
        std::iota(open.begin(), open.end(), std::size_t{0});
        Stream stream(detail::key_of(settings, detail::Draw::deal));
        while (!open.empty()) {
            auto& k = open[stream.below(open.size())];
            auto& train = shares[k].train;
            train.push_back(
                detail::take_last(left[detail::draw_class(stream, std::span(p).subspan(k * classes, classes), left)]));
            if (train.size() < size) continue;
            k = open.back();
            open.pop_back();
        }
        detail::match_tests(shares, pool, settings);
        return detail::finished(std::move(shares), settings);
    }
};

// floor(train_size / clients) training and floor(test file / clients) test examples each. Client k draws all
// of both before client k + 1; a class that is used up is out for everybody. Every example has at most one
// owner. A client whose classes are all used up draws uniformly among those that are left.
struct DirichletFixed {
    double alpha = 0.6;

    Split operator()(const Dataset& pool, const PartitionSettings& settings) const {
        detail::check_files(pool, settings);
        detail::check_labels(pool, "dirichlet-fixed");
        detail::check_alpha(alpha, "dirichlet-fixed");

        const std::size_t n = settings.clients;
        auto train = detail::by_class(pool, 0, settings.train_size);
        auto test = detail::by_class(pool, settings.train_size, pool.size());
        Stream order(detail::key_of(settings, detail::Draw::deal));
        detail::shuffle(train, order);
        detail::shuffle(test, order);

        std::vector<double> p(train.size());
        std::vector<Share> shares(n);
        for (std::size_t k = 0; k < n; ++k) {
            Stream stream(detail::key_of(settings, detail::Draw::preference)(k));
            stream.dirichlet(alpha, p);
            const auto draw = [&](detail::ClassLists& left, std::size_t count, std::vector<Index>& out) {
                while (out.size() < count) out.push_back(detail::take_last(left[detail::draw_class(stream, p, left)]));
            };
            draw(train, settings.train_size / n, shares[k].train);
            draw(test, (pool.size() - settings.train_size) / n, shares[k].test);
        }
        return detail::finished(std::move(shares), settings);
    }
};

// Every client first gets `reserve` examples of every class (fewer, but the same for all, of a class that is
// too small), and the server its share of the rest. Each class's remainder is then cut at floor(cumsum(q_c) |c|),
// where a client that already holds an N-th of the file, reserved examples aside, has q = 0. The test file is
// dealt likewise from the same q, with nothing for the server. Every example has exactly one owner.
struct DirichletUnbalanced {
    double alpha = 0.1;
    std::size_t reserve = 2;  // examples of every class for every client
    double server = 0;        // share of the training file for Split::server, in [0, 1); PerAda uses 0.1

    Split operator()(const Dataset& pool, const PartitionSettings& settings) const {
        detail::check_files(pool, settings);
        detail::check_labels(pool, "dirichlet-unbalanced");
        detail::check_alpha(alpha, "dirichlet-unbalanced");
        detail::require(server >= 0 && server < 1,
                        "dirichlet-unbalanced: server is " + std::to_string(server) + "; it must be in [0, 1)");

        std::vector<Share> shares(settings.clients);
        Stream stream(detail::key_of(settings, detail::Draw::deal));
        auto kept = deal(shares, &Share::train, pool, 0, settings.train_size, server, settings, stream);
        deal(shares, &Share::test, pool, settings.train_size, pool.size(), 0, settings, stream);
        Split split = detail::finished(std::move(shares), settings);
        split.server = std::move(kept);
        return split;
    }

private:
    std::vector<Index> deal(std::vector<Share>& shares, std::vector<Index> Share::*part, const Dataset& pool,
                            std::size_t begin, std::size_t end, double server_share, const PartitionSettings& settings,
                            Stream& stream) const {
        auto lists = detail::by_class(pool, begin, end);
        detail::shuffle(lists, stream);

        std::vector<std::vector<Index>> reserved(shares.size());
        for (auto& list : lists) {
            const std::size_t each = std::min(reserve, list.size() / shares.size());
            for (auto& mine : reserved)
                for (std::size_t i = 0; i < each; ++i) mine.push_back(detail::take_last(list));
        }
        auto kept = drawn_for_server(lists, detail::part_of(server_share, end - begin), stream);

        for (std::size_t c = 0; c < lists.size(); ++c) {
            const auto q = balanced(c, shares, part, end - begin, settings);
            const auto last =
                static_cast<std::size_t>(q.rend() - std::find_if(q.rbegin(), q.rend(), [](double x) { return x > 0; }));
            const std::size_t size = lists[c].size();
            double reached = 0;
            std::size_t from = 0;
            for (std::size_t k = 0; k < last; ++k) {
                reached += q[k];
                // Rounding must not leave a tail to nobody or to a client with q = 0.
                const std::size_t to = k + 1 < last ? detail::part_of(reached, size) : size;
                const auto cut = std::span(lists[c]).subspan(from, to - from);
                auto& mine = shares[k].*part;
                mine.insert(mine.end(), cut.begin(), cut.end());
                from = to;
            }
        }
        for (std::size_t k = 0; k < shares.size(); ++k)
            (shares[k].*part).insert((shares[k].*part).end(), reserved[k].begin(), reserved[k].end());
        return kept;
    }

    // Class c's q among the clients that hold less than an N-th of the file, zero for the others. Somebody holds
    // less as long as an example is left to deal.
    std::vector<double> balanced(std::size_t c, const std::vector<Share>& shares, std::vector<Index> Share::*part,
                                 std::size_t file, const PartitionSettings& settings) const {
        std::vector<double> q(shares.size());
        Stream stream(detail::key_of(settings, detail::Draw::preference)(c));
        stream.dirichlet(alpha, q);
        std::vector<std::size_t> open;
        double mass = 0;
        for (std::size_t k = 0; k < q.size(); ++k) {
            if ((shares[k].*part).size() * shares.size() < file) open.push_back(k);
            else q[k] = 0;
            mass += q[k];
        }
        if (mass > 0) {
            for (auto& share : q) share /= mass;
            return q;
        }
        // A small alpha can leave the others numbers below every double. Part of a Dirichlet vector, renormalised,
        // is one itself, so a fresh draw among the others has the right distribution.
        std::vector<double> fresh(open.size());
        stream.dirichlet(alpha, fresh);
        for (std::size_t i = 0; i < open.size(); ++i) q[open[i]] = fresh[i];
        return q;
    }

    static std::vector<Index> drawn_for_server(detail::ClassLists& lists, std::size_t wanted, Stream& stream) {
        std::vector<Index> all;
        if (wanted == 0) return all;
        for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
        detail::shuffle(all, stream);
        all.resize(std::min(wanted, all.size()));
        std::sort(all.begin(), all.end());
        for (auto& list : lists)
            std::erase_if(list, [&](Index i) { return std::binary_search(all.begin(), all.end(), i); });
        return all;
    }
};

}  // namespace tessera::data
