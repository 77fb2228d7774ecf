// SPDX-License-Identifier: BSD-3-Clause
// Weighted mean of the cohort: w = sum_k weight_k x_k / sum_k weight_k.
//
// Sums are kept in double relative to the largest weight seen, so that equal weights count as exactly 1:
// `samples`, `uniform` and `batches` give the same bits when sizes are equal, any common factor drops out,
// and the mean of equal float vectors is that vector. With masks an absent coordinate reads "unchanged",
// which makes this FedSpa's mean of updates.
//
// Cost: O(d n); streams with O(d log n) memory. All weights zero leaves w as it was.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include <tessera/contracts/fold.hpp>

namespace tessera::fold {

struct Mean {
    static constexpr bool masked = true;

    template <class R>
    struct Sum {
        Vec<double> values;
        double total = 0;    // sum of weight / largest
        double largest = 0;  // 0: nothing in it
    };

    template <class R>
    void lift(const Row<R>& row, const Vec<R>& before, Sum<R>& sum) const {
        sum.largest = row.weight;
        sum.total = 1;
        if (row.weight == 0) return;
        sum.values.resize(before.size());
        values(row, before, 0, before.size(), sum.values.data());
    }
    template <class R>
    void add(Sum<R>& into, const Sum<R>& other) const {
        if (other.largest == 0) return;
        if (into.largest == 0) {
            into = other;
            return;
        }
        const Scales s(into.largest, other.largest);
        combine(into.values.data(), s.left, other.values.data(), s.right, into.values.size());
        into.total = into.total * s.left + other.total * s.right;
        into.largest = std::max(into.largest, other.largest);
    }
    template <class M>
    void finish(const Site<M>&, Vec<real<M>>& w, const Sum<real<M>>& sum, Nothing&) const {
        if (sum.largest == 0) return;
        for (std::size_t j = 0; j < w.size(); ++j) w[j] = static_cast<real<M>>(sum.values[j] / sum.total);
    }

    // The same sums, a tile of coordinates at a time so that partial sums stay in the first-level cache.
    template <class M>
    void fold(const Site<M>&, Vec<real<M>>& w, Rows<real<M>> rows, Nothing&) const {
        using R = real<M>;
        if (rows.empty()) return;
        constexpr std::size_t tile = 512;
        Vec<double> sums(tile * (static_cast<std::size_t>(std::bit_width(rows.size())) + 1));
        Vec<Reader<R>> readers;
        for (const auto& row : rows) readers.push_back({&row, 0});
        for (std::size_t begin = 0; begin < w.size(); begin += tile) {
            const std::size_t n = std::min(tile, w.size() - begin);
            double total = 0, largest = 0;
            tree(std::span<Reader<R>>(readers), w, begin, n, sums.data(), tile, total, largest);
            if (largest == 0) return;
            for (std::size_t j = 0; j < n; ++j) w[begin + j] = static_cast<R>(sums[j] / total);
        }
    }

private:
    struct Scales {
        double left, right;
        Scales(double l, double r) : left(l >= r ? 1 : l / r), right(r >= l ? 1 : r / l) {}
    };
    template <class R>
    struct Reader {
        const Row<R>* row;
        std::size_t packed;  // active coordinates passed so far
    };

    static void combine(double* a, double sa, const double* b, double sb, std::size_t n) {
        if (sa == 1 && sb == 1)
            for (std::size_t j = 0; j < n; ++j) a[j] += b[j];
        else
            for (std::size_t j = 0; j < n; ++j) a[j] = a[j] * sa + b[j] * sb;
    }
    // Returns how many packed values were used.
    template <class R>
    static std::size_t values(const Row<R>& row, const Vec<R>& before, std::size_t begin, std::size_t n, double* out,
                              std::size_t packed = 0) {
        if (!row.mask) {
            for (std::size_t j = 0; j < n; ++j) out[j] = static_cast<double>(row.x[begin + j]);
            return 0;
        }
        const std::size_t first = packed;
        for (std::size_t j = 0; j < n; ++j)
            out[j] = static_cast<double>((*row.mask)[begin + j] ? row.x[packed++] : before[begin + j]);
        return packed - first;
    }
    // Sum of a tile over rows; the left half holds the largest power of two below their number, which is
    // the shape a cohort has when it streams.
    template <class R>
    static void tree(std::span<Reader<R>> rows, const Vec<R>& before, std::size_t begin, std::size_t n, double* out,
                     std::size_t tile, double& total, double& largest) {
        if (rows.size() == 1) {
            auto& reader = rows[0];
            reader.packed += values(*reader.row, before, begin, n, out, reader.packed);
            total = 1;
            largest = reader.row->weight;
            return;
        }
        const std::size_t half = std::bit_ceil(rows.size()) / 2;
        double right_total = 0, right_largest = 0;
        tree(rows.first(half), before, begin, n, out, tile, total, largest);
        tree(rows.subspan(half), before, begin, n, out + tile, tile, right_total, right_largest);
        if (right_largest == 0) return;
        if (largest == 0) {
            std::copy_n(out + tile, n, out);
            total = right_total;
            largest = right_largest;
            return;
        }
        const Scales s(largest, right_largest);
        combine(out, s.left, out + tile, s.right, n);
        total = total * s.left + right_total * s.right;
        largest = std::max(largest, right_largest);
    }
};

}  // namespace tessera::fold
