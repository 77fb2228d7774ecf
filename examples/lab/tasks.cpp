// SPDX-License-Identifier: BSD-3-Clause
#include "tasks.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <tessera/core/by_name.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>
#include <tessera/data/missing.hpp>
#include <tessera/data/normalise.hpp>
#include <tessera/data/partition.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/data/transform.hpp>
#include <tessera/io/split_file.hpp>

#include "counts.hpp"
#include "nearest.hpp"
#include "ranks.hpp"
#include "stages.hpp"

namespace lab {

namespace {

using tessera::ConfigError;

std::pair<std::string, std::string> two_parts(const std::string& flag, std::string_view text) {
    const auto comma = text.find(',');
    if (comma == std::string_view::npos || comma == 0 || comma + 1 == text.size())
        throw ConfigError(flag + ": two parts with a comma between them are needed after the colon, not '" +
                          std::string(text) + "'");
    return {std::string(text.substr(0, comma)), std::string(text.substr(comma + 1))};
}

double number(const std::string& flag, const std::string& text) {
    double value = 0;
    tessera::detail::read_text(flag, text, value);
    return value;
}

bool are_bytes(const tessera::data::Dataset& examples) {
    return examples.examples().storage == tessera::Storage::bytes;
}

// Pixels are all of one kind. Columns of numbers have units of their own; the examples `over` say how far they reach.
tessera::data::Dataset normalised(const tessera::data::Dataset& examples, const std::string& how,
                                  const std::vector<tessera::Index>& over, Reading& reading) {
    using namespace tessera::data;
    if (how == "each") return standardised_each(examples);
    if (how == "standard" && !are_bytes(examples)) {
        auto by = feature_scale(examples, over);
        reading = {by.shift, by.scale};
        return standardised_by_feature(examples, std::move(by));
    }
    if (how != "standard" && how != "unit") return examples;
    const auto pixels = how == "unit" ? scaled_to_unit(examples) : standardised(examples, over);
    reading = {{pixels.examples().shift}, {pixels.examples().scale}};
    return pixels;
}

std::vector<tessera::Index> trained_on(const tessera::data::Split& split) {
    std::vector<tessera::Index> all;
    for (const auto& share : split.clients) all.insert(all.end(), share.train.begin(), share.train.end());
    return all;
}

constexpr std::string_view held_out = "held-out:", noise = "noise:";

constexpr std::size_t most_numbers = std::size_t{1} << 31;  // 8 GiB: of one set of made-up examples

// What a split file says of how it was dealt.
constexpr const char *note_partition = "partition", *note_split_seed = "split_seed", *note_validation = "validation";

template <class T>
std::string shown(const T& value) {
    return tessera::detail::text_of(value);
}

// The part of --partition that deals examples; what follows changes how they look.
std::string dealing_in(const std::string& partition) { return partition.substr(0, partition.find('+')); }

// dirichlet:0.50 is dirichlet:0.5.
bool same_dealing(const std::string& one, const std::string& other) {
    const auto number = [](const std::string& name) -> std::optional<double> {
        const auto colon = name.find(':');
        if (colon == name.npos) return std::nullopt;
        double value = 0;
        const char* end = name.data() + name.size();
        const auto read = std::from_chars(name.data() + colon + 1, end, value);
        return read.ec == std::errc{} && read.ptr == end ? std::optional(value) : std::nullopt;
    };
    const bool same_kind = one.substr(0, one.find(':')) == other.substr(0, other.find(':'));
    return one == other || (same_kind && number(one) && number(one) == number(other));
}

// For each client the owner of what it holds.
std::vector<std::string> owners_in(const tessera::data::Split& split, const tessera::data::Pool& pool) {
    std::vector<std::string> names;
    for (const auto& share : split.clients)
        names.push_back(pool.clients[pool.client_of[(share.train.empty() ? share.test : share.train).at(0)]]);
    return names;
}

// Of files that bring no test part six sevenths train, as in Fashion-MNIST. Files are often sorted, by class or by
// time, so the split seed draws who is tested on.
struct DrawnTests {
    std::vector<tessera::Index> order;  // training examples, then test examples, each as the file has them
    std::size_t train_size;

