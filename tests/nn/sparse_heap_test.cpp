// SPDX-License-Identifier: BSD-3-Clause
// A warm sparse visit takes nothing from the heap, also of a model chosen at run time. Replaces the global operator new
// of this room's program, to count.
#include <doctest/doctest.h>

#include <cstddef>

#include <tessera/contracts/rule.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/sgd.hpp>

#include <support/counted_heap.hpp>
#include <support/toy_numbers.hpp>

namespace sparse_heap_test {

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
    const std::size_t before = support::allocations;
    const float first = visit();
    const std::size_t cold = support::allocations - before;
    visit();  // the workspace kept a block of the first visit for its gradient
    const std::size_t between = support::allocations;
    const float again = visit();
    const std::size_t warm = support::allocations - between;
    CHECK(warm == 0);
    CHECK(cold > 0);  // the arena was empty
    CHECK(again == first);
}

}  // namespace sparse_heap_test
