// SPDX-License-Identifier: BSD-3-Clause
// Adder: somebody else who adds up a cohort's mean as it arrives, as a device does with what it has trained itself.
//
// An executor that has one lends it to its threads, as it lends a Descender; fold::Mean asks it for the sum of
// neighbours and keeps what it is given. Such a sum may stay where it is until somebody reads its numbers. Its bits are
// those that the host would have found: the same tree, the same additions in double, nothing fused.
#pragma once

#include <cstddef>
#include <utility>

#include <tessera/contracts/fold.hpp>
#include <tessera/core/arena.hpp>

namespace tessera {

// A sum that lies with an adder.
class SumElsewhere {
public:
    SumElsewhere() = default;
    SumElsewhere(const SumElsewhere&) = delete;
    SumElsewhere& operator=(const SumElsewhere&) = delete;
    virtual ~SumElsewhere() = default;

    // this = mine this + its other; false: the two do not lie together, and nothing has changed.
    virtual bool add(double mine, const SumElsewhere& other, double its) = 0;
    virtual void bring(double* to) const = 0;
};

// The numbers of a sum, as a vector of doubles. They come home when they are read for the first time. (An owner by
// hand: <memory> would add a third to what the contracts cost to include.)
class SumValues {
public:
    using value_type = double;

    SumValues() = default;
    SumValues(SumElsewhere* owned, std::size_t size) : there_(owned), away_(size) {}
    SumValues(SumValues&& other) noexcept
        : here_(std::move(other.here_)), there_(std::exchange(other.there_, nullptr)), away_(other.away_) {}
    SumValues(const SumValues& other) : here_(other.here()) {}
    SumValues& operator=(SumValues other) noexcept {
        std::swap(here_, other.here_);
        std::swap(there_, other.there_);
        std::swap(away_, other.away_);
        return *this;
    }
    ~SumValues() { delete there_; }

    std::size_t size() const { return there_ ? away_ : here_.size(); }
    const Vec<double>& here() const {
        if (there_) {
            here_.resize(away_);
            there_->bring(here_.data());
            leave();
        }
        return here_;
    }
    const double* data() const { return here().data(); }
    double* data() { return here(), here_.data(); }
    void resize(std::size_t n) { here(), here_.resize(n); }
    void clear() {
        leave();
        here_.clear();
    }
    // Where both lie; false: one of them is at home, or they do not lie together.
    bool add_elsewhere(double mine, const SumValues& other, double its) {
        return there_ && other.there_ && there_->add(mine, *other.there_, its);
    }

private:
    void leave() const { delete std::exchange(there_, nullptr); }

    mutable Vec<double> here_;
    mutable SumElsewhere* there_ = nullptr;
    std::size_t away_ = 0;
};

template <class R>
class Adder {
public:
    Adder(const Adder&) = delete;
    Adder& operator=(const Adder&) = delete;

    // While alive, sums of this thread are offered to `other`; null: to nobody.
    class Use {
    public:
        explicit Use(Adder* other) : before_(std::exchange(current(), other)) {}
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        ~Use() { current() = before_; }

    private:
        Adder* before_;
    };
    static Adder* here() { return current(); }

    // The weighted sum of neighbours, relative to the largest weight among them. Weight 0 says that nobody came; absent
    // coordinates read `before`. Of no numbers: it is not taken.
    virtual SumValues lift(Rows<R> rows, const Vec<R>& before) = 0;

protected:
    Adder() = default;
    ~Adder() = default;

private:
    static Adder*& current() {
        thread_local Adder* other = nullptr;
        return other;
    }
};

}  // namespace tessera
