// SPDX-License-Identifier: BSD-3-Clause
// From the files of Fashion-MNIST to a federation; without them there is nothing to show.
// [program]
#include <tessera/data/normalise.hpp>
#include <tessera/data/partition.hpp>
#include <tessera/io/fashion_mnist.hpp>  // needs zlib: link tessera::zlib, or -lz
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/sample/uniform.hpp>

#include <cstdio>

int main() {
    using namespace tessera;
    const auto folder = io::find_fashion_mnist();  // TESSERA_DATA_DIR, or where Debian's dataset-fashion-mnist puts it
    if (!folder) return std::puts("Fashion-MNIST is not installed"), 0;

    const data::Dataset images = io::load_fashion_mnist(*folder);  // 60,000 to train on, then 10,000 to test on
    const data::Split split = data::partition_by_name(
        "dirichlet:0.3", images, {.clients = 100, .seed = 1, .train_size = io::fashion_mnist_train_size});
    std::vector<Index> trained_on;
    for (const auto& client : split.clients)
        trained_on.insert(trained_on.end(), client.train.begin(), client.train.end());
    const data::FederatedDataset clients(data::standardised(images, trained_on), split);

    using Net = nn::Dnn<784, 100, 10>;
    Federation<FedAvgFt<>, Net> run{Net{}, clients, {.local = {.rate = 0.1}, .tune_epochs = 1}, {.batch = 20, .rounds = 5}};
    run.run(5, sample::Uniform{.count = 10});
    std::printf("global %.0f %%, personal %.0f %%\n", 100 * evaluate<Which::global>(run).accuracy(Average::pooled).value,
                100 * evaluate<Which::personal>(run).accuracy(Average::pooled).value);
}
// [/program]
