// SPDX-License-Identifier: BSD-3-Clause
// RoutableModel: a model whose blocks can be run with two sets of parameters at once and mixed per example,
//
//   h_j = q0_j G_j(h_(j-1)) + (1 - q0_j) Lam_j(h_(j-1)),
//
// G_j with w_g, Lam_j with w_l, before whatever follows the block. It gives
//
//   Routes routes(mix) const                                             what a gate needs to know
//   double routed_gradient(w_g, w_l, routing, batch, dw_g, dw_l) const   mean loss; an empty span: not wanted
//   void routed_predict(w_g, w_l, routing, batch, out) const             log-probabilities with q0 as it is
//   void hard_predict(w_g, w_l, routing, batch, out) const               q0 >= 1/2: global, else local; of each block
//                                                                        and example the chosen branch alone is run
//
// q0 comes from a Routing, which the model asks question by question and tells the gradients, last question first. A
// block asks once for an example, or once for each of its positions (a cell at a time step). With a question it may
// show what its branches have made by then; `Routes::shown` says how wide that is, so that a gate can have parameters
// for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tessera/contracts/model.hpp>

namespace tessera {

// Where branches are mixed: after every block, or in the raw outputs alone (one gate).
enum class MixAt : std::uint8_t { layer, output };
constexpr std::array<std::string_view, 2> words_of(MixAt) { return {"layer", "output"}; }

// What a block shows with a question: of each example a row with what both branches read, then what the global branch
// has made of it, then what the local one has.
struct Shown {
    std::size_t asks = 1;   // questions of the block, one after the other
    std::size_t input = 0;  // numbers that both branches read
    std::size_t held = 0;   // numbers that a branch has: what it puts out or, of a cell, its state,
    std::size_t out = 0;    // of which the first so many are put out
    bool recurs = false;    // the block is a cell, which goes on from a mixed state

    constexpr std::size_t width() const { return input + 2 * held; }
};

struct Routes {
    std::size_t inputs = 0;  // numbers an example
    std::size_t blocks = 0;  // numbers q0 an example: questions of all blocks
    Vec<Shown> shown{};      // of each block, in order; empty: they show nothing
};

// What a pass leaves for the next one over the same batch and the same branches: a model may keep there whatever does
// not depend on q0, which is all up to the first mix.
template <class R>
struct RoutedPrefix {
    Vec<R> numbers;
    bool holds = false;
};

template <class R>
class Routing {
public:
    MixAt mix = MixAt::layer;
    RoutedPrefix<R>* kept = nullptr;

    Routing() = default;
    Routing(const Routing&) = delete;
    Routing& operator=(const Routing&) = delete;

    // False: nobody reads the gradients with respect to q0, and `answer` need not be called.
    virtual bool wants_gradient() const = 0;
    // False: nobody reads what blocks show, and they need not.
    virtual bool looks() const { return true; }
    // q0 of question j for every example of the batch; `seen` is what the model shows, row by row, or nothing.
    virtual void ask(std::size_t j, In<R> seen, Out<R> q0) = 0;
    // Its gradient, for every example; what it means for `seen` is written to dseen.
    virtual void answer(std::size_t j, In<R> seen, In<R> dq0, Out<R> dseen) = 0;

protected:
    ~Routing() = default;
};

// A table that is known beforehand: q0[i * blocks + j]. Gradients go to dq0, laid out alike, if it is given.
template <class R>
class Given final : public Routing<R> {
public:
    Given(In<R> q0, std::size_t blocks, Out<R> dq0 = {}) : q0_(q0), dq0_(dq0), blocks_(blocks) {}

    bool wants_gradient() const override { return !dq0_.empty(); }
    bool looks() const override { return false; }
    void ask(std::size_t j, In<R>, Out<R> q0) override {
        for (std::size_t i = 0; i < q0.size(); ++i) q0[i] = q0_[i * blocks_ + j];
    }
    void answer(std::size_t j, In<R>, In<R> dq0, Out<R>) override {
        for (std::size_t i = 0; i < dq0.size(); ++i) dq0_[i * blocks_ + j] = dq0[i];
    }

private:
    In<R> q0_;
    Out<R> dq0_;
    std::size_t blocks_;
};

template <class M>
concept RoutableModel = Model<M> && requires(const M model, In<real<M>> w, Routing<real<M>>& routing,
                                             const Batch<real<M>>& batch, Out<real<M>> out) {
    { model.routes(MixAt::layer) } -> std::same_as<Routes>;
    { model.routed_gradient(w, w, routing, batch, out, out) } -> std::convertible_to<double>;
    { model.routed_predict(w, w, routing, batch, out) } -> std::same_as<void>;
    { model.hard_predict(w, w, routing, batch, out) } -> std::same_as<void>;
};

// The same in one sentence, for methods that route.
template <class M>
consteval bool check_routable() {
    constexpr bool fits = RoutableModel<M>;
    static_assert(fits,
                  "tessera::RoutableModel: the method routes examples through blocks, so the model needs `routes`, "
                  "`routed_gradient`, `routed_predict` and `hard_predict`; nn::Network has them");
    return fits;
}

}  // namespace tessera
