// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/kernels/dense.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/kernels/backend.hpp>
#include <tessera/kernels/reference/dense.hpp>

#include <support/backwards_crew.hpp>
#include <support/kernel_sets.hpp>
#include <support/rounding.hpp>
#include <support/toy_numbers.hpp>

namespace dense_test {

namespace {

using namespace tessera;
using namespace tessera::support;

struct Shape {
    std::size_t batch, in, out;
};

// Inputs around every vector width (4, 8, 16 floats; 2, 4, 8 doubles) and around groups of them; batches and outputs
// around every tile.
const std::vector<std::size_t> batches{0, 1, 2, 5, 7, 20};
const std::vector<std::size_t> ins{0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 16, 17, 19, 31, 32, 33, 35, 63, 64, 65, 67, 131};
const std::vector<std::size_t> outs{0, 1, 2, 3, 4, 5, 7, 10};
// Layers whose rows fight for cache lines, in x, in w and in dy, with and without a rest behind the panels and behind
// the blocks of depth; one whose panels are several; one larger than L2, with few rows and with one more; and as many
// rows as are worth a copy in the widest registers, and one less.
const std::vector<Shape> packed{{30, 512, 7},   {5, 1024, 300}, {200, 1024, 9}, {150, 129, 256}, {13, 2048, 13},
                                {61, 70, 512},  {20, 784, 23},  {2, 1031, 270}, {3, 1031, 270},  {4, 1031, 270},
                                {47, 1024, 140}, {48, 1024, 140}};

template <class F>
void for_each_shape(F&& check) {
    for (const auto batch : batches)
        for (const auto in : ins)
            for (const auto out : outs) check(Shape{batch, in, out});
    for (const auto& shape : packed) check(shape);
}

// Numbers one element off any vector's alignment, with nothing readable behind them under AddressSanitizer.
template <class R>
class Unaligned {
public:
    explicit Unaligned(const std::vector<R>& values) : memory_(values.size() + 1) {
        std::copy(values.begin(), values.end(), memory_.begin() + 1);
    }
    R* data() { return memory_.data() + 1; }
    std::vector<R> values() const { return {memory_.begin() + 1, memory_.end()}; }

private:
    std::vector<R> memory_;
};

template <class R>
std::vector<R> unwritten(std::size_t n) {
    return std::vector<R>(n, std::numeric_limits<R>::quiet_NaN());
}

// The three kernels on one shape, each against the plain loop in the wider type. Returns which one is wrong.
template <class R>
std::string wrong(Shape s, bool with_bias, R tampered = 0) {
    const auto x = toy_numbers<R>(s.batch * s.in, 1), w = toy_numbers<R>(s.out * s.in, 2);
    const auto bias = toy_numbers<R>(s.out, 3), dy = toy_numbers<R>(s.batch * s.out, 4);
    const auto wx = converted<Wide<R>>(x), ww = converted<Wide<R>>(w);
    const auto wb = converted<Wide<R>>(bias), wdy = converted<Wide<R>>(dy);
    const auto ax = magnitudes(wx), aw = magnitudes(ww), ab = magnitudes(wb), ady = magnitudes(wdy);

    Unaligned<R> ux(x), uw(w), ub(bias), udy(dy);
    if (s.in > 0 && s.out > 0) uw.data()[s.in - 1] += tampered;

    Unaligned<R> y(unwritten<R>(s.batch * s.out));
    kernels::affine(ux.data(), uw.data(), with_bias ? ub.data() : nullptr, y.data(), s.batch, s.in, s.out);
    std::vector<Wide<R>> exact(s.batch * s.out), terms(exact.size());
    kernels::reference::affine(wx.data(), ww.data(), with_bias ? wb.data() : nullptr, exact.data(), s.batch, s.in,
                               s.out);
    kernels::reference::affine(ax.data(), aw.data(), with_bias ? ab.data() : nullptr, terms.data(), s.batch, s.in,
                               s.out);
    // in products, in - 1 additions, one for the bias; one more covers the wide oracle.
    if (!within(y.values(), exact, terms, s.in + 2)) return "affine";

    Unaligned<R> dx(unwritten<R>(s.batch * s.in));
    kernels::affine_input_gradient(udy.data(), uw.data(), dx.data(), s.batch, s.in, s.out);
    exact.resize(s.batch * s.in);
    terms.resize(s.batch * s.in);
    kernels::reference::affine_input_gradient(wdy.data(), ww.data(), exact.data(), s.batch, s.in, s.out);
    kernels::reference::affine_input_gradient(ady.data(), aw.data(), terms.data(), s.batch, s.in, s.out);
    if (!within(dx.values(), exact, terms, s.out + 1)) return "affine_input_gradient";

    Unaligned<R> dw(unwritten<R>(s.out * s.in)), db(unwritten<R>(s.out));
    kernels::affine_weight_gradient(udy.data(), ux.data(), dw.data(), with_bias ? db.data() : nullptr, s.batch, s.in,
                                    s.out);
    exact.resize(s.out * s.in);
    terms.resize(s.out * s.in);
    std::vector<Wide<R>> exact_bias(s.out), terms_bias(s.out);
    kernels::reference::affine_weight_gradient(wdy.data(), wx.data(), exact.data(), exact_bias.data(), s.batch, s.in,
                                               s.out);
    kernels::reference::affine_weight_gradient(ady.data(), ax.data(), terms.data(), terms_bias.data(), s.batch, s.in,
                                               s.out);
    if (!within(dw.values(), exact, terms, s.batch + 1)) return "affine_weight_gradient, weights";
    if (with_bias && !within(db.values(), exact_bias, terms_bias, s.batch + 1)) return "affine_weight_gradient, bias";
    return "";
}

// Which terms an update has.
struct Terms {
    bool decay, prox_center, linear, velocity;
};

// w and the velocity after affine_update, against the plain loop in the wider type.
template <class R>
bool update_agrees(Shape s, Terms t, R tampered = 0) {
    using W = Wide<R>;
    const std::size_t n = s.out * s.in + s.out;
    const auto x = toy_numbers<R>(s.batch * s.in, 1), dy = toy_numbers<R>(s.batch * s.out, 2);
    const auto w = toy_numbers<R>(n, 3), prox_center = toy_numbers<R>(n, 4), linear = toy_numbers<R>(n, 5);
    const auto velocity = toy_numbers<R>(n, 6);
    const kernels::UpdateNumbers<R> numbers{
        .rate = R(0.1), .decay = t.decay ? R(0.01) : R(0), .prox_weight = R(0.3), .momentum = R(0.9)};

    Unaligned<R> ux(x), udy(dy), uw(w), ut(prox_center), ua(linear), uv(velocity);
    if (n > 0) uw.data()[n - 1] += tampered;
    const kernels::UpdateVectors<R> reads{t.prox_center ? ut.data() : nullptr, t.linear ? ua.data() : nullptr,
                                          t.velocity ? uv.data() : nullptr};
    kernels::affine_update(udy.data(), ux.data(), uw.data(), s.batch, s.in, s.out, reads, numbers);

    const auto wx = converted<W>(x), wdy = converted<W>(dy), wt = converted<W>(prox_center), wa = converted<W>(linear);
    auto exact = converted<W>(w), exact_v = converted<W>(velocity);
    const kernels::UpdateNumbers<W> wide{numbers.rate, numbers.decay, numbers.prox_weight, numbers.momentum};
    const kernels::UpdateVectors<W> wide_reads{t.prox_center ? wt.data() : nullptr, t.linear ? wa.data() : nullptr,
                                               t.velocity ? exact_v.data() : nullptr};
    kernels::reference::affine_update(wdy.data(), wx.data(), exact.data(), s.batch, s.in, s.out, wide_reads, wide);

    // The same with absolute values; |w - prox_center| <= |w| + |prox_center|.
    const auto ax = magnitudes(wx), ady = magnitudes(wdy);
    auto terms = magnitudes(converted<W>(w)), terms_v = magnitudes(converted<W>(velocity));
    std::vector<W> slope(n);
    kernels::reference::affine_weight_gradient(ady.data(), ax.data(), slope.data(), slope.data() + s.out * s.in,
                                               s.batch, s.in, s.out);
    for (std::size_t j = 0; j < n; ++j) {
        W d = slope[j] + wide.decay * terms[j];
        if (t.prox_center) d += wide.prox_weight * (terms[j] + std::abs(wt[j]));
        if (t.linear) d += std::abs(wa[j]);
        if (t.velocity) d = terms_v[j] = wide.momentum * terms_v[j] + d;
        terms[j] += wide.rate * d;
    }
    // A sum over the batch, then at most twelve operations.
    const bool velocity_agrees =
        t.velocity ? within(uv.values(), exact_v, terms_v, s.batch + 12) : uv.values() == velocity;
    return velocity_agrees && within(uw.values(), exact, terms, s.batch + 12);
}

template <class R>
bool same_bits(const R* a, const R* b, std::size_t n) {
    return n == 0 || std::memcmp(a, b, n * sizeof(R)) == 0;
}

// How many rows of a batch, and how many outputs of a layer, have other bits than the same row or output alone.
template <class R>
std::size_t strays(Shape s) {
    const auto x = toy_numbers<R>(s.batch * s.in, 1), w = toy_numbers<R>(s.out * s.in, 2);
    const auto bias = toy_numbers<R>(s.out, 3), dy = toy_numbers<R>(s.batch * s.out, 4);
    std::vector<R> y(s.batch * s.out), dx(s.batch * s.in), dw(s.out * s.in), db(s.out);
    kernels::affine(x.data(), w.data(), bias.data(), y.data(), s.batch, s.in, s.out);
    kernels::affine_input_gradient(dy.data(), w.data(), dx.data(), s.batch, s.in, s.out);
    kernels::affine_weight_gradient(dy.data(), x.data(), dw.data(), db.data(), s.batch, s.in, s.out);

    std::size_t count = 0;
    for (std::size_t b = 0; b < s.batch; ++b) {
        std::vector<R> row(s.out), d(s.in);
        kernels::affine(x.data() + b * s.in, w.data(), bias.data(), row.data(), 1, s.in, s.out);
        kernels::affine_input_gradient(dy.data() + b * s.out, w.data(), d.data(), 1, s.in, s.out);
        count += !same_bits(row.data(), y.data() + b * s.out, s.out);
        count += !same_bits(d.data(), dx.data() + b * s.in, s.in);
    }
    for (std::size_t o = 0; o < s.out; ++o) {
        std::vector<R> column(s.batch), of_batch(s.batch), dy_o(s.batch), dw_o(s.in);
        R db_o = 0;
        for (std::size_t b = 0; b < s.batch; ++b) {
            of_batch[b] = y[b * s.out + o];
            dy_o[b] = dy[b * s.out + o];
        }
        kernels::affine(x.data(), w.data() + o * s.in, bias.data() + o, column.data(), s.batch, s.in, 1);
        kernels::affine_weight_gradient(dy_o.data(), x.data(), dw_o.data(), &db_o, s.batch, s.in, 1);
        count += !same_bits(column.data(), of_batch.data(), s.batch);
        count += !same_bits(dw_o.data(), dw.data() + o * s.in, s.in);
        count += !same_bits(&db_o, &db[o], 1);
    }
    return count;
}

// TESSERA_KERNELS for the length of a scope.
class Forced {
public:
    explicit Forced(const char* value) {
        if (const char* before = std::getenv(name)) before_ = before;
        if (value) setenv(name, value, 1);
        else unsetenv(name);
    }
    Forced(const Forced&) = delete;
    Forced& operator=(const Forced&) = delete;
    ~Forced() {
        if (before_) setenv(name, before_->c_str(), 1);
        else unsetenv(name);
    }

private:
    static constexpr const char* name = "TESSERA_KERNELS";
    std::optional<std::string> before_;
};

}  // namespace

TEST_CASE_TEMPLATE("dense kernels: worked by hand", R, float, double) {
    // x = [1 2 3; -1 0 4], W = [1 0 2; -1 1 0], b = [10 20]
    const std::vector<R> x{1, 2, 3, -1, 0, 4}, w{1, 0, 2, -1, 1, 0}, bias{10, 20}, dy{1, 2, 3, -1};
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        std::vector<R> y(4), dx(6), dw(6), db(2);
        kernels::affine(x.data(), w.data(), bias.data(), y.data(), 2, 3, 2);
        CHECK(y == std::vector<R>{17, 21, 17, 21});
        kernels::affine(x.data(), w.data(), static_cast<const R*>(nullptr), y.data(), 2, 3, 2);
        CHECK(y == std::vector<R>{7, 1, 7, 1});
        kernels::affine_input_gradient(dy.data(), w.data(), dx.data(), 2, 3, 2);
        CHECK(dx == std::vector<R>{-1, 2, 2, 4, -1, 6});
        kernels::affine_weight_gradient(dy.data(), x.data(), dw.data(), db.data(), 2, 3, 2);
        CHECK(dw == std::vector<R>{-2, 2, 15, 3, 4, 2});
        CHECK(db == std::vector<R>{4, 1});
    });
}

