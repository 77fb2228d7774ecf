// SPDX-License-Identifier: BSD-3-Clause
// LEAF (Caldas et al., 2018): examples with their owners, as JSON.
//
//   {"users": [name, ...], "num_samples": [n, ...], "user_data": {name: {"x": [row, ...], "y": [label, ...]}}}
//
// A row is a list of numbers, or a text (Shakespeare: x are 80 characters, y is the one that follows; other sets have
// in y as many words as in x, or no y at all where x are whole texts); all rows of all files are of one kind and width.
// Other members, such as "hierarchies", are passed over. Files are read as they stream, never as a tree, so memory is
// what the rows take. Refused with the user's name: a user in two files or twice in one, one that is in only one of the
// lists, and any disagreement of num_samples, x and y.
// Needs: nlohmann/json (component `json`).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/data/dataset.hpp>
#include <tessera/data/pool.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/labels.hpp>
#include <tessera/io/sequences.hpp>
#include <tessera/io/tensor.hpp>
#include <tessera/io/text.hpp>

namespace tessera::io {

// One user's examples: rows of numbers with labels, or texts with their answers.
struct LeafUser {
    std::vector<float> numbers{};
    std::vector<std::string> texts{};
    std::vector<std::int32_t> labels{};
    std::vector<std::string> answers{};
    std::size_t width = 0;  // of a row of numbers

    std::size_t rows() const { return !texts.empty() ? texts.size() : width > 0 ? numbers.size() / width : 0; }
    std::size_t ends() const { return std::max(labels.size(), answers.size()); }

    friend bool operator==(const LeafUser&, const LeafUser&) = default;
};
using LeafUsers = std::map<std::string, LeafUser>;  // sorted by name

namespace detail {

// Takes the events of the JSON parser and keeps what belongs to the format.
class LeafEvents {
public:
    LeafEvents(const std::string& path, LeafUsers& out) : path_(path), out_(out) {}

    // The parser's interface. true: go on.
    bool null() { return value("null"); }
    bool boolean(bool) { return value("a truth value"); }
    bool number_integer(std::int64_t n) { return number(static_cast<double>(n)); }
    bool number_unsigned(std::uint64_t n) { return number(static_cast<double>(n)); }
    bool number_float(double n, const std::string&) { return number(n); }
    bool binary(nlohmann::json::binary_t&) { return value("binary data"); }

    bool string(std::string& text) {
        switch (place_) {
            case Place::users: users_.push_back(std::move(text)); return true;
            case Place::xs: return keep_text(user_->texts, user_->numbers.empty(), text);
            case Place::ys: return keep_text(user_->answers, user_->labels.empty(), text);
            default: return value("a text");
        }
    }
    bool start_object(std::size_t) {
        switch (place_) {
            case Place::start: return go(Place::root);
            case Place::people_next: return go(Place::people);
            case Place::person_next: return go(Place::person);
            default: return skip_into("an object");
        }
    }
    bool key(std::string& name) {
        if (depth_ > 0) return true;
        if (place_ == Place::root) {
            if (name == "users") once(has_users_, name), place_ = Place::users_next;
            else if (name == "num_samples") once(has_counts_, name), place_ = Place::counts_next;
            else if (name == "user_data") once(has_people_, name), place_ = Place::people_next;
            else place_ = Place::other_of_root;
        } else if (place_ == Place::people) {
            const auto [at, fresh] = out_.try_emplace(name);
            if (!fresh) refuse("user " + in_quotes(name) + " is there twice");
            name_ = name;
            user_ = &at->second;
            has_x_ = has_y_ = false;
            place_ = Place::person_next;
        } else {
            if (name == "x") once(has_x_, name), place_ = Place::xs_next;
            else if (name == "y") once(has_y_, name), place_ = Place::ys_next;
            else place_ = Place::other_of_person;
        }
        return true;
    }
    bool end_object() {
        if (depth_ > 0) return leave_skipped();
        switch (place_) {
            case Place::person: mine_.push_back(std::move(name_)); return go(Place::people);
            case Place::people: return go(Place::root);
            default: return go(Place::end);
        }
    }
    bool start_array(std::size_t) {
        switch (place_) {
            case Place::users_next: return go(Place::users);
            case Place::counts_next: return go(Place::counts);
            case Place::xs_next: return go(Place::xs);
            case Place::ys_next: return go(Place::ys);
            case Place::xs:
                if (!user_->texts.empty()) refuse(whose() + "has texts and numbers as x");
                row_began_ = user_->numbers.size();
                return go(Place::row);
            default: return skip_into("a list");
        }
    }
    bool end_array() {
        if (depth_ > 0) return leave_skipped();
        switch (place_) {
            case Place::row: end_row(); return go(Place::xs);
            case Place::xs:
            case Place::ys: return go(Place::person);
            default: return go(Place::root);
        }
    }
    bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
        refuse("is not JSON at byte " + std::to_string(position));
    }

