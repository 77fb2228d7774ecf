// SPDX-License-Identifier: BSD-3-Clause
// A round's visits in waves, whose walks are taken together on a device.
//
//   const exec::Device device{.wave = 256};
//   run.round(sampler, device);
//
// A visit is the method's own text, on a thread of its own, and is parked where it descends (contracts/descender.hpp).
// When all visits of a wave are parked or done, their walks run in lock-step on the device, and the visits go on. What
// the device cannot take runs on the visit's thread, and the round's report says so in a sentence.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <tessera/contracts/adder.hpp>
#include <tessera/contracts/descender.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/function_ref.hpp>
#include <tessera/core/offers.hpp>
#include <tessera/device/fold.hpp>
#include <tessera/device/runtime.hpp>
#include <tessera/device/session.hpp>

namespace tessera::device::detail {

// One wave: visits on threads, of which at most so many run at a time, and who waits for whom.
class Wave {
public:
    Wave(Session* session, TrainedRows& rows, const Demand& demand, std::size_t visits, std::size_t at_once)
        : session_(session), rows_(rows), demand_(demand), seats_(visits), free_(at_once), live_(visits) {
        all_.reserve(visits);
    }

    // Of visit `seat`, from its own thread.
    template <class Body>
    void visit(std::size_t seat, const Body& body) {
        wait_for_turn(seat);
        try {
            ByThread walks(*this, seat);
            DoubleStays doubles(session_);
            const Descender<float>::Use use(session_ ? &walks : nullptr);
            const Descender<double>::Use other(session_ ? &doubles : nullptr);
            const Adder<float>::Use sums(session_ ? &rows_ : nullptr);
            body();
        } catch (...) {
            seats_[seat].failure = std::current_exception();
        }
        const std::scoped_lock hold(lock_);
        --live_;
        give_turn();
    }
    // Of whoever started the visits: walks for those that are parked, until all are done.
    void conduct() {
        std::unique_lock hold(lock_);
        while (true) {
            quiet_.wait(hold, [&] { return parked_ == live_; });
            if (live_ == 0) return;
            all_.clear();
            for (auto& s : seats_)
                if (s.request) all_.push_back(s.request);
            hold.unlock();
            try {
                session_->walk(all_, demand_, rows_);
            } catch (...) {
                for (Request* r : all_)
                    if (!r->taken) r->failure = std::current_exception();
            }
            hold.lock();
            for (std::size_t k = 0; k < seats_.size(); ++k)
                if (seats_[k].request) {
                    seats_[k].request = nullptr;
                    --parked_;
                    waiting_.push_back(k);
                }
            next();
        }
    }
    // So many visits have no thread and never come.
    void without(std::size_t visits) {
        const std::scoped_lock hold(lock_);
        live_ -= visits;
    }
    // What the lowest visit threw, if any did.
    std::exception_ptr failure() const {
        for (const auto& s : seats_)
            if (s.failure) return s.failure;
        return nullptr;
    }

private:
    struct Seat {
        Request* request = nullptr;  // parked with it
        bool turn = false;
        std::condition_variable called{};
        std::exception_ptr failure{};
    };
    class ByThread final : public Descender<float> {
    public:
        ByThread(Wave& wave, std::size_t seat) : wave_(wave), seat_(seat) {}
        bool descend(Descent<float>& walk) override {
            Request request{&walk};
            wave_.park(seat_, request);
            if (request.failure) std::rethrow_exception(request.failure);
            return request.taken;
        }
        void stays(std::string_view why) override { wave_.session_->stays(why); }

    private:
        Wave& wave_;
        std::size_t seat_;
    };
    class DoubleStays final : public Descender<double> {
    public:
        explicit DoubleStays(Session* session) : session_(session) {}
        bool descend(Descent<double>&) override {
            stays("a model in double precision");
            return false;
        }
        void stays(std::string_view why) override { session_->stays(why); }

    private:
        Session* session_;
    };

