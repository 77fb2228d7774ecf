// SPDX-License-Identifier: BSD-3-Clause
#include "pools.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/scope.hpp>
#include <tessera/data/transform.hpp>
#include <tessera/io/cifar.hpp>
#include <tessera/io/client_json.hpp>
#include <tessera/io/csv.hpp>
#include <tessera/io/csv_cells.hpp>
#include <tessera/io/fashion_mnist.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/idx.hpp>
#include <tessera/io/image_npy.hpp>
#include <tessera/io/leaf.hpp>
#include <tessera/io/npy.hpp>
#include <tessera/io/sequences.hpp>
#include <tessera/io/text.hpp>
#include <tessera/io/text_json.hpp>

#include "nearest.hpp"
#include "ranks.hpp"

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
    // A training and a test part, or all in one.
    const std::vector<std::string>& paths(std::size_t one, const std::string& what) const {
        if ((paths_.size() != one && paths_.size() != 2 * one) || std::ranges::find(paths_, "") != paths_.end())
            throw ConfigError(flag_ + ": " + what + " needed after the colon, or as many more for the test part");
        return paths_;
    }
    bool has(const std::string& name) const { return settings_.contains(name); }
    bool asks(const std::string& name, const std::string& value) const {
        const auto at = settings_.find(name);
        return at != settings_.end() && at->second == value;
    }
    double number(const std::string& name, double otherwise) {
        if (const auto text = take(name); !text.empty())
            tessera::detail::read_text(flag_ + ", " + name, text, otherwise);
        return otherwise;
    }
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
    // A path without a colon has no kind: all of it stands for one.
    const auto path = source.kind().substr(0, source.kind().find(','));
    if (path.ends_with(".csv") || path.ends_with(".csv.gz") || path.ends_with(".tsv"))
        source.refuse("there is no such data; for a table write csv:" + source.kind() +
                      (source.kind().find("label=") == std::string::npos ? ",label=COLUMN" : ""));
    const auto meant = perhaps(source.kind(), kinds);
    source.refuse("there is no such data" + (meant.empty() ? "; known are " + known : meant));
}

// A name a line; of clients also a .npy of whole numbers.
std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    if (path.ends_with(".npy")) {
        auto numbers = io::read_npy(path);
        numbers.name = path;
        for (const auto number : io::detail::labels_of(numbers)) names.push_back(std::to_string(number));
        return names;
    }
    const auto bytes = io::read_file(path);
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
    tessera::detail::for_each_piece(text, '\n', [&](std::string_view line) {
        if (line.ends_with('\r')) line.remove_suffix(1);
        names.emplace_back(line);
    });
    return names;
}

// The examples of one and then those of the other.
tessera::data::Dataset joined(const Source& source, const tessera::data::Dataset& one,
                              const tessera::data::Dataset& other) {
    const auto &a = one.examples(), &b = other.examples();
    if (!a.one_label() || !b.one_label())
        source.refuse("only examples with one class each come with a test part of their own");
    if (a.width != b.width || a.storage != b.storage)
        source.refuse("the test part has " + std::to_string(b.width) + " features of another kind than the " +
                      std::to_string(a.width) + " of the training part");
    std::vector<std::int32_t> labels(a.labels, a.labels + a.size);
    labels.insert(labels.end(), b.labels, b.labels + b.size);
    const std::size_t classes = std::max(a.classes, b.classes);
    const auto rows_as = [&]<class T>(T) {
        const auto *first = static_cast<const T*>(a.rows), *second = static_cast<const T*>(b.rows);
        std::vector<T> rows(first, first + a.size * a.width);
        rows.insert(rows.end(), second, second + b.size * b.width);
        return tessera::data::Dataset::own(std::move(rows), std::move(labels), classes);
    };
    return a.storage == tessera::Storage::bytes ? rows_as(std::uint8_t{}) : rows_as(float{});
}

// Features and labels in files of their own (idx, npy): read(features, labels), a test pair, owners, names of classes.
template <class Read>
ReadPool read_pairs(Source& source, Read&& read) {
    const auto owners = source.take("client"), classes = source.take("classes");
    source.finish();
    const auto& paths = source.paths(2, "two paths with a comma between them are");
    ReadPool pool;
    pool.examples = read(paths[0], paths[1]);
    if (paths.size() == 4) {
        pool.train_size = pool.examples.size();
        pool.examples = joined(source, pool.examples, read(paths[2], paths[3]));
    }
    if (!classes.empty()) {
        pool.classes = names_in(classes);
        if (pool.classes.size() < pool.examples.examples().classes)
            source.refuse("classes: " + std::to_string(pool.classes.size()) + " names for " +
                          std::to_string(pool.examples.examples().classes) + " classes");
    }
    if (owners.empty()) return pool;
    std::vector<std::string> names;
    tessera::detail::for_each_piece(owners, '+', [&](std::string_view file) {
        const auto more = names_in(std::string(file));
        names.insert(names.end(), more.begin(), more.end());
    });
    if (names.size() != pool.examples.size())
        source.refuse("client: " + std::to_string(names.size()) + " names for " + std::to_string(pool.examples.size()) +
                      " examples" + (paths.size() == 4 ? "; write client=TRAIN+TEST for two files" : ""));
    std::vector<std::size_t> rank;
    pool.clients = io::detail::ranked(names, true, rank);
    pool.client_of.assign(rank.begin(), rank.end());
    return pool;
}