TEST_CASE_TEMPLATE("dense kernels: every set agrees with the plain loops around every width", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for_each_shape([](Shape s) {
            CAPTURE(s.batch);
            CAPTURE(s.in);
            CAPTURE(s.out);
            REQUIRE(wrong<R>(s, true) == "");
            REQUIRE(wrong<R>(s, false) == "");
        });
    });
}

TEST_CASE_TEMPLATE("dense kernels: the bound notices one weight that is off by a thousandth", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        CHECK(wrong<R>({7, 35, 5}, true, R(1e-3)) == "affine");
        CHECK(wrong<R>({1, 1, 1}, false, R(1e-3)) == "affine");
    });
}

TEST_CASE_TEMPLATE("dense kernels: bits do not depend on the place of a row or an output in its tile", R, float,
                   double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for_each_shape([](Shape s) {
            CAPTURE(s.batch);
            CAPTURE(s.in);
            CAPTURE(s.out);
            CHECK(strays<R>(s) == 0);
        });
    });
}

TEST_CASE_TEMPLATE("dense kernels: rows by pointer, in any order and more than once, are the rows of a matrix", R,
                   float, double) {
    const Shape s{70, 37, 7};  // more rows than a table holds on the stack
    const auto pool = toy_numbers<R>(9 * s.in, 1), w = toy_numbers<R>(s.out * s.in + s.out, 2);
    const auto dy = toy_numbers<R>(s.batch * s.out, 3);
    std::vector<const R*> rows(s.batch);
    std::vector<R> x(s.batch * s.in);
    for (std::size_t b = 0; b < s.batch; ++b) {
        rows[b] = pool.data() + (b * 5 % 9) * s.in;
        std::copy_n(rows[b], s.in, x.data() + b * s.in);
    }
    const kernels::UpdateVectors<R> reads{};
    const kernels::UpdateNumbers<R> numbers{R(0.1), 0, 0, 0};
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        std::vector<R> y(s.batch * s.out), y2(y.size()), dw(w.size()), dw2(w.size()), u(w), u2(w);
        kernels::affine(x.data(), w.data(), w.data() + s.out * s.in, y.data(), s.batch, s.in, s.out);
        kernels::affine(rows.data(), w.data(), w.data() + s.out * s.in, y2.data(), s.batch, s.in, s.out);
        CHECK(y == y2);
        kernels::affine_weight_gradient(dy.data(), x.data(), dw.data(), dw.data() + s.out * s.in, s.batch, s.in, s.out);
        kernels::affine_weight_gradient(dy.data(), rows.data(), dw2.data(), dw2.data() + s.out * s.in, s.batch, s.in,
                                        s.out);
        CHECK(dw == dw2);
        kernels::affine_update(dy.data(), x.data(), u.data(), s.batch, s.in, s.out, reads, numbers);
        kernels::affine_update(dy.data(), rows.data(), u2.data(), s.batch, s.in, s.out, reads, numbers);
        CHECK(u == u2);
        std::swap(rows[0], rows[1]);
        kernels::affine(rows.data(), w.data(), w.data() + s.out * s.in, y2.data(), s.batch, s.in, s.out);
        CHECK(y != y2);
        std::swap(rows[0], rows[1]);
    });
}

