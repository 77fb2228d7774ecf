// SPDX-License-Identifier: BSD-3-Clause
// A warm visit takes nothing from the heap: a sparse one, also of a model chosen at run time, one with image networks, a step
// on text. Replaces the global operator new of this room's program, to count.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tessera/contracts/rule.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/resnet_zoo.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/nn/text_zoo.hpp>
#include <tessera/nn/vit_zoo.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/rule/sgd.hpp>

#include <support/counted_heap.hpp>
#include <support/toy_numbers.hpp>

namespace sparse_heap_test {

using namespace tessera;

namespace {

template <class L>
void check_warm_images(nn::Shape in, const L& layers) {
    const nn::Network<float> net(in, layers);
    const auto data = support::toy_dataset<float>(10, in.size(), 10);
    const auto ids = support::first_ids(10);
    Arena arena;
    const Arena::Use use(arena);
    Workspace<float> space;
    const Vec<float> start = initial_parameters(net, Key{1});
    Vec<float> log(100);
    const auto visit = [&] {
        const Context<nn::Network<float>> at{
            .model = &net, .examples = &data.examples(), .ids = ids, .key = Key{1}, .batch = 4, .workspace = &space};
        auto w = start;
        descend(at, w, at.epochs(1), rule::Sgd{.rate = 0.01, .momentum = 0.5});
        descend(at, w, at.epochs(1), rule::Sgd{.rate = 0.01, .clip = 1});
        net.predict(w, at.everything(), log);
        return w[0];
    };
    const std::size_t before = support::allocations;
    const float first = visit();
    const std::size_t cold = support::allocations - before;
    visit();
    const std::size_t between = support::allocations;
    const float again = visit();
    CHECK(support::allocations - between == 0);
    CHECK(cold > 0);  // the arena was empty
    CHECK(again == first);
}

void check_warm_visit(const nn::AnyModel<float>& any) {
    const auto data = support::toy_dataset<float>(70, 60, 10);
    const auto ids = support::first_ids(70);
    Mask mask(dimension(any));
    for (std::size_t j = 0; j < mask.size(); j += 3) mask.set(j, true);
    Arena arena;
    const Arena::Use use(arena);
    Workspace<float> space;
    Vec<float> start(mask.count(), 0.01f), log(700);
    const auto visit = [&] {
        const Context<nn::AnyModel<float>> at{
            .model = &any, .examples = &data.examples(), .ids = ids, .key = Key{1}, .batch = 32, .workspace = &space};
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

// Of a step, a prediction and a full gradient, without an arena: how many have half the size of the model. Few examples,
// because all that flows between layers lies in one room.
template <class M>
std::size_t large_vectors(const M& model, Arithmetic how) {
    const auto data = support::toy_dataset<float>(8, 300, 10);
    const auto ids = support::first_ids(8);
    const Batch<float> batch(data.examples(), ids);
    Mask mask(dimension(model));
    for (std::size_t j = 0; j < mask.size(); j += 10) mask.set(j, true);
    const nn::Sparse<M> sparse(model, mask, 8, how);
    Vec<float> packed(mask.count(), 0.01f), velocity = packed, slopes = packed, log(80), gradient(mask.size());
    const Step<float> s{.rate = 0.1, .momentum = 0.5, .velocity = &velocity};
    support::large_allocations = 0;
    support::large = sizeof(float) * mask.size() / 2;
    if (sparse.fuses(s)) sparse.fused_step(packed, batch, s);
    else sparse.gradient(packed, batch, slopes);
    sparse.predict(packed, batch, log);
    sparse.full_gradient(packed, batch, gradient);
    support::large = ~std::size_t{0};
    return support::large_allocations;
}

}  // namespace

TEST_CASE("a warm sparse visit asks the heap for nothing") {
    check_warm_visit(nn::Dnn<60, 40, 10>{});
    check_warm_visit(nn::mlp({60, 40, 10}));
    check_warm_visit(nn::mlp({60, 40, 30, 10}));
}

TEST_CASE("a warm visit with image networks asks the heap for nothing") {
    auto batch = nn::recipe::resnet8(10);
    batch.norm.batch = true;
    batch.adapters.kind = nn::recipe::Beside3x3::serial;
    check_warm_images(nn::Shape(3, 16, 16), nn::recipe::resnet8(10));
    check_warm_images(nn::Shape(3, 16, 16), batch);
    check_warm_images(nn::Shape(3, 8, 8),
                      nn::recipe::Vit{.patch = 2, .width = 12, .blocks = 2, .heads = 3, .inner = 16});
}

TEST_CASE("on sparse layers nothing is as large as the model") {
    CHECK(large_vectors(nn::Dnn<300, 100, 10>{}, Arithmetic::sparse) == 0);
    CHECK(large_vectors(nn::mlp({300, 100, 10}), Arithmetic::sparse) == 0);
    CHECK(large_vectors(nn::mlp({300, 100, 10}), Arithmetic::table) == 0);
    CHECK(large_vectors(nn::mlp({300, 100, 10}), Arithmetic::dense) > 0);  // the counter does count
}

TEST_CASE("a warm step of an LSTM and of a transformer takes nothing from the heap") {
    constexpr std::size_t words = 11, steps = 6;
    std::vector<std::int32_t> text, next;
    for (int i = 0; i < 4 * 6; ++i) text.push_back(i * i % 11), next.push_back((i * i + 3) % 11);
    const auto data = data::Dataset::own(text, next, words, steps);
    const auto ids = support::first_ids(4);
    const Batch<float> batch(data.examples(), ids);
    for (const auto& net : {nn::Network<float>(steps, nn::recipe::char_lstm(words, 20, 5)),
                            nn::Network<float>(steps, nn::recipe::Transformer{.words = words, .width = 18, .heads = 2,
                                                                              .inner = 20, .blocks = 2, .rank = 3})}) {
        Arena arena;
        const Arena::Use use(arena);
        auto w = initial_parameters(net, Key{1});
        const auto step = [&] {
            const std::size_t before = support::allocations;
            net.fused_step(w, batch, Step<float>{.rate = 0.1});
            return support::allocations - before;
        };
        CHECK(step() > 0);  // the arena was empty
        CHECK(step() == 0);
        CHECK(step() == 0);
    }
}

}  // namespace sparse_heap_test
