// SPDX-License-Identifier: BSD-3-Clause
#include <tessera/mask/density.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <support/sparse_nets.hpp>

namespace density_test {

using namespace tessera;
using mask::Distribution;
using support::NetShape;

namespace {

double total(Layout layout, const Vec<double>& densities) {
    double sum = 0;
    for (std::size_t l = 0; l < layout.size(); ++l) sum += densities[l] * static_cast<double>(layout[l].size());
    return sum;
}
std::size_t total_active(Layout layout, const Vec<double>& densities) {
    std::size_t sum = 0;
    for (std::size_t l = 0; l < layout.size(); ++l) sum += mask::active_count(densities[l], layout[l].size());
    return sum;
}

struct Solved {
    const NetShape& net;
    Vec<double> densities;

    double at(const std::string& name) const { return densities[index(name)]; }
    std::size_t active(const std::string& name) const {
        return mask::active_count(at(name), net.layout[index(name)].size());
    }
    std::size_t full() const {
        std::size_t n = 0;
        for (const double d : densities) n += d == 1;
        return n;
    }
    std::size_t index(const std::string& name) const {
        return static_cast<std::size_t>(&net.at(name) - net.layout.data());
    }
};
Solved erk(const NetShape& net, double density) {
    return {net, mask::densities(net.layout, density, Distribution::erk)};
}
NetShape two(std::initializer_list<std::size_t> a, std::initializer_list<std::size_t> b) {
    NetShape net;
    net.tensor("a", Part::body, a, 1);
    net.tensor("b", Part::body, b, 1);
    return net;
}
bool near(double a, double b, double within) { return std::fabs(a - b) < within; }

}  // namespace

TEST_CASE("V-SPA-2 densities of two tensors") {
    const auto small = two({4, 2, 1, 1}, {4, 4});
    CHECK(near(erk(small, 0.5).at("a"), 0.75, 1e-15));  // sums of a few eighths: one rounding at most
    CHECK(near(erk(small, 0.5).at("b"), 0.375, 1e-15));
    const auto large = two({10, 10}, {100, 100});
    CHECK(near(erk(large, 0.1).at("a"), 0.9181818, 5e-8));  // as many digits as the vector has
    CHECK(near(erk(large, 0.1).at("b"), 0.09181818, 5e-9));
    CHECK(erk(large, 0.2).at("a") == 1);
    CHECK(near(erk(large, 0.2).at("b"), 0.192, 1e-15));
}

TEST_CASE("V-SPA-2 densities of the published networks") {
    const auto dnn = support::dnn_784_100_10();
    const auto in_dnn = erk(dnn, 0.5);
    CHECK(near(in_dnn.at("fc1.weight"), 0.492921, 5e-7));
    CHECK(in_dnn.active("fc1.weight") == 38645);
    CHECK(in_dnn.full() == 3);
    CHECK(total_active(dnn.layout, in_dnn.densities) == 39755);

    const auto lenet = support::lenet5(26);
    const auto in_lenet = erk(lenet, 0.5);
    CHECK(dimension(Layout(lenet.layout)) == 439096);
    CHECK(near(in_lenet.at("conv2.weight"), 0.476410, 5e-7));
    CHECK(in_lenet.active("conv2.weight") == 11910);
    CHECK(near(in_lenet.at("fc3.weight"), 0.483854, 5e-7));
    CHECK(in_lenet.active("fc3.weight") == 193541);
    CHECK(in_lenet.full() == lenet.layout.size() - 2);
    CHECK(total_active(lenet.layout, in_lenet.densities) == 219547);

    const auto vgg = support::vgg11_gn(10);
    const auto in_vgg = erk(vgg, 0.5);
    CHECK(dimension(Layout(vgg.layout)) == 9231114);
    CHECK(near(in_vgg.at("conv4.weight"), 0.8481, 5e-5));
    CHECK(in_vgg.active("conv4.weight") == 500245);
    CHECK(near(in_vgg.at("conv5.weight"), 0.6336, 5e-5));
    CHECK(in_vgg.active("conv5.weight") == 747470);
    for (const char* name : {"conv6.weight", "conv7.weight", "conv8.weight"}) {
        CHECK(near(in_vgg.at(name), 0.4216, 5e-5));
        CHECK(in_vgg.active(name) == 994695);
    }
    CHECK(in_vgg.full() == vgg.layout.size() - 5);
    CHECK(total_active(vgg.layout, in_vgg.densities) == 4615554);
}

TEST_CASE("V-SPA-2 densities of ResNet18 at one half and one fifth") {
    const auto net = support::resnet18_gn(100);
    CHECK(dimension(Layout(net.layout)) == 11220132);
    const auto half = erk(net, 0.5);
    CHECK(half.at("3.1.conv1.weight") == 1);
    for (const char* name : {"3.1.conv2.weight", "3.2.conv1.weight", "3.2.conv2.weight"})
        CHECK(near(half.at(name), 0.7160, 5e-5));
    CHECK(near(half.at("4.1.conv1.weight"), 0.5349, 5e-5));
    for (const char* name : {"4.1.conv2.weight", "4.2.conv1.weight", "4.2.conv2.weight"})
        CHECK(near(half.at(name), 0.3559, 5e-5));
    CHECK(half.full() == net.layout.size() - 7);

    const auto fifth = erk(net, 0.2);
    for (const char* name : {"1.1.conv1.weight", "1.2.conv2.weight"}) CHECK(near(fifth.at(name), 0.9967, 5e-5));
    CHECK(near(fifth.at("2.1.conv1.weight"), 0.7364, 5e-5));
    CHECK(near(fifth.at("2.2.conv1.weight"), 0.4872, 5e-5));
    CHECK(near(fifth.at("3.1.conv1.weight"), 0.3626, 5e-5));
    CHECK(near(fifth.at("3.2.conv1.weight"), 0.2408, 5e-5));
    CHECK(near(fifth.at("4.1.conv1.weight"), 0.1799, 5e-5));
    CHECK(near(fifth.at("4.2.conv1.weight"), 0.1197, 5e-5));
    CHECK(fifth.full() == net.layout.size() - 16);
}

TEST_CASE("L-SPA-10 densities lie in (0, 1], sum to D d, are equal for equal shapes and rise with D") {
    for (const auto& net : {support::lenet5(26), support::vgg11_gn(10), support::resnet18_gn(100)}) {
        const auto d = static_cast<double>(dimension(Layout(net.layout)));
        Vec<double> before;
        for (const double density : {0.05, 0.1, 0.2, 0.4, 0.8, 1.0}) {
            const auto solved = mask::densities(net.layout, density, Distribution::erk);
            CHECK(near(total(net.layout, solved) / (density * d), 1, 1e-12));  // sums of a hundred terms in double
            for (std::size_t l = 0; l < solved.size(); ++l) {
                CHECK(solved[l] > 0);
                CHECK(solved[l] <= 1);
                if (density == 1) CHECK(near(solved[l], 1, 1e-12));
                if (!before.empty()) CHECK(solved[l] >= before[l]);
            }
            before = solved;
        }
    }
    const auto net = support::resnet18_gn(100);
    CHECK(erk(net, 0.2).at("2.2.conv1.weight") == erk(net, 0.2).at("2.2.conv2.weight"));
    CHECK(erk(net, 0.2).at("2.2.conv1.weight") != erk(net, 0.2).at("3.2.conv2.weight"));
}

TEST_CASE("D = 1 activates everything, in every distribution") {
    const auto net = support::lenet5(26);
    for (const auto how : {Distribution::erk, Distribution::uniform})
        CHECK(mask::drawn(net.layout, 1, how, Key{1}) == Mask(439096, true));
}

TEST_CASE("uniform gives every tensor the same density") {
    const auto net = support::lenet5(26);
    const auto mask = mask::drawn(net.layout, 0.3, Distribution::uniform, Key{1});
    for (const auto& s : net.layout)
        CHECK(count_in(mask, range_of(s)) == static_cast<std::size_t>(0.3 * static_cast<double>(s.size()) + 1e-9));
}

TEST_CASE("L-SPA-4 a drawn mask has the counts of its densities, and is the stream's") {
    const auto net = support::dnn_784_100_10();
    const auto one = mask::drawn(net.layout, 0.5, Distribution::erk, Key{1});
    CHECK(one.count() == 39755);
    CHECK(count_in(one, range_of(net.at("fc1.weight"))) == 38645);
    CHECK(one == mask::drawn(net.layout, 0.5, Distribution::erk, Key{1}));
    const auto other = mask::drawn(net.layout, 0.5, Distribution::erk, Key{2});
    CHECK(other.count() == 39755);
    // Two random halves differ in half of the 78,400 places; the standard deviation of that count is 140.
    CHECK(near(static_cast<double>(hamming(one, other)), 39200, 1000));
    CHECK(hamming(one, other) == hamming(one, other, range_of(net.at("fc1.weight"))));
    CHECK(hamming(one, one) == 0);
}

TEST_CASE("every coordinate is as likely as any other") {
    const std::array<Segment, 1> layout{Segment{.name = "w", .shape = {10, 1, 1, 1}}};
    std::array<int, 10> hits{};
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
        const auto mask = mask::drawn(layout, 0.3, Distribution::uniform, Key{seed});
        CHECK(mask.count() == 3);
        for (std::size_t j = 0; j < 10; ++j) hits[j] += mask[j];
    }
    for (const int n : hits) CHECK(std::abs(n - 600) < 103);  // five standard deviations of 2000 draws at 0.3
}