TEST_CASE_TEMPLATE("dense kernels: the comparison of bits notices another order of summation", R, float, double) {
    const auto x = toy_numbers<R>(20 * 131, 1), w = toy_numbers<R>(10 * 131, 2);
    std::vector<R> by_kernel(200), by_loop(200);
    kernels::reference::affine(x.data(), w.data(), static_cast<const R*>(nullptr), by_loop.data(), 20, 131, 10);
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        kernels::affine(x.data(), w.data(), static_cast<const R*>(nullptr), by_kernel.data(), 20, 131, 10);
        CHECK_FALSE(same_bits(by_kernel.data(), by_loop.data(), 200));
    });
}

TEST_CASE_TEMPLATE("affine_update: worked by hand", R, float, double) {
    // x = [1 2; 3 4], dy = [1; 2]: dW = [7 10], db = 3. d = dW + 0.5 w + 0.25 (w - 8) + 1, v = 2 * 0.5 + d.
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        const std::vector<R> x{1, 2, 3, 4}, dy{1, 2}, prox_center(3, 8), linear(3, 1);
        std::vector<R> w{4, 4, 4}, v(3, 2);
        kernels::affine_update(dy.data(), x.data(), w.data(), 2, 2, 1,
                               kernels::UpdateVectors<R>{prox_center.data(), linear.data(), v.data()},
                               kernels::UpdateNumbers<R>{R(0.5), R(0.5), R(0.25), R(0.5)});
        CHECK(v == std::vector<R>{10, 13, 6});
        CHECK(w == std::vector<R>{-1, R(-2.5), 1});
    });
}

