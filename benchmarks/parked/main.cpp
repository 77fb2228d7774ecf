// SPDX-License-Identifier: BSD-3-Clause
// How a visit waits for a device (device/executor.hpp): on a thread of its own that is parked, or as a context of one thread that
// is resumed later. 256 visits that each wait 21 times (pFedMe's 20 batches, and the end); nothing is computed in between.
#include <ucontext.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t visits = 256, waits = 20, rounds = 20;

double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Threads are made anew for every round, as the executor does.
std::size_t by_threads() {
    std::mutex lock;
    std::condition_variable quiet;
    struct Seat {
        std::condition_variable called;
        bool turn = false;
    };
    std::vector<std::unique_ptr<Seat>> seats;
    for (std::size_t k = 0; k < visits; ++k) seats.push_back(std::make_unique<Seat>());
    std::size_t parked = 0, live = visits, times = 0;
    std::vector<std::jthread> threads;
    for (std::size_t k = 0; k < visits; ++k)
        threads.emplace_back([&, k] {
            std::unique_lock hold(lock);
            for (std::size_t w = 0; w < waits; ++w) {
                if (++parked == live) quiet.notify_one();
                seats[k]->called.wait(hold, [&] { return seats[k]->turn; });
                seats[k]->turn = false;
            }
            --live;
            if (parked == live) quiet.notify_one();
        });
    std::unique_lock hold(lock);
    while (live > 0) {
        quiet.wait(hold, [&] { return parked == live; });
        times += parked;
        parked = 0;
        for (auto& s : seats) {
            s->turn = true;
            s->called.notify_one();
        }
        if (live == 0) break;
    }
    return times;
}

ucontext_t conductor, visitors[visits];
std::size_t resumed = 0;
void visit() {
    for (std::size_t w = 0; w < waits; ++w) {
        const std::size_t me = resumed;
        swapcontext(&visitors[me], &conductor);
    }
}
std::size_t by_contexts() {
    constexpr std::size_t stack = 256 << 10;
    const auto stacks = std::make_unique_for_overwrite<char[]>(visits * stack);
    for (std::size_t k = 0; k < visits; ++k) {
        getcontext(&visitors[k]);
        visitors[k].uc_stack = {stacks.get() + k * stack, 0, stack};
        visitors[k].uc_link = &conductor;
        makecontext(&visitors[k], visit, 0);
    }
    std::size_t times = 0;
    for (std::size_t w = 0; w <= waits; ++w)
        for (resumed = 0; resumed < visits; ++resumed, ++times) swapcontext(&conductor, &visitors[resumed]);
    return times;
}

template <class F>
void time(const char* name, const F& f) {
    (void)f();
    const double begin = seconds();
    std::size_t times = 0;
    for (std::size_t r = 0; r < rounds; ++r) times += f();
    const double each = (seconds() - begin) / rounds;
    std::printf("%-10s %8.2f ms a round of %zu visits, %6.2f us a wait (%zu waits)\n", name, 1e3 * each, visits,
                1e6 * each * rounds / static_cast<double>(times), times / rounds);
}

}  // namespace

int main() {
    time("threads", by_threads);
    time("contexts", by_contexts);
}