ReadPool read_idx(Source& source) {
    return read_pairs(source, [](const std::string& images, const std::string& labels) {
        const auto kinds = io::read_idx(labels).bytes;
        return io::read_idx_dataset(images, labels, std::size_t{*std::ranges::max_element(kinds)} + 1);
    });
}

enum class Labels : std::uint8_t { classes, multi_hot, targets, transcripts };
constexpr std::array<std::string_view, 4> words_of(Labels) { return {"classes", "multi_hot", "targets", "transcripts"}; }

ReadPool read_npy(Source& source) {
    const bool said = source.has("labels");
    const auto asked = source.word("labels", Labels::classes);
    return read_pairs(source, [&](const std::string& features, const std::string& labels) {
        auto x = io::read_npy(features), y = io::read_npy(labels);
        x.name = features;
        y.name = labels;
        const auto kind = said ? asked : y.shape.size() == 2 ? Labels::multi_hot : Labels::classes;
        if (kind == Labels::multi_hot) return io::decode_npy_multi_hot(x, y);
        if (kind == Labels::targets) return io::decode_npy_targets(x, y);
        if (kind == Labels::transcripts) return io::decode_npy_transcripts(x, y);
        return io::decode_npy_dataset(x, y);
    });
}

ReadPool read_fashion_mnist(const Source& source) {
    const auto directory = io::find_fashion_mnist();
    if (!directory)
        source.refuse(
            "the files are not installed; `apt-get install dataset-fashion-mnist`, or set TESSERA_DATA_DIR to "
            "their directory, or use --data synthetic");
    ReadPool pool{{.examples = io::load_fashion_mnist(*directory), .train_size = io::fashion_mnist_train_size}};
    pool.classes = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
    return pool;
}

ReadPool read_cifar_ten(const Source& source) {
    ReadPool pool{io::read_cifar(io::Cifar::ten, source.paths(1)[0])};
    pool.classes = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
    return pool;
}

char separator_in(const Source& source, const std::string& text) {
    if (text == "tab" || text == "\\t") return '\t';
    const bool one = text.size() == 1 && static_cast<unsigned char>(text[0]) < 128 && text[0] != '"' && text[0] != '\n';
    if (!one) source.refuse("separator is one character, or tab, not '" + text + "'");
    return text[0];
}

// Of a file that may be gzipped.
std::string table_in(const std::string& path) {
    const auto bytes = io::read_file(path);
    const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
    if (bytes.size() < 2 || first[0] != 0x1F || first[1] != 0x8B)
        return {reinterpret_cast<const char*>(first), bytes.size()};
    constexpr std::size_t ratio = 1000, slack = std::size_t{1} << 16;  // more than text is ever packed by
    const auto text =
        io::decode_gzip({first, bytes.size()}, path, std::min(io::file_cap, bytes.size() * ratio + slack));
    return {reinterpret_cast<const char*>(text.data()), text.size()};
}

enum class Filling : std::uint8_t { refuse, drop, mean };
constexpr std::array<std::string_view, 3> words_of(Filling) { return {"refuse", "drop", "mean"}; }
enum class Header : std::uint8_t { first, none };
constexpr std::array<std::string_view, 2> words_of(Header) { return {"first", "none"}; }

