// SPDX-License-Identifier: BSD-3-Clause
// What lasts on a device from round to round: its context, the examples, how many clients it has room for, and whether
// it is still there. Takes many walks at once, sorts them into cohorts that agree in all but their numbers, and says
// what it leaves to the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/contracts/descender.hpp>
#include <tessera/core/error.hpp>
#include <tessera/device/cohort.hpp>
#include <tessera/device/fold.hpp>
#include <tessera/device/pool.hpp>
#include <tessera/device/program.hpp>
#include <tessera/device/runtime.hpp>
#include <tessera/device/sparse.hpp>

namespace tessera::device {

// A walk that waits for the device, and what came of it.
struct Request {
    Descent<float>* walk = nullptr;
    bool taken = false;
    std::exception_ptr failure{};
};

// What somebody asks of a device.
struct Demand {
    Precision precision = Precision::fp32;
    std::size_t patches = 0;  // bytes for a convolution's patches, of all clients
    double sparse_below = 0;
};

class Session {
public:
    // Whether there is a device to walk on. Opens it if need be; if there is none, says so once.
    bool ready(Precision precision) {
        return device_->alone([&] { return open(precision); });
    }

    // Those that the device takes are done when this returns, or have failed; the others are as they were.
    void walk(std::span<Request* const> requests, const Demand& demand, TrainedRows& rows) {
        std::vector<Request*> left;
        for (Request* r : requests) {
            const auto why = refusal(*r->walk);
            if (why.empty()) left.push_back(r);
            else stays(why);
        }
        try {
            device_->alone([&] {  // another run of this session may have changed the precision, or lost the device
                if (open(demand.precision)) in_groups(std::move(left), demand, rows);
            });
        } catch (...) {
            for (Request* r : requests)
                if (!r->taken) r->failure = std::current_exception();
        }
    }
    void stays(std::string_view why) { remark("on the host: " + std::string(why)); }
    const std::shared_ptr<SharedContext>& device() const { return device_; }
    // What was said since the last time that somebody asked, each once.
    std::vector<std::string> remarks() {
        const std::scoped_lock hold(lock_);
        auto all = std::move(remarks_);
        remarks_.clear();
        std::ranges::sort(all);
        return all;
    }

private:
    static constexpr std::size_t most_pools = 2;

    void remark(std::string sentence) {
        const std::scoped_lock hold(lock_);
        if (std::ranges::find(remarks_, sentence) == remarks_.end()) remarks_.push_back(std::move(sentence));
    }

    bool open(Precision precision) {
        if (device_->lost) {
            remark("the device was lost; the round ran on the host");
            return false;
        }
        if (!on() && absent_) return false;
        if (on() && on()->precision() == precision) return true;
        if (!present()) {
            absent_ = true;
            remark("there is no device, or no driver for it; the run is on the host");
            return false;
        }
        try {
            pools_.clear();
            sparse_.reset();
            on().reset();
            on() = std::make_unique<Context>(precision);
            sparse_ = std::make_unique<SparseHandle>(*on());
        } catch (const DeviceError& e) {
            on().reset();
            absent_ = true;
            remark(std::string(e.what()) + "; the run is on the host");
            return false;
        }
        return true;
    }

