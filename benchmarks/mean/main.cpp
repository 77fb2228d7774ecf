// SPDX-License-Identifier: BSD-3-Clause
// The weighted mean of 100 vectors of a million floats (400 MB), and of 100 packed quarters of such vectors. The pure
// read of the same bytes is timed in the same run.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tessera/core/arena.hpp>
#include <tessera/core/random.hpp>
#include <tessera/kernels/dispatch.hpp>

#include "mean/problem.hpp"
#include "support/exchange.hpp"
#include "support/read_limit.hpp"
#include "support/peers.hpp"
#include "support/verdict.hpp"

void add_tessera(bench::MeanCompetitors&);

constexpr bench::Peer peers[]{
#define PEER(name, missing) {name, missing},
#include "peers.inc"
#undef PEER
};

namespace {

using tessera::Key;
using tessera::Stream;
using tessera::Vec;

constexpr std::size_t clients = 100, size = 1'000'000 / 64 * 64;
// Numbers lie in [-1, 1), so a float sum of 100 weighted terms is off by some 100 * 6e-8; double sums are far closer.
constexpr double tolerance = 1e-5;

// Rows lie where the library's own vectors lie: in blocks of their own.
class Rows {
public:
    explicit Rows(bool masked) : before_(size) {
        Stream draw(Key{7}(masked));
        for (auto& b : before_) b = number(draw);
        for (std::size_t k = 0; k < clients; ++k) {
            weights_.push_back(1 + static_cast<double>(draw.word64() % 1000));
            std::size_t owned = size;
            if (masked) {
                auto& mask = masks_.emplace_back(size / 64);
                owned = 0;
                for (auto& word : mask) {
                    word = draw.word64() & draw.word64();  // a quarter
                    owned += static_cast<std::size_t>(std::popcount(word));
                }
                mask_pointers_.push_back(mask.data());
            }
            auto& row = rows_.emplace_back(owned);
            for (auto& x : row) x = number(draw);
            row_pointers_.push_back(row.data());
        }
    }
    bench::MeanTask task() const {
        return {clients, size, row_pointers_.data(), weights_.data(), masks_.empty() ? nullptr : mask_pointers_.data()};
    }
    const Vec<float>& before() const { return before_; }
    double bytes() const {
        double all = static_cast<double>(masks_.size() * size / 8);
        for (const auto& row : rows_) all += static_cast<double>(row.size() * sizeof(float));
        return all;
    }
    std::vector<double> expected() const {
        std::vector<double> sum(size);
        double total = 0;
        for (std::size_t k = 0; k < clients; ++k) {
            total += weights_[k];
            std::size_t at = 0;
            for (std::size_t j = 0; j < size; ++j) {
                const bool owned = masks_.empty() || (masks_[k][j / 64] >> (j % 64) & 1) != 0;
                sum[j] += weights_[k] * static_cast<double>(owned ? rows_[k][at++] : before_[j]);
            }
        }
        for (auto& s : sum) s /= total;
        return sum;
    }
    // One row after the other, or ten in turns of eight cache lines each: 1.3 times as fast where a core's own
    // prefetchers follow several streams at once.
    void read_all(bench::Read read, bool ten_streams) const {
        constexpr std::size_t piece = 512;
        const auto whole = [](const auto& v) { return v.size() * sizeof(v[0]) / piece * piece; };
        for (const auto& mask : masks_) read(mask.data(), whole(mask));
        for (std::size_t k = 0; k < clients; k += ten_streams ? 10 : 1) {
            if (!ten_streams) {
                read(rows_[k].data(), whole(rows_[k]));
                continue;
            }
            for (std::size_t at = 0, any = 1; any != 0; at += piece) {
                any = 0;
                for (std::size_t r = k; r < std::min(k + 10, clients); ++r)
                    if (at < whole(rows_[r])) {
                        read(rows_[r].data() + at / sizeof(float), piece);
                        any = 1;
                    }
            }
        }
    }
    void write(const bench::Exchange& out, const std::string& as) const {
        std::vector<float> some;
        for (std::size_t k = 0; k < clients; ++k) some.push_back(static_cast<float>(weights_[k]));
        out.write<float>(as + "weights.f32", some);
        std::vector<float> all;
        for (const auto& row : rows_) all.insert(all.end(), row.begin(), row.end());
        out.write<float>(as + "rows.f32", all);
        out.write<double>(as + "expected.f64", expected());
        if (masks_.empty()) return;
        std::vector<std::uint8_t> bits;
        for (const auto& mask : masks_)
            for (const std::uint64_t word : mask)
                for (unsigned byte = 0; byte < 8; ++byte) bits.push_back(static_cast<std::uint8_t>(word >> (8 * byte)));
        out.write<std::uint8_t>(as + "bits.u8", bits);
        out.write<float>(as + "before.f32", before_);
    }

private:
    static float number(Stream& draw) { return static_cast<float>(2 * draw.uniform() - 1); }

