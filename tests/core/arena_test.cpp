// SPDX-License-Identifier: BSD-3-Clause
// Replaces the global operator new of this room's program, to count what goes to the heap.
#include <tessera/core/arena.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace {

std::atomic<std::size_t> news{0}, deletes{0};

void* counted(std::size_t size, std::size_t align) noexcept {
    ++news;
    return std::aligned_alloc(align, (size + align - 1) / align * align + (size == 0 ? align : 0));
}
void* counted_or_throw(std::size_t size, std::size_t align) {
    if (void* memory = counted(size, align)) return memory;
    throw std::bad_alloc();
}
void give_back(void* memory) noexcept {
    if (memory) ++deletes;
    std::free(memory);
}

constexpr std::size_t plain = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

void* operator new(std::size_t size) { return counted_or_throw(size, plain); }
void* operator new(std::size_t size, std::align_val_t align) {
    return counted_or_throw(size, static_cast<std::size_t>(align));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted(size, plain); }
void* operator new(std::size_t size, std::align_val_t align, const std::nothrow_t&) noexcept {
    return counted(size, static_cast<std::size_t>(align));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { give_back(memory); }

namespace arena_test {
namespace {

using namespace tessera;

// Calls to operator new while f runs.
template <class F>
std::size_t heap_calls(F&& f) {
    const std::size_t before = news;
    f();
    return news - before;
}

// What a visit does: vectors of several sizes and types, copied, grown and thrown away.
void work() {
    Vec<float> w(7850, 1.0f), gradient(7850);
    Vec<float> received = w;
    Vec<std::uint32_t> order;
    for (std::uint32_t i = 0; i < 600; ++i) order.push_back(i);
    Vec<Vec<double>> rows(3, Vec<double>(10));
    rows.emplace_back(100);
    std::swap(w, gradient);
}

}  // namespace

TEST_CASE("the counter sees the heap") {
    CHECK(heap_calls([] { Vec<float> v(10); }) == 1);
    CHECK(heap_calls([] { ::operator delete(::operator new(10)); }) == 1);
    CHECK(heap_calls([] { Vec<float> v; }) == 0);
}

TEST_CASE("a block is aligned to a cache line, with and without an arena, new and used") {
    const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % alignment == 0; };
    static_assert(alignment == 64);
    Arena arena;
    for (int round = 0; round < 2; ++round)
        for (std::size_t n = 1; n < 3000; n += 37) {
            CHECK(aligned(Vec<char>(n).data()));
            const Arena::Use use(arena);
            CHECK(aligned(Vec<char>(n).data()));
            CHECK(aligned(Vec<double>(n).data()));
        }
}

TEST_CASE("a warm arena takes nothing from the heap; without one every vector does") {
    Arena arena;
    const Arena::Use use(arena);
    CHECK(heap_calls(work) > 0);
    CHECK(heap_calls(work) == 0);
    CHECK(heap_calls([] {
              for (int i = 0; i < 100; ++i) work();
          }) == 0);
}

TEST_CASE("negative control: cold work goes to the heap every time") {
    const auto first = heap_calls(work);
    CHECK(first > 0);
    CHECK(heap_calls(work) == first);
}

TEST_CASE_TEMPLATE("a copy has the numbers of the original and room of its own", T, float, double, std::uint16_t) {
    for (const std::size_t n : {0u, 1u, 17u, 7850u}) {
        Vec<T> from(n);
        std::iota(from.begin(), from.end(), T(1));
        const Vec<T> copy = from;
        Vec<T> longer(n + 5, T(9)), shorter(n / 2, T(9));
        longer = from;
        shorter = from;
        const Vec<T>& itself = from;
        from = itself;
        for (const auto* each : std::initializer_list<const Vec<T>*>{&copy, &longer, &shorter, &from}) {
            REQUIRE(each->size() == n);
            for (std::size_t i = 0; i < n; ++i) REQUIRE((*each)[i] == static_cast<T>(T(1) + static_cast<T>(i)));
        }
        if (n == 0) continue;
        from[0] = T(77);
        CHECK(copy[0] == T(1));
        CHECK(longer[0] == T(1));
        CHECK(shorter[0] == T(1));
    }
}

TEST_CASE("what is no plain number is copied by its own constructor") {
    struct Counted {
        std::size_t* copies;
        explicit Counted(std::size_t& n) : copies(&n) {}
        Counted(const Counted& from) : copies(from.copies) { ++*copies; }
        Counted& operator=(const Counted&) = delete;
    };
    std::size_t copies = 0;
    Vec<Counted> from;
    from.reserve(3);
    for (int i = 0; i < 3; ++i) from.emplace_back(copies);
    const Vec<Counted> copy = from;
    CHECK(copies == 3);
    const Vec<Counted> moved = std::move(from);
    CHECK(copies == 3);

    const Vec<Vec<double>> rows(3, Vec<double>(10, 2.0));
    Vec<Vec<double>> others = rows;
    others[1][4] = 5;
    CHECK(rows[1][4] == 2.0);
    CHECK(others[2] == rows[2]);
}

TEST_CASE("a copy keeps its bits, as a number that is none does") {
    const float quiet = std::bit_cast<float>(0x7fc12345u), loud = std::bit_cast<float>(0xff812345u);
    const Vec<float> from{quiet, -0.0f, loud}, copy = from;
    for (std::size_t i = 0; i < 3; ++i)
        CHECK(std::bit_cast<std::uint32_t>(copy[i]) == std::bit_cast<std::uint32_t>(from[i]));
}

TEST_CASE("a released block is the next one of its size") {
    Arena arena;
    const Arena::Use use(arena);
    void* first = Arena::allocate(1000);
    Arena::release(first, 1000);
    void* other = Arena::allocate(5000);
    CHECK(other != first);
    void* again = Arena::allocate(1000);
    CHECK(again == first);
    Arena::release(again, 1000);
    Arena::release(other, 5000);
}

TEST_CASE("a request is served by its own size class, whose blocks hold every byte of it") {
    Arena arena;
    const Arena::Use use(arena);
    for (std::size_t bytes = 1; bytes < 70'000; bytes += 1 + bytes / 50) {
        auto* block = static_cast<unsigned char*>(Arena::allocate(bytes));
        for (std::size_t i = 0; i < bytes; ++i) block[i] = 0xA5;  // AddressSanitizer checks the size
        Arena::release(block, bytes);
        // A block may serve any request of its class, so no class may hand out less than was asked for.
        auto* again = static_cast<unsigned char*>(Arena::allocate(bytes));
        CHECK(again == block);
        for (std::size_t i = 0; i < bytes; ++i) again[i] = 0x5A;
        Arena::release(again, bytes);
    }
    // Twice the size never comes from the same class: at most a quarter of a block is idle.
    for (std::size_t bytes = 64; bytes < 70'000; bytes = bytes * 9 / 8) {
        void* small = Arena::allocate(bytes);
        Arena::release(small, bytes);
        void* large = Arena::allocate(2 * bytes);
        CHECK(large != small);
        Arena::release(large, 2 * bytes);
    }
}

TEST_CASE("size classes grow, hold what they promise and waste at most a quarter") {
    std::size_t before = 0;
    for (std::size_t bytes = 1; bytes < 2'000'000; bytes += 1 + bytes / 200) {
        const auto kind = detail::kind_of(bytes);
        const auto lines = (bytes + alignment - 1) / alignment * alignment;
        CHECK(kind >= before);
        CHECK(kind < 256);
        CHECK(detail::bytes_of(kind) >= bytes);
        CHECK(4 * (detail::bytes_of(kind) - lines) <= detail::bytes_of(kind));
        CHECK(detail::kind_of(detail::bytes_of(kind)) == kind);
        before = kind;
    }
}

TEST_CASE("a vector grows across size classes and keeps its values") {
    Arena arena;
    const Arena::Use use(arena);
    for (int round = 0; round < 2; ++round) {
        const auto calls = heap_calls([] {
            Vec<std::uint64_t> v;
            for (std::uint64_t i = 0; i < 20'000; ++i) v.push_back(i * i);
            std::size_t wrong = 0;
            for (std::uint64_t i = 0; i < 20'000; ++i) wrong += v[i] != i * i;
            CHECK(wrong == 0);
        });
        if (round > 0) CHECK(calls == 0);
    }
}

TEST_CASE("a vector may outlive its arena") {
    Vec<double> survivor;
    {
        Arena arena;
        const Arena::Use use(arena);
        survivor.assign(1000, 0.5);
        Vec<double> shrunk(survivor.begin(), survivor.begin() + 10);
        survivor.swap(shrunk);
        survivor.swap(shrunk);
    }
    survivor.push_back(1.5);  // grows without any arena
    CHECK(std::accumulate(survivor.begin(), survivor.end(), 0.0) == 501.5);
}

TEST_CASE("arenas return what they hold to the heap") {
    const std::size_t news_before = news, deletes_before = deletes;
    {
        Arena arena;
        const Arena::Use use(arena);
        work();
    }
    CHECK(news - news_before > 0);
    CHECK(news - news_before == deletes - deletes_before);
}

TEST_CASE("uses nest: the arena before comes back") {
    Arena outer, inner;
    const Arena::Use use(outer);
    void* block = Arena::allocate(100);
    Arena::release(block, 100);
    {
        const Arena::Use nested(inner);
        void* other = Arena::allocate(100);
        CHECK(other != block);  // the outer one is not asked: it is no parent
        Arena::release(other, 100);
    }
    void* again = Arena::allocate(100);
    CHECK(again == block);
    Arena::release(again, 100);
}

TEST_CASE("a block belongs to the thread that releases it") {
    Arena server, worker;
    Vec<float> upload;
    const float* born = nullptr;
    std::thread([&] {
        const Arena::Use use(worker);
        upload.assign(500, 2.0f);
        born = upload.data();
    }).join();
    const Arena::Use use(server);
    CHECK(upload[499] == 2.0f);
    Vec<float>().swap(upload);  // dies here
    const Vec<float> next(500);
    CHECK(next.data() == born);
    // The worker's arena has lost it.
    std::thread([&] {
        const Arena::Use use_worker(worker);
        CHECK(heap_calls([] { Vec<float> v(500); }) == 1);
    }).join();
}

TEST_CASE("a worker falls back on its parent, and only then on the heap") {
    Arena parent;
    Arena worker(parent), stranger;
    const void* released = nullptr;
    {
        const Arena::Use use(parent);
        const Vec<float> v(500);
        released = v.data();
    }
    {
        const Arena::Use use(stranger);
        CHECK(heap_calls([] { Vec<float> v(500); }) == 1);
    }
    const Arena::Use use(worker);
    CHECK(heap_calls([&] {
              const Vec<float> v(500);
              CHECK(v.data() == released);
          }) == 0);
    // It was released to the worker, not to the parent.
    CHECK(heap_calls([&] {
              const Vec<float> v(500);
              CHECK(v.data() == released);
              const Arena::Use up(parent);
              CHECK(heap_calls([] { Vec<float> other(500); }) == 1);
          }) == 1);
}

TEST_CASE("a worker can hand its free blocks back to the parent, and keeps the ones in use") {
    Arena parent;
    Arena one(parent), two(parent);
    Vec<float> kept;
    const void* released = nullptr;
    {
        const Arena::Use use(one);
        kept.assign(500, 3.0f);
        const Vec<float> v(500);
        released = v.data();
    }
    {
        const Arena::Use use(two);
        CHECK(heap_calls([] { Vec<float> v(500); }) == 1);  // the first worker still has it
    }
    one.hand_back();
    one.hand_back();  // nothing left to give
    two.hand_back();
    parent.hand_back();  // has no parent: keeps what it has
    {
        const Arena::Use use(two);
        Vec<Vec<float>> all(13);  // one of each worker, three spares for three misses, and four for each worker
        CHECK(heap_calls([&] {
                  for (auto& v : all) v.resize(500);
              }) == 0);
        CHECK(std::count_if(all.begin(), all.end(), [&](const auto& v) { return v.data() == released; }) == 1);
    }
    CHECK(kept[499] == 3.0f);
}

namespace {

// How many of `blocks` vectors, held at once by a worker, came from the heap. Its free blocks go back after it.
std::size_t misses(Arena& worker, std::size_t blocks, std::size_t numbers) {
    std::size_t count = 0;
    {
        const Arena::Use use(worker);
        Vec<Vec<float>> held(blocks);
        for (auto& v : held) count += heap_calls([&] { v.resize(numbers); }) > 0;
    }
    worker.hand_back();
    return count;
}

}  // namespace

TEST_CASE("workers that share: a round leaves a spare for each block it missed, four for each worker, at most 8 MiB") {
    Arena parent;
    Arena worker(parent), other(parent);
    CHECK(misses(worker, 100, 500) == 100);
    CHECK(misses(other, 208, 500) == 0);
    CHECK(misses(worker, 209, 500) == 1);
    CHECK(misses(worker, 218, 500) == 0);
    CHECK(misses(worker, 6, 1 << 20) == 6);  // 4 MiB each: two to spare
    CHECK(misses(worker, 8, 1 << 20) == 0);
    CHECK(misses(worker, 9, 1 << 20) == 1);
}

TEST_CASE("a size that one visit of a round wanted may be wanted by all in the next") {
    Arena parent;
    Arena one(parent), two(parent), three(parent);
    CHECK(misses(one, 1, 500) == 1);
    const Arena::Use use(parent);  // what the workers hold at once
    Vec<Vec<float>> held(12);
    CHECK(heap_calls([&] {
              for (auto& v : held) v.resize(500);
          }) == 0);
}

TEST_CASE("a worker that shares with nobody wants the same in every round: no spares") {
    Arena parent;
    Arena worker(parent);
    CHECK(misses(worker, 100, 500) == 100);
    CHECK(misses(worker, 100, 500) == 0);
    CHECK(misses(worker, 101, 500) == 1);
}

TEST_CASE("a worker does not hoard what dies with it: beyond 16 of a kind others find them at once") {
    Arena parent;
    Arena worker(parent), other(parent);
    {
        const Arena::Use use(worker);
        Vec<Vec<float>> stock(50, Vec<float>(500));  // and the one they are copies of
    }
    const Arena::Use use(other);
    Vec<Vec<float>> held(35);
    CHECK(heap_calls([&] {
              for (auto& v : held) v.resize(500);
          }) == 0);
    CHECK(heap_calls([] { Vec<float> v(500); }) == 1);  // the other 16 are the worker's
}

TEST_CASE("workers share a parent without sharing a block") {
    Arena parent;
    {
        const Arena::Use use(parent);
        Vec<Vec<int>> stock(32, Vec<int>(100));
    }
    std::atomic<std::size_t> wrong{0};
    std::vector<std::thread> threads;
    for (int id = 0; id < 4; ++id)
        threads.emplace_back([&, id] {
            Arena own(parent);
            for (int round = 0; round < 200; ++round) {
                const Arena::Use use(own);
                Vec<Vec<int>> mine(8, Vec<int>(100, id));
                for (const auto& v : mine)
                    for (const int x : v) wrong += x != id;
                const Arena::Use up(parent);  // some go back to the parent
                Vec<int>().swap(mine.front());
            }
        });
    for (auto& t : threads) t.join();
    CHECK(wrong == 0);
}

}  // namespace arena_test
