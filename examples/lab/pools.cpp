// SPDX-License-Identifier: BSD-3-Clause
#include "pools.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/data/transform.hpp>
#include <tessera/io/cifar.hpp>
#include <tessera/io/csv.hpp>
#include <tessera/io/fashion_mnist.hpp>
#include <tessera/io/idx.hpp>
#include <tessera/io/image_npy.hpp>
#include <tessera/io/leaf.hpp>
#include <tessera/io/text.hpp>

#include "nearest.hpp"

namespace lab {
namespace {

using tessera::ConfigError;
using tessera::data::Pool;
namespace io = tessera::io;

// "csv:FILE,label=y,client=who": the kind, what is read, and how.
class Source {
public:
    explicit Source(const std::string& data, const std::string& flag = "--data") : flag_(flag + " " + data) {
        const auto colon = data.find(':');
        kind_ = data.substr(0, colon);
        if (colon == data.npos) return;
        tessera::detail::for_each_piece(std::string_view(data).substr(colon + 1), ',', [&](std::string_view piece) {
            const auto equals = piece.find('=');
            if (equals == piece.npos) paths_.emplace_back(piece);
            else if (!settings_.emplace(piece.substr(0, equals), piece.substr(equals + 1)).second)
                refuse(std::string(piece.substr(0, equals)) + " is set twice");
        });
    }
    const std::string& kind() const { return kind_; }
    const std::vector<std::string>& paths() const { return paths_; }
    const std::vector<std::string>& paths(std::size_t count) const {
        if (paths_.size() != count || std::ranges::find(paths_, "") != paths_.end())
            throw ConfigError(flag_ + ": " + (count == 1 ? "one path is" : "two paths with a comma between them are") +
                              " needed after the colon");
        return paths_;
    }
    bool has(const std::string& name) const { return settings_.contains(name); }
    std::string take(const std::string& name, const std::string& otherwise = "") {
        const auto at = settings_.find(name);
        known_.append(known_.empty() ? "" : ", ").append(name);
        if (at == settings_.end()) return otherwise;
        auto value = std::move(at->second);
        settings_.erase(at);
        return value;
    }
    std::size_t count(const std::string& name, std::size_t otherwise) {
        std::size_t value = otherwise;
        if (const auto text = take(name); !text.empty()) tessera::detail::read_text(flag_ + ", " + name, text, value);
        return value;
    }
    template <class E>
    E word(const std::string& name, E otherwise) {
        if (const auto text = take(name); !text.empty())
            tessera::detail::read_text(flag_ + ", " + name, text, otherwise);
        return otherwise;
    }
    void finish() const {
        if (!settings_.empty())
            throw ConfigError(flag_ + ": " + settings_.begin()->first + " is not one of its settings, which are " +
                              (known_.empty() ? "none" : known_));
    }
    [[noreturn]] void refuse(const std::string& what) const { throw ConfigError(flag_ + ": " + what); }

private:
    std::string flag_, kind_, known_;
    std::vector<std::string> paths_;
    std::map<std::string, std::string> settings_;
};

void check_kind(const Source& source) {
    std::string known;
    std::vector<std::string> kinds;
    for (const auto name : data_names) {
        known.append(known.empty() ? "" : ", ").append(name);
        kinds.emplace_back(name.substr(0, name.find(':')));
    }
    if (std::ranges::find(kinds, source.kind()) != kinds.end()) return;
    const auto meant = perhaps(source.kind(), kinds);
    source.refuse("there is no such data" + (meant.empty() ? "; known are " + known : meant));
}

Pool read_idx(const Source& source) {
    const auto& paths = source.paths(2);
    const auto labels = io::read_idx(paths[1]).bytes;
    return {.examples = io::read_idx_dataset(paths[0], paths[1], std::size_t{*std::ranges::max_element(labels)} + 1)};
}

Pool read_fashion_mnist(const Source& source) {
    const auto directory = io::find_fashion_mnist();
    if (!directory)
        source.refuse(
            "the files are not installed; `apt-get install dataset-fashion-mnist`, or set TESSERA_DATA_DIR to "
            "their directory, or use --data synthetic");
    return {.examples = io::load_fashion_mnist(*directory), .train_size = io::fashion_mnist_train_size};
}

char separator_in(const Source& source, const std::string& text) {
    if (text == "tab" || text == "\\t") return '\t';
    const bool one = text.size() == 1 && static_cast<unsigned char>(text[0]) < 128 && text[0] != '"' && text[0] != '\n';
    if (!one) source.refuse("separator is one character, or tab, not '" + text + "'");
    return text[0];
}

Pool read_csv(Source& source) {
    io::CsvSettings settings{.label = source.take("label"), .client = source.take("client")};
    if (const auto targets = source.take("target"); !targets.empty())
        tessera::detail::for_each_piece(targets, '+',
                                        [&](std::string_view name) { settings.targets.emplace_back(name); });
    if (settings.label.empty() && settings.targets.empty())
        source.refuse("label=COLUMN must say which column is the class, or target=COLUMN which is a real target");
    if (!settings.label.empty() && !settings.targets.empty())
        source.refuse("label=COLUMN is a class and target=COLUMN a real target; a table has the one or the other");
    if (const auto ignored = source.take("ignore"); !ignored.empty())
        tessera::detail::for_each_piece(ignored, '+',
                                        [&](std::string_view name) { settings.ignore.emplace_back(name); });
    const bool separated = source.has("separator");
    const auto separator = source.take("separator");
    source.finish();
    if (separated) settings.separator = separator_in(source, separator);
    return io::read_csv(source.paths(1)[0], settings).pool;
}

enum class Labels : std::uint8_t { classes, marks, targets };
constexpr std::array<std::string_view, 3> words_of(Labels) { return {"classes", "marks", "targets"}; }

Pool read_npy(Source& source) {
    const auto& paths = source.paths(2);
    auto x = io::read_npy(paths[0]), y = io::read_npy(paths[1]);
    x.name = paths[0];
    y.name = paths[1];
    const auto kind = source.word("labels", y.shape.size() == 2 ? Labels::marks : Labels::classes);
    source.finish();
    if (kind == Labels::marks) return {.examples = io::decode_npy_marks(x, y)};
    if (kind == Labels::targets) return {.examples = io::decode_npy_targets(x, y)};
    return {.examples = io::decode_npy_dataset(x, y)};
}

enum class Encoding : std::uint8_t { one_hot, ids };
constexpr std::array<std::string_view, 2> words_of(Encoding) { return {"one-hot", "ids"}; }

struct TextForm {
    io::TextSettings text;
    Encoding as;
    std::size_t window;

