// SPDX-License-Identifier: BSD-3-Clause
// Who does what, where a federation stands on several ranks (contracts/place.hpp). One process is one rank, which does
// everything and calls nobody.
//
//   home     where a client's state rests: a hash of its key, as a share of all hashes; no number of a client is read
//   trainer  of a seat: the plan's seats in their order, cut into one range a rank with equal work
//   folder   of a merged seat: where its upload is added up; in streaming folds the trainer of the first of its group
//            of neighbours, else rank 0
//
// Positions are the plan's, whoever trains; so the tree of sums, and every bit, is that of one process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/contracts/place.hpp>
#include <tessera/contracts/plan.hpp>
#include <tessera/contracts/private.hpp>
#include <tessera/core/bytes.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/function_ref.hpp>
#include <tessera/core/hash.hpp>
#include <tessera/core/random.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/kernels/dispatch.hpp>

namespace tessera {

namespace detail {

// A failure of one rank, as the others throw it.
struct Failure {
    enum class Kind : std::uint8_t { none, config, io, memory, other };
    Kind kind = Kind::none;
    Vec<char> path{}, what{};

    static Failure of(const std::exception_ptr& error) {
        const auto chars = [](const std::string& text) { return Vec<char>(text.begin(), text.end()); };
        try {
            std::rethrow_exception(error);
        } catch (const ConfigError& e) {
            return {Kind::config, {}, chars(e.what())};
        } catch (const IoError& e) {
            return {Kind::io, chars(e.path), chars(std::string(e.what()).substr(e.path.size() + 2))};
        } catch (const std::bad_alloc&) {
            return {Kind::memory, {}, {}};
        } catch (const std::exception& e) {
            return {Kind::other, {}, chars(e.what())};
        } catch (...) {
            return {Kind::other, {}, chars("an error that is no std::exception")};
        }
    }
    [[noreturn]] void raise() const {
        const std::string said(what.begin(), what.end());
        if (kind == Kind::config) throw ConfigError(said);
        if (kind == Kind::io) throw IoError(std::string(path.begin(), path.end()), said);
        if (kind == Kind::memory) throw std::bad_alloc();
        throw Error(said);
    }
};

template <class T>
Bytes encoded(const T& value) {
    Bytes out;
    put(out, value);
    return out;
}

}  // namespace detail

namespace detail {

// What ranks do together. Behind virtual functions, so that only a program that stands on several compiles it.
class Together {
public:
    virtual ~Together() = default;
    // `make` on rank 0, `take` what it made on the others; what it throws is thrown on all.
    virtual void first(FunctionRef<void(Bytes&)> make, FunctionRef<void(Reader&)> take) const = 0;
    virtual void agree(const std::exception_ptr& failed) const = 0;
    virtual bool any(bool here) const = 0;
    virtual Fingerprint sum(Fingerprint here) const = 0;
    virtual void share(std::size_t n, FunctionRef<bool(std::size_t)> lives, FunctionRef<void(std::size_t, Bytes&)> tell,
                       FunctionRef<void(std::size_t, Reader&)> hear) const = 0;
};

class TogetherAt final : public Together {
public:
    explicit TogetherAt(Place& place) : place_(place) {}

    void first(FunctionRef<void(Bytes&)> make, FunctionRef<void(Reader&)> take) const override {
        Bytes all;
        std::exception_ptr failed;
        if (place_.rank() == 0) {
            try {
                put(all, Failure::Kind::none);
                make(all);
            } catch (...) {
                failed = std::current_exception();
                all.clear();
                put(all, Failure::of(failed));
            }
        }
        place_.broadcast(all);
        if (failed) std::rethrow_exception(failed);
        if (place_.rank() == 0) return;
        Reader in(all);
        Failure failure;
        get(in, failure.kind);
        if (failure.kind != Failure::Kind::none) {
            get(in, failure.path);
            get(in, failure.what);
            failure.raise();
        }
        take(in);
    }
    void agree(const std::exception_ptr& failed) const override {
        const auto all = place_.gather_all(encoded(failed ? Failure::of(failed) : Failure{}));
        for (std::size_t r = 0; r < all.size(); ++r) {
            const auto failure = decode<Failure>(all[r]);
            if (failure.kind == Failure::Kind::none) continue;
            if (r == place_.rank()) std::rethrow_exception(failed);
            failure.raise();
        }
    }
    bool any(bool here) const override {
        bool found = false;
        for (const auto& one : place_.gather_all(encoded(here))) found = decode<bool>(one) || found;
        return found;
    }
    Fingerprint sum(Fingerprint here) const override {
        Fingerprint all;
        for (const auto& one : place_.gather_all(encoded(here))) all += decode<Fingerprint>(one);
        return all;
    }
    void share(std::size_t n, FunctionRef<bool(std::size_t)> lives, FunctionRef<void(std::size_t, Bytes&)> tell,
               FunctionRef<void(std::size_t, Reader&)> hear) const override {
        Bytes mine;
        for (std::size_t k = 0; k < n; ++k)
            if (lives(k)) {
                put(mine, static_cast<std::uint64_t>(k));
                tell(k, mine);
            }
        const auto all = place_.gather_all(mine);
        for (std::size_t r = 0; r < all.size(); ++r) {
            if (r == place_.rank()) continue;
            Reader in(all[r]);
            while (in.left() > 0) {
                std::uint64_t k = 0;
                get(in, k);
                hear(static_cast<std::size_t>(k), in);
            }
        }
    }

private:
    Place& place_;
};

}  // namespace detail

class Ranks {
public:
    Ranks() = default;
    explicit Ranks(std::shared_ptr<Place> place)
        : place_(std::move(place)),
          together_(place_ && place_->ranks() > 1 ? std::make_shared<detail::TogetherAt>(*place_) : nullptr) {}