TEST_CASE_TEMPLATE("affine_update: every set and every choice of terms agrees with the plain loop", R, float, double) {
    for_each_kernel_set([](std::string_view set) {
        CAPTURE(set);
        for_each_shape([](Shape s) {
            CAPTURE(s.batch);
            CAPTURE(s.in);
            CAPTURE(s.out);
            REQUIRE(update_agrees<R>(s, {false, false, false, false}));
            REQUIRE(update_agrees<R>(s, {true, true, true, true}));
        });
        for (unsigned bits = 0; bits < 16; ++bits)
            CHECK(update_agrees<R>({7, 35, 5}, {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, bits > 7}));
        CHECK_FALSE(update_agrees<R>({7, 35, 5}, {true, true, true, true}, R(1e-3)));
    });
}

TEST_CASE_TEMPLATE("dense kernels: an infinite number, input or weight, is infinite in the sum, at every place", R, float,
                   double) {
    constexpr R infinite = std::numeric_limits<R>::infinity();
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        for (std::size_t in = 1; in <= 40; ++in)
            for (std::size_t at = 0; at < in; ++at) {
                std::vector<R> x(in, 1), w(in, 2), y(1);
                x[at] = infinite;
                kernels::affine(x.data(), w.data(), static_cast<const R*>(nullptr), y.data(), 1, in, 1);
                CHECK(y[0] == infinite);
                std::swap(x, w);
                kernels::affine(x.data(), w.data(), static_cast<const R*>(nullptr), y.data(), 1, in, 1);
                CHECK(y[0] == infinite);
                w[at] = 0, x[at] = infinite;  // which is no number, as in the plain loop
                kernels::affine(x.data(), w.data(), static_cast<const R*>(nullptr), y.data(), 1, in, 1);
                CHECK(std::isnan(y[0]));
            }
    });
}