    Vec<float> before_;
    std::vector<Vec<float>> rows_;
    std::vector<Vec<std::uint64_t>> masks_;
    std::vector<const float*> row_pointers_;
    std::vector<const std::uint64_t*> mask_pointers_;
    std::vector<double> weights_;
};

// Made when first needed: a filter may leave one of them out.
class Lazy {
public:
    explicit Lazy(bool masked) : masked_(masked) {}
    const Rows& rows() {
        if (!rows_) rows_ = std::make_unique<Rows>(masked_);
        return *rows_;
    }
    const std::vector<double>& expected() {
        if (expected_.empty()) expected_ = rows().expected();
        return expected_;
    }

private:
    bool masked_;
    std::unique_ptr<Rows> rows_;
    std::vector<double> expected_;
};

class Entered final : public bench::MeanCompetitors {
public:
    Entered(std::string problem, bool masked) : problem_(std::move(problem)), lazy_(masked) {
        const auto read = bench::widest_read();
        for (const bool ten : {false, true})
            if (read)
                benchmark::RegisterBenchmark((problem_ + (ten ? "/read_ten_streams" : "/read_one_stream")).c_str(),
                                             [this, read, ten](benchmark::State& state) {
                                                 const Rows& rows = lazy_.rows();
                                                 for (auto _ : state) rows.read_all(read, ten);
                                                 state.counters["byte"] = rows.bytes();
                                             })
                    ->Unit(benchmark::kMillisecond);
    }
    void add(const char* name, Make make) override {
        const auto competitor = std::make_shared<std::unique_ptr<bench::Averager>>();
        const auto error = [this, competitor, make] {
            competitor->reset(make(lazy_.rows().task()));
            (*competitor)->load(lazy_.rows().before().data());
            (*competitor)->run();
            std::vector<float> answer(size);
            (*competitor)->read(answer.data());
            return bench::distance<float>(answer, lazy_.expected());
        };
        bench::enter(problem_ + "/" + name, tolerance, error, [this, competitor](benchmark::State& state) {
            for (auto _ : state) (*competitor)->run();
            state.counters["byte"] = lazy_.rows().bytes();
        })->Unit(benchmark::kMillisecond);
    }

    const std::string& name() const { return problem_; }

private:
    std::string problem_;
    Lazy lazy_;
};

}  // namespace

int main(int argc, char** argv) {
    const bench::Exchange out(argc, argv);
    if (out.wanted()) {
        Rows(false).write(out, "");
        Rows(true).write(out, "packed.");
        return 0;
    }
    Entered whole("whole", false), packed("packed", true);
    for (Entered* problem : {&whole, &packed}) {
        add_tessera(*problem);
        bench::add_peers<bench::MeanCompetitors>("mean", peers, *problem);
    }
    benchmark::AddCustomContext("kernel_set", std::string(tessera::kernels::active_name()));
    return bench::run(argc, argv);
}
