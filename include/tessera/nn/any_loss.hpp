// SPDX-License-Identifier: BSD-3-Clause
// A loss that is chosen at run time, among those of nn/loss.hpp and nn/ctc.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tessera/contracts/judgement.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/view.hpp>
#include <tessera/nn/ctc.hpp>
#include <tessera/nn/loss.hpp>

namespace tessera::nn {

enum class LossOf : std::uint8_t { softmax, binary, squared, huber, ctc };
constexpr std::array<std::string_view, 5> words_of(LossOf) { return {"softmax", "binary", "squared", "huber", "ctc"}; }

// One of them, chosen at run time: Network<float, AnyLoss>(in, layers, {LossOf::squared}).
struct AnyLoss {
    LossOf kind = LossOf::softmax;

    // f(the loss)
    template <class F>
    auto with(const F& f) const {
        switch (kind) {
            case LossOf::binary: return f(BinaryCrossEntropy{});
            case LossOf::squared: return f(SquaredError{});
            case LossOf::huber: return f(Huber<>{});
            case LossOf::ctc: return f(Ctc{});
            case LossOf::softmax: break;
        }
        return f(SoftmaxCrossEntropy{});
    }

    // The one that examples like these call for. Of labels without a place, nobody can tell: Ctc is asked for.
    static AnyLoss fitting(const Examples& examples) {
        return {examples.targets ? LossOf::squared : examples.multi_hot ? LossOf::binary : LossOf::softmax};
    }
    bool is_softmax() const { return kind == LossOf::softmax; }
    bool speaks_logarithms() const {
        return with([](auto loss) { return loss.speaks_logarithms(); });
    }
    template <class R>
    double gradient(const Batch<R>& batch, Out<R> z, Outputs how = {}) const {
        return with([&](auto loss) { return loss.gradient(batch, z, how); });
    }
    template <class R>
    void predict(Out<R> z, std::size_t outputs, Outputs how = {}) const {
        with([&](auto loss) { loss.predict(z, outputs, how); });
    }
    template <class R>
    void judge(const Batch<R>& batch, In<R> predictions, Judgement& to) const {
        with([&](auto loss) { loss.judge(batch, predictions, to); });
    }
    void check(const Examples& examples, std::size_t outputs, std::size_t positions = 1) const {
        with([&](auto loss) { loss.check(examples, outputs, positions); });
    }
};

}  // namespace tessera::nn