ReadPool read_csv(Source& source) {
    constexpr std::size_t most_words = 64;  // of a column that becomes features without being named
    io::CsvSettings settings{.label = source.take("label"), .client = source.take("client")};
    const auto columns = [&](const std::string& name, std::vector<std::string>& into) {
        if (const auto text = source.take(name); !text.empty())
            tessera::detail::for_each_piece(text, '+', [&](std::string_view column) { into.emplace_back(column); });
    };
    columns("target", settings.targets);
    if (settings.label.empty() && settings.targets.empty())
        source.refuse("label=COLUMN must say which column is the class, or target=COLUMN which is a real target");
    if (!settings.label.empty() && !settings.targets.empty())
        source.refuse("label=COLUMN is a class and target=COLUMN a real target; a table has the one or the other");
    columns("ignore", settings.ignore);
    columns("one_hot", settings.one_hot);
    const bool separated = source.has("separator");
    const auto separator = source.take("separator");
    const auto filling = source.word("missing", Filling::refuse);
    settings.header = source.word("header", Header::first) == Header::first;
    settings.skip = source.count("skip", 0);
    source.finish();
    settings.separator = separated ? separator_in(source, separator) : '\0';
    settings.words = most_words;
    settings.missing = filling == Filling::drop   ? io::Missing::drop
                       : filling == Filling::mean ? io::Missing::keep
                                                  : io::Missing::refuse;
    const auto& paths = source.paths(1, "one path is");
    std::vector<std::string> texts;
    for (const auto& path : paths) texts.push_back(table_in(path));
    std::vector<io::CsvPart> parts;
    for (std::size_t i = 0; i < paths.size(); ++i) parts.push_back({texts[i], paths[i]});
    const auto read = [&] {
        try {
            return io::decode_csv(parts, settings);
        } catch (const tessera::IoError& e) {
            const std::string what = e.what();
            if (filling != Filling::refuse || what.find("the value is missing") == what.npos) throw;
            throw ConfigError(
                what + "; missing=drop leaves such lines out, missing=mean fills them with the mean of their column");
        }
    };
    auto table = read();
    ReadPool pool{std::move(table.pool)};
    pool.classes = std::move(table.classes);
    pool.features = std::move(table.features);
    pool.holes = table.holes > 0;
    const auto remark = [&](const std::string& what) { pool.remarks.append("; ").append(what); };
    if (!table.worded.empty()) {
        std::string names;
        for (std::size_t c = 0; c < table.worded.size(); ++c) {
            names.append(names.empty() ? "" : ", ").append(table.worded[c]);
            if (const auto numbers = table.numbers_among[c]; numbers > 0)
                names += " (" + std::to_string(numbers) + " of its values are numbers)";
        }
        remark("columns of words, a feature for each word: " + names);
    }
    if (table.named_lines) remark("the first column has no name and is not read");
    if (table.dropped > 0) remark(std::to_string(table.dropped) + " lines with a missing value left out");
    if (table.holes > 0) remark(std::to_string(table.holes) + " missing values filled with means of training data");
    return pool;
}

// A window and the token behind it, or rows with a label at every position.
enum class Encoding : std::uint8_t { one_hot, ids, sequences };
constexpr std::array<std::string_view, 3> words_of(Encoding) { return {"one-hot", "ids", "sequences"}; }

struct TextForm {
    io::TextSettings text;
    Encoding as;
    std::size_t window;
    std::string saved;  // where the vocabulary is, or will be

    TextForm(Source& source, std::size_t usual_window, Encoding usual = Encoding::one_hot)
        : text{.unit = unit_in(source), .most = source.count("most", 10000)},
          as(usual == Encoding::sequences ? usual : source.word("as", usual)),
          window(source.count("window", usual_window)),
          saved(source.take("vocabulary")) {}
    static io::TextUnit unit_in(Source& source) {
        const auto said = source.take("unit", "characters");
        auto unit = io::TextUnit::characters;
        const auto meant = said == "char" ? "characters" : said == "word" ? "words" : said;
        tessera::detail::read_text("--data, unit", meant, unit);
        return unit;
    }
    // That of another run, or the one that make() gives, which is kept for others.
    template <class F>
    io::Vocabulary vocabulary(const F& make) const {
        if (!saved.empty() && io::exists(saved)) return io::read_vocabulary(saved);
        auto fresh = make();
        if (!saved.empty() && speaks()) io::write_vocabulary(saved, fresh);
        return fresh;
    }
    static std::shared_ptr<const io::Vocabulary> kept(const io::Vocabulary& words) {
        return std::make_shared<const io::Vocabulary>(words);
    }
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
    for (const auto* name : {"window", "unit", "most", "as", "vocabulary"})
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
    const auto vocabulary = form.vocabulary([&] { return io::leaf_vocabulary(files.train, form.text); });
    const auto told = [&](ReadPool pool) {
        pool.left_out = std::move(dropped);
        pool.vocabulary = TextForm::kept(vocabulary);
        return pool;
    };
    if (form.as == Encoding::sequences)
        return told({io::leaf_sequences(files, vocabulary, form.window, path), true});
    files = io::as_numbers(std::move(files), vocabulary, form.window, path);
    return told({form.encoded(io::leaf_pool(files.train, files.test, path, vocabulary.size()), vocabulary.size()), true});
}

