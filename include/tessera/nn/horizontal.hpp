// SPDX-License-Identifier: BSD-3-Clause
// Two branches side by side (Pillutla et al., ICML 2022, figure 1c): the first `Cut` numbers of an example go through
// the shared branch, the others through the personal one, and what comes out is concatenated for the layers above.
//
//   y = (Shared(x[0..Cut)), Own(x[Cut..)))
//
// The personal branch has part `adapter`, so scope::Adapter keeps private features and what reads them at home.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <tessera/core/arena.hpp>
#include <tessera/nn/layer.hpp>

namespace tessera::nn {

template <std::size_t Cut, class Shared, class Own>
class Horizontal {
    static constexpr std::size_t shared_parameters = dimension(Layout(Shared::segments));

public:
    constexpr Horizontal() = default;
    constexpr Horizontal(Shared shared, Own own) : shared_(std::move(shared)), own_(std::move(own)) {}

    static constexpr auto segments = [] {
        std::array<Segment, Shared::segments.size() + Own::segments.size()> all{};
        std::size_t n = 0;
        for (const auto& s : Shared::segments) all[n++] = placed(s, "shared.", 0);
        for (auto s : Own::segments) {
            s.part = Part::adapter;
            all[n++] = placed(s, "own.", shared_parameters);
        }
        return all;
    }();

    static constexpr std::size_t width(std::size_t in) {
        if (in <= Cut || Shared::width(Cut) == 0 || Own::width(in - Cut) == 0) return 0;
        return Shared::width(Cut) + Own::width(in - Cut);
    }
    // Inputs and outputs of both branches, apart, and their notes.
    static constexpr std::size_t notes(std::size_t in) {
        return in + width(in) + Shared::notes(Cut) + Own::notes(in - Cut);
    }
    static constexpr double flops(std::size_t in) { return Shared::flops(Cut) + Own::flops(in - Cut); }

    template <class R>
    void forward(const Call& call, const R* w, const R* x, R* y, R* notes) const {
        const Places<R> at(call, notes);
        part(x, at.x_shared, at.x_own, call.batch, Cut, call.in - Cut);
        shared_.forward(call.child(0, Cut), w, at.x_shared, at.y_shared, at.shared_notes);
        own_.forward(call.child(1, call.in - Cut), w + shared_parameters, at.x_own, at.y_own, at.own_notes);
        join(at.y_shared, at.y_own, y, call.batch, at.shared_width, at.own_width);
    }
    template <class R>
    void backward(const Call& call, const R* w, const R*, const R*, const R* notes, const R* dy, R* dx, R* dw) const {
        const Places<const R> at(call, notes);
        const std::size_t rest = call.in - Cut;
        Vec<R> dy_shared(call.batch * at.shared_width), dy_own(call.batch * at.own_width);
        Vec<R> dx_shared(dx ? call.batch * Cut : 0), dx_own(dx ? call.batch * rest : 0);
        part(dy, dy_shared.data(), dy_own.data(), call.batch, at.shared_width, at.own_width);
        shared_.backward(call.child(0, Cut), w, at.x_shared, at.y_shared, at.shared_notes, dy_shared.data(),
                         dx ? dx_shared.data() : nullptr, dw);
        own_.backward(call.child(1, rest), w + shared_parameters, at.x_own, at.y_own, at.own_notes, dy_own.data(),
                      dx ? dx_own.data() : nullptr, dw ? dw + shared_parameters : nullptr);
        if (dx) join(dx_shared.data(), dx_own.data(), dx, call.batch, Cut, rest);
    }

private:
    template <class P>  // R or const R
    struct Places {
        std::size_t shared_width, own_width;
        P *x_shared, *x_own, *y_shared, *y_own, *shared_notes, *own_notes;

        Places(const Call& call, P* notes)
            : shared_width(Shared::width(Cut)),
              own_width(Own::width(call.in - Cut)),
              x_shared(notes),
              x_own(x_shared + call.batch * Cut),
              y_shared(x_own + call.batch * (call.in - Cut)),
              y_own(y_shared + call.batch * shared_width),
              shared_notes(y_own + call.batch * own_width),
              own_notes(shared_notes + call.batch * Shared::notes(Cut)) {}
    };
    template <class R>
    static void part(const R* rows, R* left, R* right, std::size_t batch, std::size_t l, std::size_t r) {
        for (std::size_t b = 0; b < batch; ++b) {
            std::copy_n(rows + b * (l + r), l, left + b * l);
            std::copy_n(rows + b * (l + r) + l, r, right + b * r);
        }
    }
    template <class R>
    static void join(const R* left, const R* right, R* rows, std::size_t batch, std::size_t l, std::size_t r) {
        for (std::size_t b = 0; b < batch; ++b) {
            std::copy_n(left + b * l, l, rows + b * (l + r));
            std::copy_n(right + b * r, r, rows + b * (l + r) + l);
        }
    }

    Shared shared_{};
    Own own_{};
};

}  // namespace tessera::nn