    // What no device takes, whatever the network. Empty: nothing.
    static std::string refusal(const Descent<float>& w) {
        const auto& g = *w.model->graph;
        const auto& terms = w.step.terms;
        const std::size_t n = w.model->mask ? w.model->mask->count() : g.parameters;
        if (terms.active) return "steps on some coordinates of a dense vector";
        if (w.model->mask && !terms.on.everything()) return "a scope in a sparse model";
        if (w.x->size() != n || (!terms.linear.empty() && terms.linear.size() != n) ||
            (terms.prox_weight != 0 && terms.prox_center.size() != n))
            return "a vector that is not as long as the model's";
        const auto first = (*w.batches)[0];
        const Examples& e = first.examples();
        if (!Pool::takes(e)) return "examples that are made on demand, or have not one label each";
        if (e.width != g.inputs()) return "examples that are not as wide as the network";
        if (e.size > static_cast<std::size_t>(std::numeric_limits<int>::max()))
            return "more examples than an int counts";
        for (const auto b : *w.batches)
            for (std::size_t i = 0; i < b.size(); ++i)
                if (b.ids()[i] >= e.size || b.label(i, 0) >= static_cast<std::int32_t>(g.outputs()))
                    return "an example or a label that is not there";
        return {};
    }
    static std::vector<Range> ranges(const Descent<float>& w) {
        std::vector<Range> all;
        w.step.terms.on.each(w.model->graph->parameters, [&](Range r) { all.push_back(r); });
        return all;
    }
    static bool alike(const Descent<float>& a, const Descent<float>& b) {
        const auto &s = a.step, &t = b.step;
        return a.model->graph == b.model->graph && a.model->softmax == b.model->softmax &&
               !a.model->mask == !b.model->mask && s.rate == t.rate && s.decay == t.decay && s.clip == t.clip &&
               s.momentum == t.momentum && s.terms.prox_weight == t.terms.prox_weight &&
               s.terms.linear.empty() == t.terms.linear.empty() &&
               &(*a.batches)[0].examples() == &(*b.batches)[0].examples() && ranges(a) == ranges(b);
    }

    void in_groups(std::vector<Request*> left, const Demand& demand, TrainedRows& rows) {
        if (demand.precision != Precision::fp32)
            remark("products on the device are rounded to " +
                   std::string(words_of(Precision{})[static_cast<std::size_t>(demand.precision)]));
        std::vector<const float*> vectors;
        for (const Request* r : left) vectors.push_back(r->walk->x->data());
        rows.forget(std::move(vectors));
        while (!left.empty()) {
            std::vector<Request*> group, others;
            for (Request* r : left) (alike(*left.front()->walk, *r->walk) ? group : others).push_back(r);
            std::ranges::stable_sort(group, std::greater{}, [](const Request* r) { return r->walk->batches->size(); });
            together(group, demand, rows);
            left = std::move(others);
        }
    }
    // Of one network. As many at once as there is room for: without room, first without what earlier walks have left,
    // then half as many, until one alone has none.
    void together(const std::vector<Request*>& group, const Demand& demand, TrainedRows& rows) {
        const Program program(*group.front()->walk->model);
        if (!program.refused().empty()) return stays(program.refused());
        const Pool* const pool = pool_of((*group.front()->walk->batches)[0].examples());
        if (!pool) return stays("examples that the device has no room for");
        for (std::size_t begin = 0; begin < group.size();) {
            const std::size_t n = std::min(most_, group.size() - begin);
            std::vector<Descent<float>*> walks;
            for (std::size_t k = begin; k < begin + n; ++k) walks.push_back(group[k]->walk);
            try {
                const auto left = std::make_shared<const Trained>(
                    Cohort(*on(), program, *pool, walks, demand.patches, sparse_.get(), demand.sparse_below).run());
                for (std::size_t k = 0; k < n; ++k) {
                    group[begin + k]->taken = true;
                    if (!walks[k]->serving) rows.keep(left, k, *walks[k]);
                }
                begin += n;
            } catch (const OutOfMemory&) {
                if (rows.drop()) continue;
                if (n == 1) {
                    stays("a client that the device has no room for");
                    ++begin;
                    continue;
                }
                most_ = n / 2;
                remark("the device has room for " + std::to_string(most_) + " clients at once, not " +
                       std::to_string(n));
            }
        }
    }
    const Pool* pool_of(const Examples& e) {
        for (const auto& p : pools_)
            if (p->holds(e)) return p.get();
        if (pools_.size() == most_pools) pools_.erase(pools_.begin());
        try {
            pools_.push_back(std::make_unique<Pool>(*on(), e));
        } catch (const OutOfMemory&) {
            return nullptr;
        }
        return pools_.back().get();
    }

    std::unique_ptr<Context>& on() { return device_->on; }

    std::shared_ptr<SharedContext> device_ = std::make_shared<SharedContext>();
    std::unique_ptr<SparseHandle> sparse_;
    std::vector<std::unique_ptr<Pool>> pools_;
    std::size_t most_ = std::numeric_limits<std::size_t>::max();  // clients at once
    bool absent_ = false;
    std::mutex lock_;  // of what was said
    std::vector<std::string> remarks_;
};

}  // namespace tessera::device
