// SPDX-License-Identifier: BSD-3-Clause
// Networks on text against torch 2.15 with the same weights: loss, log-probabilities and slopes, in double and, where
// kernels of their own do the work, in float. The numbers are of torch_vectors.py, those of the sentiment LSTM of the
// same weights in nn.LSTM(bidirectional=True).
#include <tessera/nn/text_zoo.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tessera/data/dataset.hpp>

namespace text_vectors_test {

namespace {

using namespace tessera;
using namespace tessera::nn;

// The weights that torch had: numbers of four digits.
Vec<double> weights(std::size_t n) {
    Vec<double> w(n);
    for (std::size_t i = 0; i < n; ++i) {
        const auto x = static_cast<double>(i);
        w[i] = std::round(1e4 * (0.6 * std::sin(1.7 * x + 1) + 0.2 * std::cos(0.9 * x))) / 1e4;
    }
    return w;
}

const double lstm_loss = 1.677261448;
const std::vector<double> lstm_scores{
    -2.006448, -2.156228, -1.341352, -1.165577, -1.734214, -1.966777, -2.198156, -1.46997, -1.12604, -1.635587,
    -1.952931, -2.22321, -1.533448, -1.107587, -1.59093, -2.013914, -2.157664, -1.336365, -1.16646, -1.733455,
    -1.97511, -2.200477, -1.463473, -1.125613, -1.636711, -1.949642, -2.223338, -1.534602, -1.106132, -1.594302};
const std::vector<double> lstm_slopes{
    0, 0, -5.324178e-05, 0.001670241, 0.002186502, -0.001783929, 2.624684e-05, -0.0008685542, 0.002252662,
    0.000821684, -0.0002269014, 0.0002804234, 0.0006513016, 0.0006322271, -0.001125552, 0.000237687, -0.0003156555,
    0.000142736, -0.0003803045, 0.0001916737, -1.62953e-05, -8.594021e-05, 0.001024828, -0.0007385509, -0.0008073217,
    0.001101646, -0.0002328201, -4.966337e-05, -0.001228271, 0.0008737521, 5.898454e-05, 0.001073529, -0.000836549,
    0.0001640266, 0.0001303106, -0.0001093787, -8.418028e-05, 0.0001597753, -0.0001264658, -9.118985e-05,
    0.0004788134, -0.0004336537, -0.0003650298, 0.0001206189, -9.512697e-05, -6.824006e-05, 0.0001413877,
    -0.0001039467, -6.77875e-05, 0.000128049, -0.0001275463, -0.0001171253, -0.000357386, 0.0003077171, 0.0002430302,
    0.0005993305, -0.0004525308, -0.00030555, 0.000389097, -0.0003759272, -0.000337546, 0.0005921387, -0.0004718823,
    -0.000342935, 0.0005210758, -0.000397043, -0.0002731283, 0.000399064, -0.0003504618, -0.0002865414, -0.001385169,
    -0.002303169, -0.00440977, -0.0006601202, -0.0007140628, -0.000805613, 0.004100363, -0.003513446, -0.003844776,
    -0.004056615, -0.003988606, -0.003048779, -0.001385169, -0.002303169, -0.00440977, -0.0006601202, -0.0007140628,
    -0.000805613, 0.004100363, -0.003513446, -0.003844776, -0.004056615, -0.003988606, -0.003048779, 0.0008716138,
    -0.0005385024, 0.0004807455, -0.0009286167, 0.0008577068, 0.0006129483, 0.002354841, -0.001364101, 0.0001439288,
    -0.0002467862, -0.0001326752, 0.0002428329, -0.0005618613, 0.0004097292, 0.0004334742, 0.0001092139,
    -0.0002079299, -2.713029e-05, -0.0009927756, 0.0003326528, -0.0005307508, -0.02099588, 0.01700216, 0.01452525,
    0.003520622, -0.001832557, 0.0002914678, 0.0004650013, -0.001465678, 0.001789551, -0.001282246, 0.0009693467,
    0.0009230082, 0.001164293, -0.0008568044, 1.797217e-05, -4.014492e-06, 4.372038e-06, -3.178831e-05,
    -0.0007014028, 0.0001001204, 0.0003773926, 0.0005785375, -6.387993e-05, -0.0003042684, -0.0002588385,
    4.034065e-05, 0.0001084104, -0.0006137387, 8.928309e-05, 0.0003186001, 0.000114461, -1.055365e-05, -6.096797e-05,
    -7.109756e-05, 8.540997e-06, 5.551783e-05, -0.017704, 0.002549087, 0.00929993, 0.0005641874, -5.931934e-05,
    -0.0002960407, -0.0006178234, 7.76984e-05, 8.478538e-05, -0.001535357, 0.0002045387, 0.0007646938, 0.0004683742,
    -5.307634e-05, -0.0002505899, -0.0009652573, 0.004500249, -0.005091901, 6.295718e-05, 0.002149923, -0.0006596705,
    1.317145e-05, 0.09172061, -0.007292851, -0.0005730542, 0.004445794, -0.002935321, -0.0009652573, 0.004500249,
    -0.005091901, 6.295718e-05, 0.002149923, -0.0006596705, 1.317145e-05, 0.09172061, -0.007292851, -0.0005730542,
    0.004445794, -0.002935321, 0.02818434, -0.002937573, -0.01342217, 0.05314188, -0.005199201, -0.01987019,
    -0.03273708, 0.002665849, 0.01195857, -0.03200661, 0.003266043, 0.01531331, -0.01658253, 0.002204883,
    0.006020465, -0.06221824, -0.08772779, 0.04023923, 0.120563, -0.01085618};
const double transformer_loss = 1.81149528;
const std::vector<double> transformer_scores{
    -2.764642, -1.345942, -1.169455, -1.468532, -1.995779, -2.924588, -1.399778, -1.050401, -1.526759, -2.020226,
    -2.927978, -1.417059, -0.9358064, -1.751372, -1.978592, -2.569767, -1.319145, -1.24836, -1.499038, -1.925776,
    -2.826692, -1.361233, -1.128347, -1.483638, -2.009403, -2.935109, -1.405111, -1.040086, -1.534845, -2.020253};
const std::vector<double> transformer_slopes{
    0.01268608, 0.02669259, 0.0008051586, -0.1263162, -0.1092286, 0.04863332, 0.04141453, 0.0165821, 0.0485144,
    -0.0462547, -0.01591621, 0.1372242, -0.03273497, -0.001602297, 0.006882228, -0.03044544, 0.03404519, -0.02746892,
    -0.008647329, -0.09883227, -0.002627995, 0, 0, 0.00534487, -0.01352628, 0, 0.01030153, -0.03987896, -0.007204697,
    0, 0.001967655, -0.0163597, -0.0001356199, 0, -0.0004952535, -0.001368674, -0.0001043321, 0, -0.000368486,
    -0.001010113, -0.0001743933, 0, -0.0005272225, -0.001442773, -3.911348e-05, 0, -4.189721e-05, -0.0001335674,
    0.0001584059, 0, -4.660961e-05, -8.135335e-06, 0.001147436, 0, -0.0006269985, -0.0002548014, 0.0006347459, 0,
    -0.0003354092, -0.0001319734, 0.0008823888, 0, -0.0004972563, -0.0002008393, -0.01155201, 0, -0.003190667,
    -0.01986973, 0.002982497, 0, 0.003310759, 0.02234809, 0.01781098, 0, 0.006159461, 0.04030065, -0.0006182416, 0,
    -0.003055275, -0.01837937, -0.01085658, -0.01542019, -0.004524808, 0.003994087, 0.03587013, 0.04610358,
    0.007785352, -0.01668877, 0.007795992, 0.007653179, -0.000516018, -0.005437262, -0.03328335, -0.03739886,
    -0.001036647, 0.01950566, 0.001976643, -0.000191032, 0.0007196043, -0.002954121, 0, 0, 0, 0, -0.00116909, 0,
    -0.01490407, 0, 0.0490544, 0, 0.008911175, 0, -0.0430615, 0, -0.01993215, 0.07047981, 0.01296317, -0.06351083,
    0.09048543, 0.09158593, 0.06622589, -0.02022867, -0.03837631, 0.1381093, -0.08151515, -0.01569291, 0.008011017,
    0.01066708, 0.003549308, -0.008736778, 0, 0, 0, 0, 0, 0, 0, 0, 0.01901298, 0, 0, 0.0001773248, 0, 0, 0.003814516,
    0, 0, 0.0009133625, 0, 0, -0.003926797, 0, 0, -0.09322152, 0.1401922, -0.02096766, -0.04757213, 0, 0, 0, 0,
    -0.005948864, -0.03536504, 0.03979474, 0.03629314, 0, 0.09853426, 0, -0.02097858, 0, 0.05429449, 0, -0.02704514,
    0, -0.006270763, -0.05341368, 0.1382215, -0.06855971, -0.01624808, -0.01664171, -0.05746386, -0.003188153,
    0.1253872, 0.01465152, -0.06485626, -0.01449584, 0.07811903, -0.1388856, 0.05519881, 0.1248601, 0.02262938,
    -0.06380272};
const double sentiment_loss = 0.8223796166;
const std::vector<double> sentiment_scores{
    -1.281892, -0.325054, -1.319705, -0.3109017};
// Of each tensor, the product of its slope and cos(0.7 i).
const std::vector<double> sentiment_slopes{
    0.00129666, 0.007416372, -0.0002156421, -0.008477144, -0.003844117, -0.005439488, 0.001565433, -0.007303971,
    0.002737173, -0.01235981, 0.01258754, 0.003464662, -0.0006218858, -0.01183773, 0.001716285, 0.0769709,
    0.001104774, 0.1466015, -0.02025914, -0.1354708, 0.0411652};

// Seven digits are written down, and slopes near 0 have lost some: 1e-6 of the largest of its kind; in float 1e-4.
void close(const std::vector<double>& ours, const std::vector<double>& torch, double relative = 1e-6) {
    REQUIRE(ours.size() == torch.size());
    double most = 0;
    for (const double v : torch) most = std::max(most, std::fabs(v));
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(std::fabs(ours[i] - torch[i]) <= relative * most);
}

template <class R = double>
struct Ran {
    double loss;
    std::vector<double> scores, slopes;