    bool several() const { return together_ != nullptr; }
    std::size_t count() const { return several() ? place_->ranks() : 1; }
    std::size_t rank() const { return several() ? place_->rank() : 0; }
    Place& place() const { return *place_; }

    // Ranks own equal shares of the hashes of keys.
    std::size_t home_of(std::uint64_t key) const {
        if (!several()) return 0;
        const std::uint64_t hash = Stream(Key{0x686F6D65}(key)).word64();
        return static_cast<std::size_t>(((hash >> 32) * count()) >> 32);
    }
    bool is_home_of(std::uint64_t key) const { return !several() || home_of(key) == rank(); }

    // What f gives on rank 0, or throws there, everywhere.
    template <class F>
    auto of_first(F&& f) const {
        using T = decltype(f());
        if (!several()) return f();
        std::optional<T> made;
        together_->first(
            [&](Bytes& to) {
                made.emplace(f());
                put(to, *made);
            },
            [&](Reader& in) { get(in, made.emplace()); });
        return std::move(*made);
    }

    // f on rank 0 alone; what it throws there is thrown on all.
    template <class F>
    void first_does(F&& f) const {
        of_first([&] {
            f();
            return true;
        });
    }

    // Runs f here; whatever it throws is thrown by `agree`, on all ranks: of the lowest that failed.
    template <class F>
    std::exception_ptr attempt(F&& f) const {
        if (!several()) {
            f();
            return nullptr;
        }
        try {
            f();
        } catch (...) {
            return std::current_exception();
        }
        return nullptr;
    }
    void agree(const std::exception_ptr& failed) const {
        if (several()) together_->agree(failed);
    }

    // Whether it holds on any rank.
    bool any(bool here) const { return several() ? together_->any(here) : here; }
    // The sum over the ranks, which has no order.
    Fingerprint sum(Fingerprint here) const { return several() ? together_->sum(here) : here; }

    // ConfigError unless all ranks have the same declarations, first parameters, clients and kernels.
    template <class Parameters>
    void require_same(std::uint64_t shape, const Parameters& initial, const data::FederatedDataset& clients) const {
        if (!several()) return;
        Hasher here;
        here.word(shape);
        hash_into(here, initial);
        here.add(clients.split_fingerprint());
        const auto kernels = kernels::active_name();
        here.bytes(kernels.data(), kernels.size());
        const auto all = place_->gather_all(detail::encoded(here.finish()));
        for (std::size_t r = 1; r < all.size(); ++r)
            detail::require(decode<Fingerprint>(all[r]) == decode<Fingerprint>(all[0]),
                            "rank " + std::to_string(r) +
                                " has another model, split or kernel set than rank 0; all ranks run the same program "
                                "with the same flags, on machines with the same instructions (TESSERA_KERNELS names a "
                                "set that all have)");
    }

    // by_client[k] is known where lives(k); now it is everywhere.
    template <class List, class Lives>
    void share(List& by_client, Lives&& lives) const {
        if (!several()) return;
        using T = typename List::value_type;
        together_->share(
            by_client.size(), lives, [&](std::size_t k, Bytes& to) { put(to, static_cast<const T&>(by_client[k])); },
            [&](std::size_t k, Reader& in) {
                T value{};
                get(in, value);
                by_client[k] = std::move(value);
            });
    }

private:
    std::shared_ptr<Place> place_{};
    std::shared_ptr<const detail::Together> together_{};
};

// Of one round on several ranks: by seat, where its client's state rests and who trains it.
struct Shares {
    const Ranks* ranks = nullptr;
    Vec<std::uint32_t> home{}, trainer{};  // by seat
    Vec<std::uint32_t> trains{};           // by position: the trainers of the merged seats

    // Nothing for one rank. A seat goes where the middle of its work falls, so ranges are as equal as seats allow.
    static std::optional<Shares> of(const Ranks& all, const Plan& plan, const data::FederatedDataset& clients) {
        if (!all.several()) return std::nullopt;
        Shares shares{&all};
        const auto work = [&](const Seat& seat) {  // a visit costs something without examples, too
            return static_cast<double>(clients[seat.client].train.size() + 1);
        };
        const auto number = [](std::size_t rank) { return static_cast<std::uint32_t>(rank); };
        double total = 0, before = 0;
        for (const auto& seat : plan) total += work(seat);
        for (const auto& seat : plan) {
            const double middle = (before + work(seat) / 2) / total * static_cast<double>(all.count());
            shares.home.push_back(number(all.home_of(clients[seat.client].key)));
            shares.trainer.push_back(number(std::min(static_cast<std::size_t>(middle), all.count() - 1)));
            if (seat.merged) shares.trains.push_back(shares.trainer.back());
            before += work(seat);
        }
        return shares;
    }
    std::size_t rank() const { return ranks->rank(); }
};

}  // namespace tessera
