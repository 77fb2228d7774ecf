// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <type_traits>

#include <tessera/gate/chain.hpp>
#include <tessera/gate/fixed.hpp>
#include <tessera/method/apfl.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fallback.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/fedrep.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/method/hyp_cluster.hpp>
#include <tessera/method/knn_per.hpp>
#include <tessera/method/local.hpp>
#include <tessera/method/mtl.hpp>
#include <tessera/method/partial_fed.hpp>
#include <tessera/method/per_fedavg.hpp>
#include <tessera/method/pfedbred.hpp>
#include <tessera/method/pi_flow.hpp>
#include <tessera/method/sub_fedavg.hpp>
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

// Answers to the test data of a client, as probabilities.
Vec<float> answers(const ClientData& data, const auto& predict) {
    Vec<float> all(data.test.size() * 4);
    for (std::size_t i = 0; i < data.test.size(); ++i)
        predict(Batch<float>(*data.examples, data.test.subspan(i, 1)), Out<float>(all).subspan(4 * i, 4));
    for (float& v : all) v = std::exp(v);
    return all;
}
template <class Model>
Vec<float> answers(const ClientData& data, const Predictor<Model>& predict) {
    Vec<float> all, row(8);
    for (std::size_t i = 0; i < data.test.size(); ++i) {
        Batch<float>(*data.examples, data.test.subspan(i, 1)).read(0, row);
        for (const float p : predict(row)) all.push_back(p);
    }
    return all;
}
template <class Me>
Vec<float> served(const Federation<Me, Net>& run, Id k) {
    Workspace<float> space;
    return run.at_client(k, space, [&](const auto& client, auto received, auto& workspace) {
        return answers(run.data()[k], client.serve(std::move(received), run.rounds_done(), workspace));
    });
}

// A run, its file, and whether the models in it answer as the run's do.
template <class Me>
struct Written {
    File file{".npz"};
    Federation<Me, Net> run;

    explicit Written(const Me& method) : run{Net{}, support::toy_data(), method, {.batch = 5, .rounds = 2}} {
        run.run(2, sample::Everyone{});
        write_models(file.path, run);
    }
    bool global_answers() const {
        return answers(run.data()[1], Predictor<Net>(file.path, "global/")) ==
               answers(run.data()[1], detail::global_predictor(run));
    }
    template <class Model = Net>
    bool clients_answer(const Model& model = {}, const std::string& under = "") const {
        for (Id k = 0; k < run.size(); ++k)
            if (answers(run.data()[k], Predictor<Model>(file.path, "client/" + std::to_string(k) + "/" + under,
                                                        model)) != served(run, k))
                return false;
        return true;
    }
    bool says(const std::string& tensor) const {
        for (const auto& t : io::read_tensors(file.path))
            if (t.name == tensor) return true;
        return false;
    }
};
using Gate = gate::Chain<5>;

}  // namespace

TEST_CASE_TEMPLATE("both models of every family go through a file and predict as they did", Me, FedAvgFt<>, FedRep<>,
                   Ditto<>, Apfl<>, PartialFed<>, Mtl<>, PerFedAvg<>, FedBreD<>, Fallback<Ditto<>>,
                   Fallback<FedRep<>>) {
    const Written<Me> all{Me{}};
    CHECK(all.global_answers());
    CHECK(all.clients_answer());
    CHECK_FALSE(served(all.run, 0) == answers(all.run.data()[0], Predictor<Net>(all.file.path, "client/1/")));
}

TEST_CASE_TEMPLATE("sparse models are written whole", Me, FedSpa<>, SubFedAvg<>) {
    const Written<Me> all{Me{.arithmetic = Arithmetic::dense}};  // as the file's reader computes
    CHECK(all.global_answers());
    CHECK(all.clients_answer());
}

TEST_CASE_TEMPLATE("clients of a routed method: both branches and the router", Me, Flow<Gate>, PiFlow<Gate>) {
    const Written<Me> all{Me{}};
    CHECK(all.global_answers());
    const auto& method = all.run.setup().method;
    CHECK(all.clients_answer(nn::Routed<Net, Gate>(all.run.setup().model, method.gate, method.routing)));
    CHECK(all.says("client/3/global.0.weight"));
    CHECK(all.says("client/3/exit.0.weight"));
    CHECK(all.says("client/3/local.2.bias"));
    CHECK_THROWS_AS((Predictor<Net>(all.file.path, "client/3/")), IoError);  // one branch alone is not the client's
}

TEST_CASE("tied branches are written once, and a fixed gate writes no router") {
    const Written<PiFlow<Gate>> tied{PiFlow<Gate>{.pi = Pi::tied}};
    CHECK(tied.clients_answer(Net{}, "global."));
    CHECK_FALSE(tied.says("client/0/local.0.weight"));
    const Written<Flow<gate::Fixed>> local{Flow<gate::Fixed>{.gate = {.q0 = 0}}};
    CHECK(local.global_answers());
    CHECK(local.clients_answer(Net{}, "local."));
    CHECK_FALSE(local.clients_answer(Net{}, "global."));
    const Written<Fallback<Flow<gate::Fixed>>> either{{.inner = {.gate = {.q0 = 0}}}};
    CHECK(either.global_answers());
    CHECK((either.says("client/0/0.weight") || either.says("client/0/local.0.weight")));
}

TEST_CASE("clients without a common model, and a common model without clients'") {
    CHECK(Written<HypCluster<>>{HypCluster<>{}}.clients_answer());
    const Written<KnnPer<FedAvg<>>> voters{KnnPer<FedAvg<>>{}};
    CHECK(voters.global_answers());
    CHECK_FALSE(voters.says("client/0/0.weight"));
}

// Answers by no parameters at all.
struct Mute {
    static constexpr auto by_default = verb::open;
    static constexpr auto offers = offer::no_global;
    template <class R>
    using Server = Nothing;
    Nothing send(Nothing, Id) const { return {}; }
    Nothing visit(const auto&, Nothing, Nothing&) const { return {}; }
    void merge(const auto&, Nothing&, std::span<const Nothing>) const {}
    auto serve(const auto&, Nothing, Nothing) const {
        return [](const Batch<float>&, Out<float>) {};
    }
};

TEST_CASE("a method with nothing to write says so and writes nothing") {
    const File file(".npz");
    const Federation<Mute, Net> run{Net{}, support::toy_data(), {}, {.batch = 5}};
    CHECK_THROWS_WITH_AS(write_models(file.path, run), doctest::Contains("no model that can be written"), ConfigError);
    CHECK_FALSE(std::filesystem::exists(file.path));
}

TEST_CASE("a personal model goes through files of both kinds and predicts as it did") {
    Federation<Local<>, Net> run{Net{}, support::toy_data(), {}, {.batch = 5}};
    run.run(2, sample::Everyone{});
    for (const std::string ending : {".npz", ".safetensors"}) {
        const File file(ending);
        write_models(file.path, run);
        CHECK(answers(run.data()[2], Predictor<Net>(file.path, "client/2/")) == served(run, 2));
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
