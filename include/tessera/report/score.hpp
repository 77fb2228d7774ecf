// SPDX-License-Identifier: BSD-3-Clause
// What answers are worth on some examples, by the loss of the model (contracts/judgement.hpp): for evaluations, and for
// methods that choose among models.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tessera/contracts/judgement.hpp>
#include <tessera/core/batch.hpp>
#include <tessera/core/function_ref.hpp>
#include <tessera/report/evaluation.hpp>

namespace tessera::detail {

// What answers are asked of, whatever the method and the model: how they are judged is compiled once.
template <class R>
using Predictor = FunctionRef<void(const Batch<R>& batch, Out<R> out)>;

// use(first, batch, rows) for the answers to a few examples at a time.
template <class R, class Use>
void for_each_answer(Predictor<R> predict, const Examples& examples, std::span<const Index> ids, std::size_t outputs,
                     Use&& use) {
    // As many rows as stay in the first-level cache while a layer reads them again and again.
    const std::size_t row_bytes = std::max<std::size_t>(1, examples.width * sizeof(R));
    const std::size_t chunk = std::clamp<std::size_t>(32 * 1024 / row_bytes / 5 * 5, 5, 255);
    Vec<R> out(std::min(chunk, ids.size()) * outputs);
    for (std::size_t begin = 0; begin < ids.size(); begin += chunk) {
        const Batch<R> batch(examples, ids.subspan(begin, std::min(chunk, ids.size() - begin)));
        const Out<R> rows = Out<R>(out).first(batch.size() * outputs);
        predict(batch, rows);
        use(begin, batch, rows);
    }
}

// How answers are judged (contracts/judgement.hpp).
template <class R>
using Worth = FunctionRef<void(const Batch<R>& batch, In<R> answers, Judgement& to)>;

// What predict(batch, out) is worth on these examples; `right`, if wanted, gets 1 or 0 for each label.
template <class R>
report::ClientCount score(Id id, Predictor<R> predict, const Examples& examples, std::span<const Index> ids,
                          std::size_t outputs, Worth<R> worth, std::vector<std::uint8_t>* right = nullptr) {
    Judgement all{.each = right};
    if (right) right->clear();
    for_each_answer<R>(predict, examples, ids, outputs,
                       [&](std::size_t, const Batch<R>& batch, In<R> rows) { worth(batch, rows, all); });
    return {.client = id, .correct = all.right, .loss_sum = all.loss, .n = all.counted, .fit = std::move(all.fit),
            .correct_words = all.right_words, .words = all.words, .edits = all.edits, .meant = all.meant};
}
// By the loss of the model.
template <class M>
report::ClientCount score(const M& model, Id id, Predictor<real<M>> predict, const Examples& examples,
                          std::span<const Index> ids, std::vector<std::uint8_t>* right = nullptr) {
    using R = real<M>;
    const auto worth = [&](const Batch<R>& batch, In<R> answers, Judgement& to) { judge(model, batch, answers, to); };
    return score<R>(id, predict, examples, ids, model.outputs(), Worth<R>(worth), right);
}

}  // namespace tessera::detail