TEST_CASE_TEMPLATE("dense kernels: nothing is read or written where there is nothing", R, float, double) {
    const R* none = nullptr;
    R* nowhere = nullptr;
    std::vector<R> w(6, 1), bias{5, 6}, out(6, 9);
    for_each_kernel_set([&](std::string_view set) {
        CAPTURE(set);
        // No examples: only the parameters exist, and their gradient is zero.
        kernels::affine(none, w.data(), bias.data(), nowhere, 0, 3, 2);
        kernels::affine_input_gradient(none, w.data(), nowhere, 0, 3, 2);
        std::vector<R> dw(6, 9), db(2, 9);
        kernels::affine_weight_gradient(none, none, dw.data(), db.data(), 0, 3, 2);
        CHECK(dw == std::vector<R>(6));
        CHECK(db == std::vector<R>(2));
        // No inputs: the bias alone.
        std::vector<R> y(4, 9);
        kernels::affine(none, none, bias.data(), y.data(), 2, 0, 2);
        CHECK(y == std::vector<R>{5, 6, 5, 6});
        // No outputs: no gradient reaches the input.
        std::vector<R> dx(6, 9);
        kernels::affine(w.data(), none, none, nowhere, 2, 3, 0);
        kernels::affine_input_gradient(none, none, dx.data(), 2, 3, 0);
        kernels::affine_weight_gradient(none, w.data(), nowhere, nowhere, 2, 3, 0);
        CHECK(dx == std::vector<R>(6));
    });
}