    // When all is read: the three lists agree.
    void finish() {
        if (!has_users_ || !has_counts_ || !has_people_)
            refuse("has no 'users', 'num_samples' or 'user_data', so it is not a LEAF file");
        if (users_.size() != counts_.size())
            refuse("names " + std::to_string(users_.size()) + " users, but counts the examples of " +
                   std::to_string(counts_.size()));
        std::sort(mine_.begin(), mine_.end());
        for (std::size_t i = 0; i < users_.size(); ++i) {
            name_ = users_[i];
            if (!std::binary_search(mine_.begin(), mine_.end(), name_)) refuse(whose() + "is not in user_data");
            const LeafUser& user = out_.find(name_)->second;
            const bool only_texts = !user.texts.empty() && user.ends() == 0;
            if (counts_[i] != user.rows() || (user.rows() != user.ends() && !only_texts))
                refuse(whose() + "has " + std::to_string(user.rows()) + " examples in x, " +
                       std::to_string(user.ends()) + " in y and " + std::to_string(counts_[i]) + " in num_samples");
        }
        std::sort(users_.begin(), users_.end());
        if (const auto twice = std::adjacent_find(users_.begin(), users_.end()); twice != users_.end())
            refuse("names the user " + in_quotes(*twice) + " twice");
        for (const auto& each : mine_)
            if (!std::binary_search(users_.begin(), users_.end(), each))
                refuse("has data of user " + in_quotes(each) + ", who is not in users");
    }

private:
    enum class Place : std::uint8_t {
        start,
        root,
        users_next,
        users,
        counts_next,
        counts,
        people_next,
        people,
        person_next,
        person,
        xs_next,
        xs,
        row,
        ys_next,
        ys,
        other_of_root,
        other_of_person,
        end
    };

    [[noreturn]] void refuse(const std::string& what) const { throw IoError(path_, what); }
    std::string whose() const { return "user " + in_quotes(name_) + " "; }
    bool go(Place to) {
        place_ = to;
        return true;
    }
    void once(bool& seen, const std::string& member) {
        if (seen) refuse("has two members " + in_quotes(member) + " in one object");
        seen = true;
    }
    bool leave_skipped() {
        if (--depth_ == 0) end_of_other();
        return true;
    }
    void end_of_other() { place_ = place_ == Place::other_of_root ? Place::root : Place::person; }
    bool is_other() const { return place_ == Place::other_of_root || place_ == Place::other_of_person; }
    bool skip_into(std::string_view what) {
        if (!is_other()) misplaced(what);
        ++depth_;
        return true;
    }
    // A value that only members we pass over may have.
    bool value(std::string_view what) {
        if (depth_ > 0) return true;
        if (!is_other()) misplaced(what);
        end_of_other();
        return true;
    }
    [[noreturn]] void misplaced(std::string_view what) const {
        const bool of_user = place_ >= Place::person_next && place_ <= Place::ys;
        refuse((of_user ? whose() : "") + "has " + std::string(what) + " where LEAF has something else");
    }
    bool number(double n) {
        if (place_ == Place::row) {
            if (!(std::abs(n) <= double{std::numeric_limits<float>::max()}))
                refuse(whose() + "has a number that is not finite");
            user_->numbers.push_back(static_cast<float>(n));
        } else if (place_ == Place::ys) {
            if (!user_->answers.empty()) refuse(whose() + "has texts and numbers as y");
            if (!(n >= 0 && n < 2147483647.0) || n != std::floor(n))
                refuse(whose() + "has the label " + std::to_string(n) + ", which is not a class");
            user_->labels.push_back(static_cast<std::int32_t>(n));
        } else if (place_ == Place::counts) {
            if (!(n >= 0 && n <= 9e15) || n != std::floor(n))
                refuse("has " + std::to_string(n) + " in num_samples, which is not a count");
            counts_.push_back(static_cast<std::uint64_t>(n));
        } else {
            return value("a number");
        }
        return true;
    }
    bool keep_text(std::vector<std::string>& to, bool only_texts, std::string& text) {
        if (!only_texts) refuse(whose() + "has texts and numbers in one list");
        to.push_back(std::move(text));
        return true;
    }
    void end_row() {
        const std::size_t width = user_->numbers.size() - row_began_;
        if (width == 0) refuse(whose() + "has an empty row");
        if (user_->width == 0) user_->width = width;
        if (user_->width != width)
            refuse(whose() + "has rows of " + std::to_string(user_->width) + " and of " + std::to_string(width) +
                   " numbers");
    }

