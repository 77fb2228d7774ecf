// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>

#include <tessera/method/fedavg.hpp>
#include <tessera/method/local.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/predict.hpp>
#include <tessera/runtime/export.hpp>
#include <tessera/sample/everyone.hpp>

#include <support/toy_data.hpp>

namespace export_test {

using namespace tessera;

namespace {

using Net = nn::Dnn<8, 6, 4>;

struct File {
    std::string path;
    explicit File(const std::string& ending)
        : path((std::filesystem::temp_directory_path() / "tessera-models-XXXXXX").string()) {
        REQUIRE(mkdtemp(path.data()) != nullptr);
        folder_ = path;
        path += "/models" + ending;
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() { std::filesystem::remove_all(folder_); }

private:
    std::string folder_;
};

}  // namespace

TEST_CASE("a personal model goes through a file and predicts as it did") {
    for (const std::string ending : {".npz", ".safetensors"}) {
        const File file(ending);
        Federation<Local<>, Net> run{Net{}, support::toy_data(), {}, {.batch = 5}};
        run.run(2, sample::Everyone{});
        write_models(file.path, run);
        const Predictor<Net> predict(file.path, "client/2/");

        const auto data = run.data()[2];
        Workspace<float> space;
        run.at_client(2, space, [&](const auto& client, auto received, auto& workspace) {
            const auto served = client.serve(std::move(received), run.rounds_done(), workspace);
            Vec<float> row(8), expected(4);
            for (std::size_t i = 0; i < data.test.size(); ++i) {
                const Batch<float> one(*data.examples, data.test.subspan(i, 1));
                one.read(0, row);
                served(one, expected);
                const auto p = predict(row);
                for (std::size_t c = 0; c < 4; ++c) CHECK(p[c] == std::exp(expected[c]));
            }
        });
    }
}

TEST_CASE("the global model is written under its name, with torch's tensor names") {
    const File file(".npz");
    Federation<FedAvg<>, Net> run{Net{}, support::toy_data(), {}, {.batch = 5}};
    run.run(1, sample::Everyone{});
    write_models(file.path, run);
    const auto tensors = io::read_tensors(file.path);
    REQUIRE(tensors.size() == 4);
    CHECK(tensors[0].name == "global/0.weight");
    CHECK(tensors[0].shape == std::vector<std::size_t>{6, 8});
    CHECK(io::read_parameters<float>(file.path, Net::segments, "global/") == run.server().w);
}

TEST_CASE("what does not fit is refused with the tensor's name") {
    const File file(".safetensors");
    Federation<FedAvg<>, Net> run{Net{}, support::toy_data(), {}, {.batch = 5}};
    write_models(file.path, run);
    using Wider = nn::Dnn<8, 7, 4>;
    CHECK_THROWS_WITH_AS((Predictor<Wider>(file.path, "global/")),
                         (file.path + ": tensor 'global/0.weight' does not have the model's shape").c_str(), IoError);
    CHECK_THROWS_WITH_AS((Predictor<Net>(file.path, "client/0/")),
                         (file.path + ": there is no tensor 'client/0/0.weight', which the model needs").c_str(),
                         IoError);
    CHECK_THROWS_AS(io::write_tensors("models.bin", {}), IoError);
    const Predictor<Net> predict(file.path, "global/");
    const std::vector<float> short_row(7);
    CHECK_THROWS_AS(predict(short_row), ConfigError);
}

}  // namespace export_test
