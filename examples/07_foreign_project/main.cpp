// SPDX-License-Identifier: BSD-3-Clause
// A stranger's program: train on somebody's data, put every client's model in one file, and predict
// from the file as a device would, with nothing of the training library but the model's type.
#include <tessera/data/synthetic.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/predict.hpp>
#include <tessera/runtime/export.hpp>
#include <tessera/sample/uniform.hpp>
#include <tessera/version.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

using Net = tessera::nn::Mclr<60, 10>;

void train(const tessera::data::FederatedDataset& clients, const std::string& file) {
    using Method = tessera::FedAvgFt<>;
    tessera::Federation<Method, Net> federation{
        Net{}, clients, Method{.local = {.rate = 0.05}}, {.seed = 1, .batch = 10}};
    federation.run(20, tessera::sample::Uniform{.count = 5});
    tessera::write_models(file, federation);
}

// Share of a client's test examples that its model in the file gets right.
double accuracy(const tessera::ClientData& client, const std::string& file, std::size_t number) {
    const tessera::Predictor<Net> predict(file, "client/" + std::to_string(number) + "/");
    std::size_t right = 0;
    for (const auto i : client.test) {
        const auto* row = static_cast<const float*>(client.examples->rows) + i * Net::inputs;
        const auto probabilities = predict({row, Net::inputs});
        const auto best = std::max_element(probabilities.begin(), probabilities.end());
        right += best - probabilities.begin() == client.examples->labels[i];
    }
    return static_cast<double>(right) / static_cast<double>(client.test.size());
}

int main() {
    const auto clients = tessera::data::synthetic({.clients = 10, .seed = 3, .max_examples = 200});
    const auto file = (std::filesystem::temp_directory_path() / "diagnose.safetensors").string();
    train(clients, file);

    double mean = 0;
    for (std::size_t k = 0; k < clients.size(); ++k)
        mean += accuracy(clients[k], file, k) / static_cast<double>(clients.size());
    std::printf("tessera %s: ten models in %s (%ju bytes), right on %.1f %% of unseen examples\n",
                tessera::version, file.c_str(),
                static_cast<std::uintmax_t>(std::filesystem::file_size(file)), 100 * mean);
    std::filesystem::remove(file);
    return mean > 0.6 ? 0 : 1;
}