TEST_CASE("a density that cannot be is refused, with the tensor's name where one is left empty") {
    const auto net = support::lenet5(26);
    for (const double density : {0.0, -0.5, 1.5})
        CHECK_THROWS_AS(mask::densities(net.layout, density, Distribution::erk), ConfigError);
    CHECK_THROWS_WITH_AS(mask::drawn(net.layout, 0.01, Distribution::uniform, Key{1}),
                         "a density of 0.010000 leaves no active weight in conv1.bias (20 weights); raise the density "
                         "or choose another distribution",
                         ConfigError);
    CHECK(mask::drawn(net.layout, 0.05, Distribution::uniform, Key{1}).count() > 0);
}

TEST_CASE("counting, walking, packing and comparing parts of a mask") {
    Mask a(200), b(200);
    for (const std::size_t j : {0u, 63u, 64u, 100u, 128u, 199u}) a.set(j, true);
    for (const std::size_t j : {0u, 64u, 101u, 199u}) b.set(j, true);
    CHECK(count_in(a, {0, 200}) == 6);
    CHECK(count_in(a, {1, 64}) == 1);
    CHECK(count_in(a, {64, 128}) == 2);
    CHECK(count_in(a, {65, 100}) == 0);
    CHECK(hamming(a, b) == 4);
    CHECK(hamming(a, b, {64, 110}) == 2);
    std::vector<std::size_t> seen;
    for_each_active(a, {63, 129}, [&](std::size_t j) { seen.push_back(j); });
    CHECK(seen == std::vector<std::size_t>{63, 64, 100, 128});
    Vec<float> x(200);
    for (std::size_t j = 0; j < 200; ++j) x[j] = static_cast<float>(j);
    CHECK(packed(x, a) == Vec<float>{0, 63, 64, 100, 128, 199});
    CHECK(packed(x, Mask(200, true)) == x);
}