    const std::string& path_;
    LeafUsers& out_;
    Place place_ = Place::start;
    std::size_t depth_ = 0;  // inside members that are passed over
    bool has_users_ = false, has_counts_ = false, has_people_ = false, has_x_ = false, has_y_ = false;
    std::vector<std::string> users_, mine_;
    std::vector<std::uint64_t> counts_;
    std::string name_;
    LeafUser* user_ = nullptr;
    std::size_t row_began_ = 0;
};

}  // namespace detail

// The users of one file. `name` is what errors call the text.
inline LeafUsers decode_leaf(std::string_view text, const std::string& name) {
    LeafUsers users;
    detail::LeafEvents events(name, users);
    nlohmann::json::sax_parse(text.begin(), text.end(), &events);
    events.finish();
    return users;
}

// All .json files of a directory, or one file.
inline LeafUsers read_leaf_users(const std::string& path) {
    std::vector<std::string> files{path};
    if (detail::is_directory(path)) {
        files.clear();
        for (const auto& name : list_files(path))
            if (name.ends_with(".json")) files.push_back(path + "/" + name);
        if (files.empty()) throw IoError(path, "holds no .json file");
    }
    LeafUsers users;
    for (const auto& file : files) {
        const auto bytes = read_file(file);
        auto more = decode_leaf({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
        users.merge(more);
        if (!more.empty())
            throw IoError(file, "user " + detail::in_quotes(more.begin()->first) + " is in another file too");
    }
    return users;
}

// Training and test examples of the same users as one pool of numbers. Classes are 0 to the largest label, or `least`.
inline data::Pool leaf_pool(const LeafUsers& train, const LeafUsers& test, const std::string& name,
                            std::size_t least = 1) {
    data::Pool pool;
    std::map<std::string, Id> number;
    for (const auto* file : {&train, &test})
        for (const auto& [user, held] : *file)
            if (held.rows() > 0) number.emplace(user, Id{0});
    for (auto& [user, id] : number) {
        id = static_cast<Id>(pool.clients.size());
        pool.clients.push_back(user);
    }
    std::vector<float> rows;
    std::vector<std::int32_t> labels;
    std::size_t width = 0;
    for (const auto* file : {&train, &test}) {
        for (const auto& [user, held] : *file) {
            if (held.rows() == 0) continue;
            if (held.width == 0 || held.labels.empty())
                throw IoError(name,
                              "user " + detail::in_quotes(user) + " has texts; they are made numbers by as_numbers");
            if (width == 0) width = held.width;
            if (held.width != width)
                throw IoError(name, "user " + detail::in_quotes(user) + " has rows of " + std::to_string(held.width) +
                                        " numbers, others of " + std::to_string(width));
            rows.insert(rows.end(), held.numbers.begin(), held.numbers.end());
            labels.insert(labels.end(), held.labels.begin(), held.labels.end());
            pool.client_of.insert(pool.client_of.end(), held.rows(), number.find(user)->second);
        }
        if (file == &train && !test.empty()) pool.train_size = labels.size();
    }
    if (labels.empty()) throw IoError(name, "holds no example");
    if (!test.empty() && pool.train_size == 0) throw IoError(name, "holds no training example");
    const std::size_t classes = detail::classes_in(labels, name, least);
    pool.examples = data::Dataset::own(std::move(rows), std::move(labels), classes);
    return pool;
}

struct LeafFiles {
    LeafUsers train, test;  // test is empty where the directory holds one kind of file
};

// Examples that are texts, as ids: x fills a window, padded in front, and y is the token that follows.
inline LeafFiles as_numbers(LeafFiles files, const Vocabulary& vocabulary, std::size_t window,
                            const std::string& name) {
    for (auto* file : {&files.train, &files.test})
        for (auto& [user, held] : *file) {
            const auto refuse = [&](const std::string& what) {
                throw IoError(name, "user " + detail::in_quotes(user) + " has " + what);
            };
            if (held.width > 0 || held.texts.size() != held.answers.size()) refuse("no texts in x and y");
            for (std::size_t i = 0; i < held.texts.size(); ++i) {
                const auto x = vocabulary.ids(held.texts[i]), y = vocabulary.ids(held.answers[i]);
                if (x.size() > window)
                    refuse("a text of " + std::to_string(x.size()) + " tokens, but a window holds " +
                           std::to_string(window));
                if (y.size() != 1) refuse("an answer of " + std::to_string(y.size()) + " tokens instead of one");
                held.numbers.insert(held.numbers.end(), window - x.size(), static_cast<float>(Vocabulary::pad));
                for (const auto id : x) held.numbers.push_back(static_cast<float>(id));
                held.labels.push_back(y.front());
            }
            held.width = window;
            held.texts.clear();
            held.answers.clear();
        }
    return files;
}

// Examples that are texts, as rows of words with a label at every position: the next word of x, and behind the last one
// y, if it is one word. Where y has as many words as x, these are the labels. Texts longer than a window are cut.
inline data::Pool leaf_sequences(const LeafFiles& files, const Vocabulary& vocabulary, std::size_t window,
                                 const std::string& name) {
    SequenceSettings{.length = window}.validate();
    data::Pool pool;
    std::map<std::string, Id> number;
    for (const auto* file : {&files.train, &files.test})
        for (const auto& [user, held] : *file)
            if (held.rows() > 0) number.emplace(user, Id{0});
    for (auto& [user, id] : number) {
        id = static_cast<Id>(pool.clients.size());
        pool.clients.push_back(user);
    }
    detail::SequenceRows rows(window);
    for (const auto* file : {&files.train, &files.test}) {
        for (const auto& [user, held] : *file) {
            const auto refuse = [&](const std::string& what) {
                throw IoError(name, "user " + detail::in_quotes(user) + " has " + what);
            };
            if (held.width > 0 || !held.labels.empty()) refuse("numbers in x or y instead of texts");
            for (std::size_t i = 0; i < held.texts.size(); ++i) {
                auto x = vocabulary.ids(held.texts[i]);
                const auto y = i < held.answers.size() ? vocabulary.ids(held.answers[i]) : std::vector<std::int32_t>{};
                const Id client = number.find(user)->second;
                if (y.size() < 2) {
                    x.insert(x.end(), y.begin(), y.end());
                    rows.cut(x, client);
                } else if (y.size() != x.size()) {
                    refuse("an answer of " + std::to_string(y.size()) + " words for a text of " +
                           std::to_string(x.size()));
                } else {
                    const std::span<const std::int32_t> words(x), labels(y);
                    for (std::size_t at = 0; at < x.size(); at += window) {
                        const std::size_t n = std::min(window, x.size() - at);
                        rows.row(words.subspan(at, n), labels.subspan(at, n), client);
                    }
                }
            }
        }
        if (file == &files.train && !files.test.empty()) pool.train_size = rows.size();
    }
    if (rows.size() == 0 || (!files.test.empty() && pool.train_size == 0))
        throw IoError(name, "holds no training example");
    pool.examples = rows.examples(vocabulary.size()).of_words(vocabulary.tokens().size());
    pool.client_of = std::move(rows).client_of();
    return pool;
}

// The words or characters of the training examples, x and y.
inline Vocabulary leaf_vocabulary(const LeafUsers& train, const TextSettings& settings) {
    std::vector<std::string_view> texts;
    for (const auto& [user, held] : train)
        for (const auto* part : {&held.texts, &held.answers}) texts.insert(texts.end(), part->begin(), part->end());
    return Vocabulary::of(texts, settings);
}

// A directory with train/ and test/, one with .json files, or one file.
inline LeafFiles read_leaf_files(const std::string& path) {
    if (detail::is_directory(path + "/train"))
        return {read_leaf_users(path + "/train"), read_leaf_users(path + "/test")};
    return {read_leaf_users(path), {}};
}

inline data::Pool read_leaf(const std::string& path) {
    const auto files = read_leaf_files(path);
    return leaf_pool(files.train, files.test, path);
}

}  // namespace tessera::io
