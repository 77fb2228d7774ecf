// SPDX-License-Identifier: BSD-3-Clause
// The mean of a cohort, added up where its clients were trained.
//
// What a walk leaves on the device stays there until its visit is over and its upload is added up. A visit's text may
// do with its vector what it likes, so an upload is known by what is in it: numbers and mask that are those of a walk
// are that walk's. Eight neighbours make one sum, sums are added along the tree there, and one vector of doubles comes
// home. What does not lie there as it was sent is added up on the host, to the same bits.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/contracts/adder.hpp>
#include <tessera/contracts/descender.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/mask.hpp>
#include <tessera/device/kernels.hpp>
#include <tessera/device/runtime.hpp>
#include <tessera/kernels/mean_sums.hpp>
#include <tessera/nn/graph.hpp>

namespace tessera::device {

// What a cohort leaves: parameters and masks of its clients, `stride` and `words` apart.
struct Trained {
    Array<float> x;
    Array<unsigned long long> masks;
    std::size_t stride, words;
};

namespace detail {

// What a vector is known by.
struct Content {
    std::size_t size = 0;
    Fingerprint numbers{}, mask{};

    Content() = default;
    Content(In<float> x, const Mask* with)
        : size(x.size()), numbers(of(std::span(x.data(), x.size()))), mask(with ? of(with->words()) : Fingerprint{}) {}
    friend bool operator==(const Content&, const Content&) = default;

private:
    static Fingerprint of(auto numbers) { return bulk_fingerprint(std::as_bytes(std::span(numbers))); }
};

class DeviceSum final : public SumElsewhere {
public:
    DeviceSum(std::shared_ptr<SharedContext> device, Array<double> values)
        : device_(std::move(device)), values_(std::move(values)) {}
    ~DeviceSum() override {
        device_->alone([&] { values_ = Array<double>(); });
    }
    bool add(double mine, const SumElsewhere& other, double its) override {
        const auto* const second = dynamic_cast<const DeviceSum*>(&other);
        if (!second || second->device_ != device_) return false;
        device_->alone([&] {
            must(kernel::tessera_join_sums(static_cast<kernel::Long>(values_.size()), values_.data(), mine,
                                           second->values_.data(), its, device_->on->stream()));
        });
        return true;
    }
    void bring(double* to) const override {
        device_->alone([&] {
            device_->on->down(values_.data(), to, values_.size());
            device_->on->finish();
        });
    }

private:
    std::shared_ptr<SharedContext> device_;
    Array<double> values_;
};

}  // namespace detail

// Of one round: what its walks have left, for its sums.
class TrainedRows final : public Adder<float> {
public:
    explicit TrainedRows(std::shared_ptr<SharedContext> device) : device_(std::move(device)) {}
    ~TrainedRows() {
        device_->alone([&] { rows_.clear(), before_ = Array<float>(); });
    }

    // The next four are for who has the device to himself.
    // Vectors at these addresses are about to be trained again.
    void forget(std::vector<const float*> vectors) {
        std::ranges::sort(vectors);
        std::erase_if(rows_, [&](const Row& r) { return std::ranges::binary_search(vectors, r.vector); });
    }
    // A walk's end, whole and, where its scope is one range, that part: both may be what is sent.
    void keep(const std::shared_ptr<const Trained>& left, std::size_t client, const Descent<float>& walk) {
        const In<float> x = *walk.x;
        add(left, client, 0, x, walk);
        std::vector<Range> pieces;
        walk.step.terms.on.each(x.size(), [&](Range r) { pieces.push_back(r); });
        if (pieces.size() == 1 && pieces[0].size() < x.size())
            add(left, client, pieces[0].begin, x.subspan(pieces[0].begin, pieces[0].size()), walk);
        trained_ = true;
    }
    // Makes room; false: there was nothing.
    bool drop() {
        const bool some = !rows_.empty();
        rows_.clear();
        no_room_ = no_room_ || some;
        return some;
    }
    // Visits are over; what their vectors' addresses are from now on is somebody else's.
    void sent() {
        for (Row& r : rows_) r.vector = nullptr;
    }