// Rows of what clients said, one thing after the other; the last part of each is tested on.
struct Rows {
    double share;
    std::size_t least;

    explicit Rows(Source& source) : share(source.number("share", 0.9)), least(source.count("least", 2)) {}
    ReadPool operator()(const std::vector<io::ClientText>& read, const TextForm& form) const {
        auto clients = io::joined(read);
        const auto too_short = [&](const io::ClientText& client) {
            std::size_t tokens = 0;
            for (const auto& text : client.texts)
                io::for_each_token(text, form.text.unit, [&](std::string_view) { ++tokens; });
            return tokens < least;
        };
        std::erase_if(clients, too_short);
        const auto halves = io::split_by_time(clients, share, form.text.unit);
        const auto vocabulary = form.vocabulary([&] { return io::vocabulary_of(halves.train, form.text); });
        ReadPool pool{io::sequence_pool(halves, vocabulary, {.length = form.window}), true};
        pool.vocabulary = TextForm::kept(vocabulary);
        for (const auto& each : read)
            if (!std::ranges::binary_search(pool.clients, each.client)) pool.left_out.push_back(each.client);
        return pool;
    }
};

// A file of texts with their owners.
ReadPool read_texts(Source& source) {
    if (source.kind() == "json") {
        const io::ClientJsonSettings settings{source.take("text")};
        const TextForm form(source, 80, Encoding::sequences);
        const Rows rows(source);
        source.finish();
        return rows(io::read_client_json(source.paths(1)[0], settings), form);
    }
    const auto client = source.take("client", "client"), text = source.take("text", "text");
    const TextForm form(source, 80, Encoding::sequences);
    const Rows rows(source);
    source.finish();
    const auto& path = source.paths(1)[0];
    if (source.kind() == "jsonl") return rows(io::read_text_json(path, {client, text}), form);
    const auto numbered = [](const std::string& name) {
        return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    };
    const char separator = source.kind() == "csv" ? ',' : '\t';
    return rows(io::read_text_table(path, {client, text, !(numbered(client) && numbered(text)), separator}), form);
}

ReadPool read_text(Source& source) {
    const bool rows = source.asks("as", "sequences");
    const TextForm form(source, rows ? 80 : 8);
    if (rows) {
        const Rows cut(source);
        source.finish();
        return cut(io::read_client_texts(source.paths(1)[0]), form);
    }
    const io::WindowSettings windows{.length = form.window, .stride = source.count("stride", 1)};
    source.finish();
    const auto clients = io::read_client_texts(source.paths(1)[0]);
    const auto vocabulary = form.vocabulary([&] { return io::vocabulary_of(clients, form.text); });
    ReadPool pool{form.encoded(io::text_pool(clients, vocabulary, windows), vocabulary.size()), true};
    pool.vocabulary = TextForm::kept(vocabulary);
    for (const auto& each : clients)
        if (!std::ranges::binary_search(pool.clients, each.client)) pool.left_out.push_back(each.client);
    return pool;
}

ReadPool read_pool(const std::string& data, const std::string& flag) {
    Source source(data, flag);
    check_kind(source);
    if (source.kind() == "tsv" || source.kind() == "jsonl" || source.kind() == "json" ||
        (source.kind() == "csv" && source.has("text")))
        return read_texts(source);
    if (source.kind() == "csv") return read_csv(source);
    if (source.kind() == "leaf") return read_leaf(source);
    if (source.kind() == "text") return read_text(source);
    if (source.kind() == "idx") return read_idx(source);
    if (source.kind() == "npy") return read_npy(source);
    source.finish();
    if (data == "fashion-mnist") return read_fashion_mnist(source);
    if (source.kind() == "cifar10") return read_cifar_ten(source);
    if (source.kind() == "cifar100") return {io::read_cifar(io::Cifar::hundred_fine, source.paths(1)[0])};
    if (source.kind() == "cifar100-coarse") return {io::read_cifar(io::Cifar::hundred_coarse, source.paths(1)[0])};
    source.refuse("there is no such data; did you mean " + source.kind() + "?");
}

}  // namespace

bool comes_with_clients(const std::string& data) {
    const Source source(data);
    const bool may_name = source.kind() == "csv" || source.kind() == "idx" || source.kind() == "npy";
    return source.kind() == "leaf" || source.kind() == "text" || source.kind() == "tsv" || source.kind() == "jsonl" ||
           source.kind() == "json" || (may_name && source.has("client"));
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

const ReadPool& pool_of(const std::string& data, std::string_view flag) {
    static std::map<std::string, ReadPool> read;
    const auto at = read.find(data);
    return at != read.end() ? at->second : read.emplace(data, read_pool(data, std::string(flag))).first->second;
}

}  // namespace lab
