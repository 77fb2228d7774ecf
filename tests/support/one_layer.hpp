// SPDX-License-Identifier: BSD-3-Clause
// One layer with its inputs, by itself: forward once, backward as often as wanted.
#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <tessera/nn/layer.hpp>

namespace tessera::support {

template <class L, class R = double>
class OneLayer {
public:
    // A draw makes it a training batch.
    OneLayer(L layer, nn::Shape in, std::vector<R> w, std::vector<R> x, const Key* draw = nullptr)
        : layer_(std::move(layer)), w_(std::move(w)), x_(std::move(x)) {
        static_assert(nn::check_layer<L, R>());
        spec_.in[0] = in;
        layer_.infer(spec_);
        const std::size_t batch = x_.size() / in.size();
        y_.assign(batch * spec_.out.size(), unwritten);
        saved_.assign(batch * spec_.saved + spec_.batch_saved, unwritten);
        pass_.on = &nn::backend_for<R>();
        pass_.batch = pass_.saved_rows = batch;
        pass_.training = draw != nullptr;
        if (draw) pass_.key = *draw;
        layer_.forward(pass());
    }
    const nn::Spec& spec() const { return spec_; }
    const std::vector<R>& y() const { return y_; }
    std::vector<R> dx(const std::vector<R>& dy) { return backward(dy, true, false).first; }
    std::vector<R> dw(const std::vector<R>& dy) { return backward(dy, false, true).second; }
    std::pair<std::vector<R>, std::vector<R>> backward(const std::vector<R>& dy, bool want_dx = true,
                                                       bool want_dw = true) {
        std::vector<R> dx(x_.size(), unwritten), dw(w_.size(), unwritten);
        nn::Pass<R> p = pass();
        p.dy = dy.data();
        p.dxs[0] = want_dx ? dx.data() : nullptr;
        p.dw = want_dw ? dw.data() : nullptr;
        layer_.backward(p);
        return {dx, dw};
    }

private:
    static constexpr R unwritten = std::numeric_limits<R>::quiet_NaN();

    nn::Pass<R> pass() {
        nn::Pass<R> p = pass_;
        p.spec = &spec_;
        p.w = w_.data();
        p.xs[0] = p.rows.matrix = x_.data();
        p.y = y_.data();
        p.saved_base = saved_.data();
        p.batch_saved = p.saved_base + p.batch * spec_.saved;
        return p;
    }

    L layer_;
    nn::Spec spec_;
    nn::Pass<R> pass_;
    std::vector<R> w_, x_, y_, saved_;
};

}  // namespace tessera::support