    SumValues lift(Rows<float> rows, const Vec<float>& before) override {
        asked_ = true;
        if (rows.size() > kernels::mean_streams || before.empty()) return {};
        std::array<detail::Content, kernels::mean_streams> contents;
        for (std::size_t k = 0; k < rows.size(); ++k)
            if (rows[k].weight != 0) contents[k] = {rows[k].x, rows[k].mask};
        return device_->alone([&]() -> SumValues {
            std::vector<Row*> found;
            auto all = tree_of(rows);
            for (std::size_t k = 0; k < rows.size(); ++k) {
                if (rows[k].weight == 0) continue;
                const auto it = std::ranges::find(rows_, contents[k], &Row::content);
                if (it == rows_.end()) {
                    missed_ = true;
                    return {};
                }
                const Trained& left = *it->left;
                all.x[k] = left.x.data() + it->client * left.stride + it->offset;
                all.masks[k] = rows[k].mask ? left.masks.data() + it->client * left.words : nullptr;
                found.push_back(&*it);
            }
            try {
                if (std::ranges::any_of(rows, [](const auto& r) { return r.mask != nullptr; })) send(before);
                Array<double> sum(before.size());
                must(kernel::tessera_mean_rows(static_cast<kernel::Long>(sum.size()), all, before_.data(), sum.data(),
                                               device_->on->stream()));
                for (Row* r : found) r->left.reset();
                std::erase_if(rows_, [](const Row& r) { return !r.left; });
                return {new detail::DeviceSum(device_, std::move(sum)), before.size()};
            } catch (const OutOfMemory&) {
                no_room_ = true;
                return {};
            }
        });
    }

    // What of the mean was the host's. Empty: nothing, or nothing was trained here.
    std::string_view remark() const {
        if (!trained_) return {};
        if (missed_) return "the sum of uploads that are not what the device left";
        if (no_room_) return "the sum of uploads that the device has no room for";
        if (!asked_) return "the merge, which does not add uploads up as they come";
        return {};
    }

private:
    struct Row {
        detail::Content content;
        std::shared_ptr<const Trained> left;
        std::size_t client, offset;
        const float* vector;  // where the visit has it
    };

    void add(const std::shared_ptr<const Trained>& left, std::size_t client, std::size_t offset, In<float> x,
             const Descent<float>& walk) {
        rows_.push_back({{x, walk.model->mask}, left, client, offset, walk.x->data()});
    }
    void send(const Vec<float>& before) {
        if (before_.size() == before.size()) return;  // a round begins with one vector
        before_ = Array<float>(before.size());
        device_->on->up(before.data(), before_.data(), before.size());
        device_->on->finish();
    }
    // The factors of the nodes above these rows, as the host has them.
    static kernel::MeanRows tree_of(Rows<float> rows) {
        kernel::MeanRows all{};
        std::array<kernels::MeanWeight, 2 * kernels::mean_streams> weights;
        for (std::size_t k = 0; k < rows.size(); ++k)
            if (rows[k].weight != 0) weights[kernels::mean_streams + k] = {1, rows[k].weight};
        for (std::size_t node = kernels::mean_streams - 1; node > 0; --node) {
            weights[node] = weights[2 * node];
            const auto scales = kernels::join(weights[node], weights[2 * node + 1]);
            all.left[node] = scales.left;
            all.right[node] = scales.right;
        }
        volatile float tiny = 1e-40f;
        all.flush = static_cast<double>(tiny) == 0;  // as this thread rounds (core/denormals.hpp)
        return all;
    }

    std::shared_ptr<SharedContext> device_;
    std::vector<Row> rows_;
    Array<float> before_;
    std::atomic<bool> asked_ = false;
    bool trained_ = false, missed_ = false, no_room_ = false;
};

}  // namespace tessera::device
