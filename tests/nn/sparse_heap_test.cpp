// SPDX-License-Identifier: BSD-3-Clause
// A warm sparse visit takes nothing from the heap, also of a model chosen at run time. Replaces the global operator new
// of this room's program, to count.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <tessera/contracts/rule.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/sgd.hpp>

#include <support/toy_numbers.hpp>

namespace {
std::atomic<std::size_t> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (size == 0) size = 1;
    void* block = alignment > alignof(std::max_align_t)
                      ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                      : std::malloc(size);
    if (!block) throw std::bad_alloc();
    return block;
}
}  // namespace

// Not inlined: GCC would see a free() of what an operator new gave, and warn. new[] and nothrow new call these.
[[gnu::noinline]] void* operator new(std::size_t size) { return counted(size, 0); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
    return counted(size, std::size_t(alignment));
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }

TEST_CASE("a warm sparse visit asks the heap for nothing") {
    using namespace tessera;
    using Net = nn::Dnn<60, 40, 10>;
    const Net net;
    const nn::AnyModel<float> any(net);
    const auto data = support::toy_dataset<float>(70, 60, 10);
    const auto ids = support::first_ids(70);
    Mask mask(Net::parameters);
    for (std::size_t j = 0; j < mask.size(); j += 3) mask.set(j, true);
    Arena arena;
    const Arena::Use use(arena);
    Workspace<float> space;
    Vec<float> start(mask.count(), 0.01f), log(700);
    const auto visit = [&] {
        const Site<nn::AnyModel<float>> at{.model = &any, .examples = &data.examples(), .ids = ids, .key = Key{1},
                                           .batch = 32, .workspace = &space};
        const nn::Sparse<nn::AnyModel<float>> sparse(any, mask, 32);
        auto packed = start;
        descend(at.with(sparse), packed, at.epochs(2), rule::Sgd{.rate = 0.1, .momentum = 0.5});
        descend(at.with(sparse), packed, at.epochs(1), rule::Sgd{.rate = 0.1, .clip = 1});
        sparse.predict(packed, at.everything(), log);
        return packed[0];
    };
    const std::size_t before = allocations;
    const float first = visit();
    const std::size_t cold = allocations - before;
    visit();  // the workspace kept a block of the first visit for its gradient
    const std::size_t between = allocations;
    const float again = visit();
    const std::size_t warm = allocations - between;
    CHECK(warm == 0);
    CHECK(cold > 0);  // the arena was empty
    CHECK(again == first);
}