TEST_CASE("weights only: vectors are full and the share is one of the other tensors") {
    const auto net = support::vgg11_gn(10);
    for (const auto how : {Distribution::erk, Distribution::uniform}) {
        const auto all = mask::densities(net.layout, 0.3, how);
        const auto weights = mask::densities(net.layout, 0.3, how, mask::MaskScope::weights);
        double active = 0, vectors_active = 0, size = 0;
        for (std::size_t l = 0; l < net.layout.size(); ++l) {
            const auto n = static_cast<double>(net.layout[l].size());
            if (net.layout[l].rank == 1) {
                CHECK(weights[l] == 1);
                vectors_active += all[l] * n;
            } else {
                active += weights[l] * n;
                size += n;
            }
        }
        CHECK(near(active / size, 0.3, 1e-12));  // a quotient of sums of thirty terms
        CHECK(vectors_active > 0);
        CHECK(near(total(net.layout, all), 0.3 * static_cast<double>(dimension(net.layout)), 1e-6));
    }
    const Mask mask = mask::drawn(net.layout, 0.3, Distribution::uniform, Key{1}, mask::MaskScope::weights);
    for (const Segment& s : net.layout)
        CHECK(count_in(mask, range_of(s)) == (s.rank == 1 ? s.size() : mask::active_count(0.3, s.size())));
}

}  // namespace density_test