TEST_CASE("backends: Simd is the kernels, Reference the plain loops") {
    const auto x = toy_numbers<double>(6, 1), w = toy_numbers<double>(6, 2), bias = toy_numbers<double>(2, 3);
    std::vector<double> by_kernel(4), by_loop(4), y(4);
    kernels::affine(x.data(), w.data(), bias.data(), by_kernel.data(), 2, 3, 2);
    kernels::reference::affine(x.data(), w.data(), bias.data(), by_loop.data(), 2, 3, 2);
    backend::Simd::affine(x.data(), w.data(), bias.data(), y.data(), 2, 3, 2);
    CHECK(y == by_kernel);
    backend::Reference::affine(x.data(), w.data(), bias.data(), y.data(), 2, 3, 2);
    CHECK(y == by_loop);
}

namespace {

// All products of a layer through the backend, x as a matrix and as rows.
template <class R>
class Products {
public:
    explicit Products(const Shape& shape) : s(shape) {}

    std::vector<R> helped_by(Crew* crew) const {
        std::vector<R> all;
        const auto keep = [&](const std::vector<R>& part) { all.insert(all.end(), part.begin(), part.end()); };
        const kernels::RowTable<R> rows(x.data(), s.batch, s.in);
        const Crew::Use use(crew);
        std::vector<R> y(s.batch * s.out), dx(s.batch * s.in), dw(s.in * s.out), db(s.out);
        backend::Simd::affine(x.data(), w.data(), prox_center.data(), y.data(), s.batch, s.in, s.out);
        keep(y);
        backend::Simd::affine(rows.rows(), w.data(), prox_center.data(), y.data(), s.batch, s.in, s.out);
        keep(y);
        backend::Simd::affine_input_gradient(dy.data(), w.data(), dx.data(), s.batch, s.in, s.out);
        keep(dx);
        backend::Simd::affine_weight_gradient(dy.data(), x.data(), dw.data(), db.data(), s.batch, s.in, s.out);
        keep(dw);
        keep(db);
        std::vector<R> velocity = prox_center;
        const kernels::UpdateVectors<R> plain{}, prox{prox_center.data(), nullptr, nullptr};
        for (const auto& reads :
             {plain, prox, kernels::UpdateVectors<R>{prox_center.data(), nullptr, velocity.data()}}) {
            auto own = w;
            backend::Simd::affine_update(dy.data(), rows.rows(), own.data(), s.batch, s.in, s.out, reads,
                                         {R(0.1), R(0), R(0.3), R(0.9)});
            keep(own);
        }
        keep(velocity);
        return all;
    }

private:
    Shape s;
    std::vector<R> x = toy_numbers<R>(s.batch * s.in, 1), w = toy_numbers<R>((s.in + 1) * s.out, 2),
                   dy = toy_numbers<R>(s.batch * s.out, 3), prox_center = toy_numbers<R>((s.in + 1) * s.out, 4);
};

// From 2^21 multiply-adds on: in panels, packed or as they lie, with rows for many pieces and for few.
const std::vector<Shape> large{{20, 784, 150}, {64, 512, 71}, {7, 600, 503}, {700, 48, 63}};

}  // namespace