    TextForm(Source& source, std::size_t usual_window)
        : text{.unit = source.word("unit", io::TextUnit::characters), .most = source.count("most", 10000)},
          as(source.word("as", Encoding::one_hot)),
          window(source.count("window", usual_window)) {}
    Pool encoded(Pool pool, std::size_t symbols) const {
        if (as == Encoding::one_hot) pool.examples = tessera::data::one_hot(pool.examples, symbols);
        return pool;
    }
};

// A user who only tests has no model to test.
std::vector<std::string> drop_who_never_trains(io::LeafFiles& files) {
    std::vector<std::string> dropped;
    const auto trains = [&](const std::string& user) {
        const auto at = files.train.find(user);
        return at != files.train.end() && at->second.rows() > 0;
    };
    for (const auto* part : {&files.train, &files.test})
        for (const auto& [user, held] : *part)
            if (!trains(user) && std::ranges::find(dropped, user) == dropped.end()) dropped.push_back(user);
    for (const auto& user : dropped) files.test.erase(user);
    std::ranges::sort(dropped);
    return dropped;
}

ReadPool read_leaf(Source& source) {
    std::string of_texts;
    for (const auto* name : {"window", "unit", "most", "as"})
        if (source.has(name)) of_texts = name;
    const TextForm form(source, 80);
    source.finish();
    const auto& path = source.paths(1)[0];
    auto files = io::read_leaf_files(path);
    auto dropped = drop_who_never_trains(files);
    const bool texts = std::ranges::any_of(files.train, [](const auto& user) { return !user.second.texts.empty(); });
    if (!texts) {
        if (!of_texts.empty()) source.refuse(of_texts + " is for texts; the examples of these files are numbers");
        return {io::leaf_pool(files.train, files.test, path), false, std::move(dropped)};
    }
    const auto vocabulary = io::leaf_vocabulary(files.train, form.text);
    files = io::as_numbers(std::move(files), vocabulary, form.window, path);
    return {form.encoded(io::leaf_pool(files.train, files.test, path, vocabulary.size()), vocabulary.size()), true,
            std::move(dropped)};
}

ReadPool read_text(Source& source) {
    const TextForm form(source, 8);
    const io::WindowSettings windows{.length = form.window, .stride = source.count("stride", 1)};
    source.finish();
    const auto clients = io::read_client_texts(source.paths(1)[0]);
    std::vector<std::string_view> all;
    for (const auto& client : clients) all.insert(all.end(), client.texts.begin(), client.texts.end());
    const auto vocabulary = io::Vocabulary::of(all, form.text);
    ReadPool pool{form.encoded(io::text_pool(clients, vocabulary, windows), vocabulary.size()), true};
    for (const auto& each : clients)
        if (!std::ranges::binary_search(pool.clients, each.client)) pool.left_out.push_back(each.client);
    return pool;
}

ReadPool read_pool(const std::string& data, const std::string& flag) {
    Source source(data, flag);
    check_kind(source);
    if (source.kind() == "csv") return {read_csv(source)};
    if (source.kind() == "leaf") return read_leaf(source);
    if (source.kind() == "text") return read_text(source);
    if (source.kind() == "npy") return {read_npy(source)};
    source.finish();
    if (data == "fashion-mnist") return {read_fashion_mnist(source)};
    if (source.kind() == "cifar10") return {io::read_cifar(io::Cifar::ten, source.paths(1)[0])};
    if (source.kind() == "cifar100") return {io::read_cifar(io::Cifar::hundred_fine, source.paths(1)[0])};
    if (source.kind() == "cifar100-coarse") return {io::read_cifar(io::Cifar::hundred_coarse, source.paths(1)[0])};
    if (source.kind() == "idx") return {read_idx(source)};
    source.refuse("there is no such data; did you mean " + source.kind() + "?");
}

}  // namespace

bool comes_with_clients(const std::string& data) {
    const Source source(data);
    return source.kind() == "leaf" || source.kind() == "text" || (source.kind() == "csv" && source.has("client"));
}

std::vector<DataPlace> places_of(const std::string& data) {
    const Source source(data);
    const auto& kind = source.kind();
    const std::string ending = kind == "leaf"              ? ".json"
                               : kind == "text"            ? ".txt"
                               : kind.starts_with("cifar") ? ".bin"
                                                           : "";
    std::vector<DataPlace> places;
    if (kind != "synthetic" && kind != "held-out" && kind != "noise")
        for (const auto& path : source.paths()) {
            if (kind == "leaf" && io::detail::is_directory(path + "/train")) {
                places.push_back({path + "/train", ending});
                places.push_back({path + "/test", ending});
            } else {
                places.push_back({path, ending});
            }
        }
    return places;
}

const ReadPool& pool_of(const std::string& data, const std::string& flag) {
    static std::map<std::string, ReadPool> read;
    const auto at = read.find(data);
    return at != read.end() ? at->second : read.emplace(data, read_pool(data, flag)).first->second;
}

}  // namespace lab