    void park(std::size_t seat, Request& request) {
        std::unique_lock hold(lock_);
        seats_[seat].request = &request;
        ++parked_;
        give_turn();
        sleep(seat, hold);
    }
    void wait_for_turn(std::size_t seat) {
        std::unique_lock hold(lock_);
        waiting_.push_back(seat);
        next();
        sleep(seat, hold);
    }
    void sleep(std::size_t seat, std::unique_lock<std::mutex>& hold) {
        Seat& s = seats_[seat];
        s.called.wait(hold, [&] { return s.turn; });
        s.turn = false;
    }
    void give_turn() {
        ++free_;
        next();
        if (parked_ == live_) quiet_.notify_one();
    }
    void next() {
        for (; free_ > 0 && !waiting_.empty(); --free_) {
            Seat& s = seats_[waiting_.front()];
            waiting_.pop_front();
            s.turn = true;
            s.called.notify_one();
        }
    }

    Session* session_;
    TrainedRows& rows_;
    const Demand& demand_;
    std::vector<Request*> all_;  // that are parked; room for them before there is a thread that could wait for ever
    std::mutex lock_;
    std::condition_variable quiet_;
    std::deque<Seat> seats_;
    std::deque<std::size_t> waiting_;
    std::size_t free_, live_, parked_ = 0;
};

}  // namespace tessera::device::detail

namespace tessera::exec {

struct Device {
    static constexpr auto offers = offer::validate | offer::remarks;
    std::size_t wave = 256;                                 // clients that train together
    device::Precision precision = device::Precision::fp32;  // what products are rounded to
    std::size_t threads = 0;                                // visits that compute on the host at a time; 0: all cores
    std::size_t patches = std::size_t{64} << 20;            // bytes for a convolution's patches, of all clients
    // Masked linear layers with a smaller share of active weights go to cuSPARSE; not measured (device/sparse.hpp).
    double sparse_below = device::sparse_share;
    std::shared_ptr<device::Session> session = std::make_shared<device::Session>();  // kept from round to round

    std::size_t concurrency() const { return wave; }

    template <class Body>
    void for_each(std::size_t tasks, Body&& body) const {
        run(tasks, body);
    }
    // What there is to say of the round, for its report.
    std::vector<std::string> remarks() const { return session->remarks(); }
    void validate() const {
        if (wave < 1 || wave > 4096) throw ConfigError("wave must lie in 1..4096, not " + std::to_string(wave));
        if (!(sparse_below >= 0 && sparse_below <= 1))
            throw ConfigError("sparse_below must lie in [0, 1], not " + std::to_string(sparse_below));
        if (threads > 1024) throw ConfigError("threads must lie in 0..1024, not " + std::to_string(threads));
        if (!session) throw ConfigError("an executor on a device needs a session; leave it as it comes");
    }

private:
    void run(std::size_t tasks, FunctionRef<void(std::size_t task, std::size_t worker)> body) const {
        const std::size_t at_once = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
        const device::Demand demand{precision, patches, sparse_below};
        device::TrainedRows rows(session->device());
        for (std::size_t begin = 0; begin < tasks; begin += wave) {
            const std::size_t n = std::min(wave, tasks - begin);
            device::Session* const lent = session->ready(precision) ? session.get() : nullptr;
            device::detail::Wave together(lent, rows, demand, n, at_once);
            {
                std::vector<std::jthread> visits;
                visits.reserve(n);
                std::exception_ptr refused;
                try {
                    for (std::size_t k = 0; k < n; ++k)
                        visits.emplace_back([&, k] { together.visit(k, [&] { body(begin + k, k); }); });
                } catch (...) {  // no more threads: those that there are end what they have begun
                    refused = std::current_exception();
                    together.without(n - visits.size());
                }
                together.conduct();
                if (refused) std::rethrow_exception(refused);
            }
            if (const auto failure = together.failure()) std::rethrow_exception(failure);
            rows.sent();
        }
        if (const auto why = rows.remark(); !why.empty()) session->stays(why);
    }
};

}  // namespace tessera::exec