TEST_CASE_TEMPLATE("dense kernels: bits do not depend on the size of the crew", R, float, double) {
    for (const auto& shape : large) {
        const Products<R> products(shape);
        for_each_kernel_set([&](std::string_view) {
            const auto alone = products.helped_by(nullptr);
            for (const std::size_t threads : {2u, 5u}) {
                BackwardsCrew crew(threads);
                CHECK(products.helped_by(&crew) == alone);
                CHECK(crew.pieces >= 2);
                CHECK(crew.pieces <= 7 * threads);
            }
        });
    }
}

TEST_CASE("dense kernels: the comparison notices a piece that nobody did, and small products are nobody's") {
    BackwardsCrew forgetful(2, true), idle(2);
    const Products<float> products(large[0]);
    CHECK(products.helped_by(&forgetful) != products.helped_by(nullptr));
    Products<float>({20, 784, 100}).helped_by(&idle);
    CHECK(idle.pieces == 0);
}

TEST_CASE("kernel sets: portable is everywhere, and the widest supported one is chosen") {
    const Forced unset(nullptr);
    CHECK(kernels::supported(kernels::Set::portable));
    const auto chosen = kernels::choose_set();
    CHECK(kernels::supported(chosen));
    constexpr auto by_request_only = static_cast<unsigned>(kernels::Set::amx);
    for (auto wider = static_cast<unsigned>(chosen) + 1; wider < by_request_only; ++wider)
        CHECK_FALSE(kernels::supported(kernels::Set(wider)));
    const Forced empty("");
    CHECK(kernels::choose_set() == chosen);
}

TEST_CASE("kernel sets: TESSERA_KERNELS forces one by name, or says what is wrong") {
    for (std::size_t i = 0; i < kernels::set_names.size(); ++i) {
        const std::string name(kernels::set_names[i]);
        const Forced forced(name.c_str());
        CAPTURE(name);
        if (kernels::supported(kernels::Set(i))) CHECK(kernels::choose_set() == kernels::Set(i));
        else
            CHECK_THROWS_WITH_AS(kernels::choose_set(), doctest::Contains("does not have the instructions"),
                                 ConfigError);
    }
    for (const char* name : {"avx", "AVX2", "avx512 ", "scalar", "0"}) {
        const Forced forced(name);
        CAPTURE(name);
        CHECK_THROWS_WITH_AS(kernels::choose_set(), doctest::Contains("names no kernel set"), ConfigError);
        CHECK_THROWS_WITH_AS(kernels::choose_set(), doctest::Contains(("TESSERA_KERNELS=" + std::string(name)).c_str()),
                             ConfigError);
    }
}

TEST_CASE("kernel sets: the active set has a name and is put back by the test loop") {
    const auto before = kernels::active();
    std::size_t sets = 0;
    for_each_kernel_set([&](std::string_view name) {
        CHECK(name == kernels::active_name());
        ++sets;
    });
    CHECK(sets >= 1);
    CHECK(kernels::active() == before);
}

}  // namespace dense_test