    DrawnTests(std::size_t size, std::uint64_t seed) : order(size), train_size(size * 6 / 7) {
        constexpr std::uint64_t role = 0x7465737473;  // no partitioner's draw
        std::iota(order.begin(), order.end(), tessera::Index{0});
        tessera::Stream(tessera::Key{seed}(tessera::purpose::partition)(role)).shuffle(std::span(order));
        const auto tests = order.begin() + static_cast<std::ptrdiff_t>(train_size);
        std::sort(order.begin(), tests);
        std::sort(tests, order.end());
    }
    // The same labels in this order; partitioners read nothing else.
    tessera::data::Dataset reordered(const tessera::data::Dataset& examples) const {
        if (!examples.examples().one_label())  // then none is read
            return tessera::data::Dataset::regression(std::vector<float>(order.size()),
                                                      std::vector<double>(order.size()));
        std::vector<std::int32_t> labels;
        for (const auto i : order) labels.push_back(examples.examples().labels[i]);
        return tessera::data::Dataset::own(std::vector<float>(order.size()), std::move(labels),
                                           examples.examples().classes);
    }
    void restore(tessera::data::Split& split) const {
        const auto numbered = [&](std::vector<tessera::Index>& part) {
            for (auto& i : part) i = order[i];
        };
        numbered(split.server);
        for (auto* shares : {&split.clients, &split.unseen})
            for (auto& share : *shares)
                for (auto* part : {&share.train, &share.validation, &share.test}) numbered(*part);
    }
};

tessera::data::Split deal(const Options& o, const tessera::data::Pool& pool, bool natural) {
    using tessera::data::partition_by_name;
    tessera::data::PartitionSettings settings{.clients = *o.clients,
                                              .seed = *o.split_seed,
                                              .train_size = pool.train_size,
                                              .validation = *o.validation,
                                              .unseen = *o.unseen,
                                              .allow_empty = true,  // refuse_empty has the lab's own sentence
                                              .client_of = pool.client_of};
    if (natural || pool.train_size > 0) return partition_by_name(*o.partition, pool.examples, settings);
    const DrawnTests tests(pool.examples.size(), *o.split_seed);
    settings.train_size = tests.train_size;
    auto split = partition_by_name(*o.partition, tests.reordered(pool.examples), settings);
    tests.restore(split);
    return split;
}

[[noreturn]] void refuse_empty(const Options& o) {
    throw ConfigError("--clients " + std::to_string(*o.clients) + ", --partition " + *o.partition +
                      ": a client gets no example to train on; use fewer --clients, or deal by another --partition");
}
void refuse_empty(const tessera::data::Split& split, const Options& o) {
    for (const auto* shares : {&split.clients, &split.unseen})
        for (const auto& share : *shares)
            if (share.train.empty()) refuse_empty(o);
}

tessera::data::FederatedDataset make_synthetic(const Options& o) {
    using namespace tessera::data;
    if (*o.partition != "natural")
        throw ConfigError("--partition " + *o.partition +
                          ": synthetic clients come with their own data; use natural");
    SyntheticSettings s{.alpha = 0.5,
                        .beta = 0.5,
                        .clients = *o.clients,
                        .seed = *o.split_seed,
                        .max_examples = 2000,
                        .validation = *o.validation,
                        .unseen = *o.unseen};
    if (const auto colon = o.data->find(':'); colon != std::string::npos) {
        const auto [alpha, beta] = two_parts("--data synthetic", std::string_view(*o.data).substr(colon + 1));
        s.alpha = number("--data synthetic, ALPHA", alpha);
        s.beta = number("--data synthetic, BETA", beta);
    } else if (*o.data != "synthetic") {
        throw ConfigError("--data " + *o.data + ": write synthetic or synthetic:ALPHA,BETA");
    }
    try {
        return synthetic(s);
    } catch (const ConfigError& e) {
        constexpr std::string_view library = "data::synthetic: ";
        const std::string what = e.what();
        throw ConfigError("--data " + *o.data + ": " +
                          what.substr(what.starts_with(library) ? library.size() : 0));
    }
}

}  // namespace

void settle_normalisation(Options& o) {
    const bool synthetic = o.data->starts_with("synthetic");
    const bool tokens = !synthetic && pool_of(*o.data).tokens;
    if (tokens && o.normalise.value_or("none") != "none")
        throw ConfigError("--normalise " + *o.normalise + ": the numbers of texts name characters or words; use none");
    if (tokens) o.normalise = "none";
    const bool bytes = !synthetic && !tokens && are_bytes(pool_of(*o.data).examples);
    const bool hides = hides_examples(o);
    if (!o.normalise && hides) o.normalise = bytes ? "unit" : "none";
    if (!o.normalise) o.normalise = bytes || o.data->starts_with("csv:") ? "standard" : "none";
    if (hides && !bytes && *o.normalise == "standard")
        throw ConfigError("--normalise standard: it takes the mean and deviation of every column from everybody's "
                          "examples without noise, and no epsilon covers that; scale the columns by what is public "
                          "before, and use none");
    if (*o.normalise == "unit" && !bytes)
        throw ConfigError("--normalise unit: it divides bytes by 255, and " + *o.data +
                          " holds other numbers; use standard, each or none");
}

void adopt_split_file(Options& o, const std::string& data) {
    if (o.split_file.empty()) return;
    if (data.starts_with("synthetic"))
        throw ConfigError("--split-file " + o.split_file + ": synthetic clients come with their own data");
    if (!tessera::io::exists(o.split_file)) return;
    const auto head = tessera::io::read_split_head(o.split_file);
    const auto refuse = [&](const std::string& flag, const std::string& dealt, const std::string& asked) {
        throw ConfigError("--split-file " + o.split_file + ": it was dealt with " + flag + " " + dealt + ", not " +
                          asked + "; leave " + flag + " out, or name another file");
    };
    const auto adopt = [&]<class T>(const std::string& flag, std::optional<T>& option, const T& dealt) {
        if (option && *option != dealt) refuse(flag, shown(dealt), shown(*option));
        option = dealt;
    };
    const auto adopt_partition = [&](const std::string& dealt) {
        const std::string asked = o.partition.value_or(dealt), dealing = dealing_in(asked);
        if (!same_dealing(dealing, dealt)) refuse("--partition", dealt, dealing);
        o.partition = dealt + asked.substr(dealing.size());
    };
    const auto noted = [&](const std::string& note) -> std::optional<std::string> {
        const auto found = std::ranges::find(head.notes, note, &tessera::io::SplitNotes::value_type::first);
        if (found == head.notes.end()) o.split_unexplained = true;
        return found == head.notes.end() ? std::nullopt : std::optional(found->second);
    };
    const auto adopt_note = [&]<class T>(const std::string& note, const std::string& flag, std::optional<T>& option) {
        T dealt{};
        const auto text = noted(note);
        if (!text) return;
        tessera::detail::read_text("--split-file " + o.split_file + ", " + note, *text, dealt);
        adopt(flag, option, dealt);
    };
    adopt("--clients", o.clients, static_cast<std::size_t>(head.clients + head.unseen));
    adopt("--unseen", o.unseen, static_cast<std::size_t>(head.unseen));
    if (const auto dealt = noted(note_partition)) adopt_partition(*dealt);
    else if (o.partition)
        throw ConfigError("--partition " + *o.partition + ": --split-file " + o.split_file +
                          " is there and does not say how it was dealt; leave --partition out, or name another file");
    adopt_note(note_split_seed, "--split-seed", o.split_seed);
    adopt_note(note_validation, "--validation", o.validation);
}

std::string look_in(const std::string& partition) { return partition.substr(dealing_in(partition).size()); }

Clients make_clients(const Options& o) {
    using namespace tessera::data;
    if (o.data->starts_with("synthetic")) {
        const auto clients = make_synthetic(o);
        Reading reading;
        auto pool = normalised(clients.pool(), *o.normalise, trained_on(clients.split()), reading);
        return {{std::move(pool), clients.split()}, {}, clients.pool(), std::move(reading)};
    }
    const auto& pool = pool_of(*o.data);
    if (const auto& e = pool.examples.examples(); e.labels && e.classes == 1)
        throw ConfigError("--data " + *o.data + ": all labels are the same" +
                          (pool.classes.empty() ? "" : ", '" + pool.classes[0] + "'") +
                          "; a model that tells classes apart needs two");
    const bool natural = !o.split_unexplained && dealing_in(*o.partition) == "natural";
    if (natural && pool.clients.empty())
        throw ConfigError("--partition " + *o.partition + ": " + *o.data + " does not come with clients of its own");
    if (natural && *o.clients != pool.clients.size())
        throw ConfigError("--clients " + std::to_string(*o.clients) + ": " + *o.data + " comes with " +
                          std::to_string(pool.clients.size()) + " clients; leave --clients out, or deal the examples "
                          "by another --partition");
    const auto& examples = pool.examples;
    const auto dealt = [&] {
        if (!o.split_file.empty() && tessera::io::exists(o.split_file))
            return tessera::io::read_split(o.split_file, examples);
        if (*o.clients > examples.size()) refuse_empty(o);  // before a place is made for each
        auto split = deal(o, pool, natural);
        refuse_empty(split, o);
        if (!o.split_file.empty() && speaks())
            tessera::io::write_split(o.split_file, split, examples,
                                     {{note_partition, dealing_in(*o.partition)},
                                      {note_split_seed, shown(*o.split_seed)},
                                      {note_validation, shown(*o.validation)}});
        return split;
    };
    auto split = dealt();
    const auto over = trained_on(split);
    Reading reading;
    auto as_read = normalised(pool.holes ? filled_by_mean(examples, over) : examples, *o.normalise, over, reading);
    if (examples.examples().targets && *o.normalise == "standard") {
        auto by = target_scale(examples, over);
        as_read = standardised_targets(as_read, by);
        reading.target_shift = std::move(by.shift), reading.target_scale = std::move(by.scale);
    }
    auto names = natural ? owners_in(split, pool) : std::vector<std::string>{};
    return {seen_by_name(*o.partition, {std::move(as_read), std::move(split)}), std::move(names), examples,
            std::move(reading)};
}

std::vector<std::string> class_names_of(const Options& o) {
    return o.data->starts_with("synthetic") ? std::vector<std::string>{} : pool_of(*o.data).classes;
}

namespace {

// Steps of the usual rates are made for targets about 1.
std::string targets_in_words(const Clients& clients) {
    constexpr double large = 10;
    if (!clients.reading.target_shift.empty()) return "; targets less their mean, through their deviation";
    const auto& e = clients.data.pool().examples();
    double most = 0;
    for (const auto i : trained_on(clients.data.split()))
        for (std::size_t j = 0; j < e.targets_each; ++j) most = std::max(most, std::abs(e.targets[i * e.targets_each + j]));
    char text[96];
    std::snprintf(text, sizeof text, "; targets reach %.3g and are not scaled, which --normalise standard does", most);
    return most > large ? text : "";
}

}  // namespace

std::string data_in_words(const Options& o, const Clients& clients) {
    const auto& examples = clients.data.pool().examples();
    std::size_t train = 0, test = 0, validation = 0;
    for (std::size_t k = 0; k < clients.data.size(); ++k) {
        train += clients.data[k].train.size();
        test += clients.data[k].test.size();
        validation += clients.data[k].validation.size();
    }
    // Label-matched test sets may share examples: their sizes then add up to more than there are.
    std::vector<bool> met(examples.size);
    for (std::size_t k = 0; k < clients.data.size(); ++k)
        for (const auto i : clients.data[k].test) met[i] = true;
    const auto different = static_cast<std::size_t>(std::ranges::count(met, true));
    const auto count = [](std::size_t n, const char* one, const char* several) {
        return std::to_string(n) + " " + (n == 1 ? one : several);
    };
    std::string text = *o.data + ": " + count(clients.as_read.size(), "example", "examples") + " (" +
                       std::to_string(train) + " train, " +
                       (validation > 0 ? std::to_string(validation) + " validation, " : "") + std::to_string(test) +
                       " test" + (different < test ? " of " + std::to_string(different) + " different examples" : "") +
                       "), " + count(examples.width, "feature", "features") + ", " +
                       (examples.targets ? count(examples.targets_each, "real target", "real targets")
                                         : count(examples.classes, "class", "classes"));
    constexpr std::size_t told = 10;
    if (const auto names = class_names_of(o); !names.empty()) {
        text += " (";
        for (std::size_t c = 0; c < std::min(told, names.size()); ++c) text += (c > 0 ? ", " : "") + names[c];
        text += names.size() > told ? ", ...)" : ")";
    }
    text += ", " + count(clients.data.size(), "client", "clients");
    if (!o.data->starts_with("synthetic")) text += pool_of(*o.data).remarks;
    if (examples.targets) text += targets_in_words(clients);
    return text;
}

tessera::data::FederatedDataset less_held_out(tessera::data::FederatedDataset clients, const Options& o) {
    if (!o.aux || !o.aux->starts_with(held_out)) return clients;
    const double share = number("--aux held-out", o.aux->substr(held_out.size()));
    if (!(share > 0 && share < 1))
        throw ConfigError("--aux held-out: the share must lie in (0, 1), not " + std::to_string(share));
    auto split = clients.split();
    for (auto& client : split.clients) {
        tessera::Stream(tessera::Key{*o.split_seed}(tessera::purpose::partition)(client.key))
            .shuffle(std::span<tessera::Index>(client.train));
        const std::size_t all = client.train.size();
        const std::size_t kept = all - static_cast<std::size_t>(share * static_cast<double>(all));
        split.server.insert(split.server.end(), client.train.begin() + static_cast<std::ptrdiff_t>(kept),
                            client.train.end());
        client.train.resize(kept);
    }
    return {clients.pool(), std::move(split)};
}

tessera::data::FederatedDataset augmented(tessera::data::FederatedDataset clients, const Options& o) {
    if (o.augment.empty()) return clients;
    const std::size_t width = clients.pool().examples().width;
    tessera::data::Augment how{
        .shape = tessera::data::square_images(width), .flip = false, .padding = 0, .seed = *o.split_seed};
    if (how.shape.size() == 0)
        throw ConfigError("--augment needs square images of one or three channels; the data has " +
                          std::to_string(width) + " features");
    for (const auto& word : o.augment) {
        const auto colon = word.find(':');
        const auto count = count_in(colon == word.npos ? "" : std::string_view(word).substr(colon + 1));
        if (word == "flip") how.flip = true;
        else if (count && *count > 0 && word.starts_with("crop:")) how.padding = *count;
        else if (count && *count > 0 && word.starts_with("copies:")) how.copies = *count;
        else
            throw ConfigError("--augment " + word + ": write flip, crop:PIXELS and copies:COUNT, joined by commas");
    }
    if (!how.flip && how.padding == 0)
        throw ConfigError("--augment: copies need flip or crop:PIXELS to be different from what is copied");
    if (how.padding >= how.shape.width)
        throw ConfigError("--augment crop:" + std::to_string(how.padding) + " moves images of " +
                          std::to_string(how.shape.width) + " pixels a side away");
    // Each has a label and a number in its client's list.
    constexpr std::size_t most_examples = std::size_t{1} << 29;
    if (const auto most = std::max<std::size_t>(1, most_examples / clients.pool().size()) - 1; how.copies > most)
        throw ConfigError("--augment copies:" + std::to_string(how.copies) +
                          ": originals and copies are at most 2^29, whose labels and numbers fill 4 GiB; of " +
                          std::to_string(clients.pool().size()) + " examples there are at most " +
                          std::to_string(most) + " copies each");
    return how(clients);
}

std::shared_ptr<const PublicData> make_public_data(const Options& o, const tessera::Examples& like,
                                                   const Reading& reading) {
    if (!o.aux || o.aux->starts_with(held_out)) return nullptr;
    const auto all_of = [](tessera::data::Dataset examples) {
        std::vector<tessera::Index> ids(examples.size());
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<tessera::Index>(i);
        return std::make_shared<const PublicData>(PublicData{std::move(examples), std::move(ids)});
    };
    if (o.aux->starts_with(noise)) {  // standard normal, as normalised inputs nearly are
        const double count = number("--aux noise", o.aux->substr(noise.size()));
        if (!(count >= 1 && count <= 1e6))
            throw ConfigError("--aux noise: the count must lie in 1 .. 1000000, not " + std::to_string(count));
        const auto n = static_cast<std::size_t>(count);
        if (n > most_numbers / like.width)
            throw ConfigError("--aux noise: " + std::to_string(n) + " examples of " + std::to_string(like.width) +
                              " features are more than the 2^31 numbers that are allowed");
        tessera::Stream draw(tessera::Key{*o.split_seed}(tessera::purpose::synthetic));
        std::vector<float> rows(n * like.width);
        for (float& each : rows) each = static_cast<float>(draw.normal());
        return all_of(tessera::data::Dataset::own(std::move(rows), std::vector<std::int32_t>(n), like.classes));
    }
    const auto kind = o.aux->substr(0, o.aux->find(':'));
    constexpr std::array<std::string_view, 7> tables{"idx", "npy", "csv", "cifar10", "cifar100", "cifar100-coarse",
                                                     "fashion-mnist"};
    if (std::ranges::find(tables, kind) == tables.end())
        throw ConfigError("--aux " + *o.aux +
                          ": write held-out:SHARE, noise:COUNT, or data as --data has them: idx:IMAGES,LABELS, "
                          "npy:FEATURES,LABELS, csv:FILE,label=COLUMN, cifar10:DIR, cifar100:DIR, fashion-mnist");
    const auto& examples = pool_of(*o.aux, "--aux").examples;
    if (examples.examples().width != like.width)
        throw ConfigError("--aux " + *o.aux + ": it has " + std::to_string(examples.examples().width) +
                          " features, the clients' data " + std::to_string(like.width));
    if (*o.normalise == "unit" && !are_bytes(examples))
        throw ConfigError("--normalise unit: it divides bytes by 255, and --aux " + *o.aux + " holds other numbers");
    if (*o.normalise == "standard" && are_bytes(examples) && !o.data->starts_with("synthetic") &&
        are_bytes(pool_of(*o.data).examples))  // one reading for both
        return all_of(examples.normalised(reading.shift.at(0), reading.scale.at(0)));
    Reading of_its_own;
    return all_of(normalised(examples, *o.normalise, all_of(examples)->ids, of_its_own));
}

}  // namespace lab
