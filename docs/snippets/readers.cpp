// SPDX-License-Identifier: BSD-3-Clause
// What docs/policies/data.md and docs/policies/nn.md show of readers, readings and run-time widths.
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/data.hpp>
#include <tessera/io.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/text_zoo.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/evaluate.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

namespace {

int failures = 0;

void expect(const char* what, bool holds) {
    if (holds) return;
    std::printf("failed: %s\n", what);
    ++failures;
}

void schools(const std::string& folder) {
    std::string text = "school,lea,age,score,grade\n";
    for (int i = 0; i < 60; ++i)
        text += "s" + std::to_string(i % 3) + ",x," + std::to_string(1000 + 40 * i) + "," + std::to_string(i % 7) + "," +
                std::to_string(i / 30) + "\n";
    const std::string path = folder + "/grades.csv";
    io::write_file_atomically(path, std::as_bytes(std::span(text)));

    // [csv]
    const auto table = io::read_csv(path, {.label = "grade", .client = "school", .ignore = {"lea"}});
    const data::FederatedDataset schools = table.pool.federated({.seed = 1}, {.train = 10, .test = 1});
    const std::string& first = table.pool.name_of(schools.split().clients[0]);
    // [/csv]
    expect("the clients are the schools", schools.size() == 3 && first == "s0");

    // [readings]
    const auto& train = schools.split().clients[0].train;
    const data::Dataset even = data::standardised_by_feature(schools.pool(), train);
    const data::FederatedDataset same(even, schools.split());
    // [/readings]

    // [mlp]
    const auto& examples = same.pool().examples();
    const auto net = nn::mlp({examples.width, 16, examples.classes});  // widths from the data
    Federation<Ditto<>, nn::Network<float>> run{net, same, {}, {.batch = 5}};
    run.run(3, sample::Everyone{});
    // [/mlp]
    expect("the layout is a Dnn's", dimension(net) == 2 * 16 + 16 + 16 * 2 + 2);
    expect("three rounds", run.rounds_done() == 3);
}

void speakers() {
    // [text]
    const std::vector<io::ClientText> people{{"ann", {"to be or not to be"}}, {"bob", {"that is the question"}}};
    const auto vocabulary = io::Vocabulary::of(std::vector<std::string_view>{people[0].texts[0]}, {.most = 30});
    const data::Pool pool = io::text_pool(people, vocabulary, {.length = 4});
    const data::Dataset rows = data::one_hot(pool.examples, vocabulary.size());  // for models without an embedding
    // [/text]
    // [sequences]
    const auto said = io::decode_text_table("ann\tto be or not to be\nbob\tthat is the question\n",
                                            {.client = "1", .text = "2", .header = false}, "speeches.tsv");
    const auto halves = io::split_by_time(io::joined(said), 0.75, io::TextUnit::characters);
    const auto letters = io::vocabulary_of(halves.train, {.most = 100});  // of training text only
    const data::Pool sequences = io::sequence_pool(halves, letters, {.length = 8});
    const nn::Network<float> reader(8, nn::recipe::char_lstm(letters.size(), 32));
    Federation<FedAvg<>, nn::Network<float>> learns{reader, sequences.federated(), {.local = {.rate = 0.5}}, {.batch = 4}};
    learns.run(2, sample::Everyone{});
    const auto judged = evaluate<Which::global>(learns);
    const double perplexity = judged.perplexity(Average::pooled).value;    // exp of the mean loss of a token
    const double of_words = judged.in_vocabulary(Average::pooled).value;  // accuracy without unknown tokens and ends
    // [/sequences]
    expect("better than drawing letters", perplexity < static_cast<double>(letters.size()));
    expect("a share", of_words >= 0 && of_words <= 1);
    expect("a window of four", pool.examples.examples().width == 4);
    expect("one-hot rows", rows.examples().width == 4 * vocabulary.size());
}

void images() {
    const auto pool = data::Dataset::own(std::vector<float>(40 * 64, 0.5f), std::vector<std::int32_t>(40), 1);
    // [shift]
    const data::PartitionSettings settings{.clients = 5, .train_size = 30};
    const data::FederatedDataset even(pool, data::partition_by_name("iid", pool, settings));
    const auto turned = data::FeatureShift{.most = 360, .groups = 4}(even);  // or seen_by_name("iid+rotations:4", even)
    const auto more = data::Augment{.shape = {.width = 8, .height = 8}, .padding = 1, .copies = 2}(turned);
    // [/shift]
    expect("two copies of each", more[0].train.size() == 3 * even[0].train.size());
}

}  // namespace

int main() {
    const auto folder = std::filesystem::temp_directory_path() / "tessera-readers";
    std::filesystem::create_directories(folder);
    schools(folder.string());
    speakers();
    images();
    std::filesystem::remove_all(folder);
    return failures == 0 ? 0 : 1;
}
