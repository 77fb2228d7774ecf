// SPDX-License-Identifier: BSD-3-Clause
// Regions of this file are quoted in the documentation: adapters on a frozen backbone, distillation at the server.
#include <cstdio>

#include <tessera/data/synthetic.hpp>
#include <tessera/method/feddf.hpp>
#include <tessera/method/perada.hpp>
#include <tessera/nn/tuned.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/ensemble.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

using namespace tessera;

int main() {
    const auto clients = data::synthetic({.clients = 8, .seed = 1, .max_examples = 100});
    const auto elsewhere = data::synthetic({.clients = 1, .seed = 9, .max_examples = 200});
    const Settings settings{.seed = 1, .batch = 16, .rounds = 2};

    // [tuned]
    // A plain network becomes the backbone of an adapted one, which it equals until its adapters move.
    const nn::Dnn<60, 20, 10> plain;
    const auto pretrained = initial_parameters(plain, Key{1});  // or io::read_parameters("net.npz", plain.layout())
    using Adapted = nn::AdaptedDnn<60, 20, 10, 4>;
    const nn::Tuned<Adapted> adapters(Adapted{}, nn::grafted(Adapted{}, Key{2}, plain.layout(), pretrained));
    // [/tuned]

    // [perada]
    const PerAda<> perada{.local = {.rate = 0.05},
                          .personal = {.rate = 0.05},
                          .fold = {.kd_steps = 20, .kd_batch = 64, .kd_rate = 1e-3, .kd_rounds = 30},
                          .lambda = 1};
    Federation<PerAda<>, nn::Tuned<Adapted>> run{adapters, clients, perada, settings, {}, elsewhere[0]};
    run.run(2, sample::Uniform{4});
    const auto whole = adapters.assembled(run.server().w);  // the parameters of the whole network
    // [/perada]

    // [ensemble]
    const auto distance = ensemble_distance(run, run.public_data());
    // [/ensemble]
    const bool sound = whole.size() == Adapted::parameters && distance.ensemble >= 0 && distance.local.size() == 8 &&
                       run.server().w.size() == dimension(adapters);
    if (!sound) std::printf("failed: sizes\n");
    return sound ? 0 : 1;
}