    Ran(const Network<R>& net, const data::Dataset& pool) {
        const std::vector<Index> both{0, 1};
        const Batch<R> batch(pool.examples(), both);
        const auto numbers = weights(dimension(net));
        const Vec<R> w(numbers.begin(), numbers.end());
        Vec<R> g(w.size()), z(2 * net.outputs());
        loss = net.gradient(w, batch, g);
        net.predict(w, batch, z);
        scores.assign(z.begin(), z.end());
        slopes.assign(g.begin(), g.end());
    }
};

const std::vector<std::int32_t> read{1, 4, 0, 2, 2, 3};
data::Dataset sentences() { return data::Dataset::own(read, std::vector<std::int32_t>{4, 0, -1, 2, 3, 1}, 5, 3); }

}  // namespace

TEST_CASE("two layers of LSTM over an embedding are torch's") {
    const Ran<> ran(Network<double>(3, recipe::char_lstm(5, 3, 2)), sentences());
    CHECK(ran.loss == doctest::Approx(lstm_loss).epsilon(1e-9));
    close(ran.scores, lstm_scores);
    close(ran.slopes, lstm_slopes);
}

TEST_CASE("a transformer with adapters and a tied table is torch's") {
    const recipe::Transformer layers{.words = 5, .width = 4, .heads = 2, .inner = 3, .blocks = 1, .rank = 2};
    const Ran<> ran(Network<double>(3, layers), sentences());
    CHECK(ran.loss == doctest::Approx(transformer_loss).epsilon(1e-9));
    close(ran.scores, transformer_scores);
    close(ran.slopes, transformer_slopes);
}

TEST_CASE("both in float, by kernels of their own") {
    const recipe::Transformer layers{.words = 5, .width = 4, .heads = 2, .inner = 3, .blocks = 1, .rank = 2};
    const Ran<float> lstm(Network<float>(3, recipe::char_lstm(5, 3, 2)), sentences()),
        transformer(Network<float>(3, layers), sentences());
    CHECK(lstm.loss == doctest::Approx(lstm_loss).epsilon(1e-5));
    close(lstm.scores, lstm_scores, 1e-4);
    close(lstm.slopes, lstm_slopes, 1e-4);
    CHECK(transformer.loss == doctest::Approx(transformer_loss).epsilon(1e-5));
    close(transformer.scores, transformer_scores, 1e-4);
    close(transformer.slopes, transformer_slopes, 1e-4);
}

TEST_CASE("two layers of LSTM in both directions and the features of their ends are torch's") {
    const Network<double> net(3, recipe::sentiment_lstm(5, 2, 3, 3));
    const Ran<> ran(net, data::Dataset::own(read, std::vector<std::int32_t>{1, 0}, 2));
    CHECK(ran.loss == doctest::Approx(sentiment_loss).epsilon(1e-9));
    close(ran.scores, sentiment_scores);
    std::vector<double> along;
    for (const auto& s : net.layout()) {
        along.push_back(0);
        for (std::size_t i = s.offset; i < s.end(); ++i)
            along.back() += ran.slopes[i] * std::cos(0.7 * static_cast<double>(i));
    }
    close(along, sentiment_slopes);
}

}  // namespace text_vectors_test
