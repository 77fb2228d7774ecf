// SPDX-License-Identifier: BSD-3-Clause
// Texts as one JSON object of clients, as StackOverflow is exported from TensorFlow Federated or LEAF:
//
//   {"ann": {"tokens": ["how do i", ...], "title": [...], "tags": [...]}, ...}              member `tokens`, or another
//   {"users": ["ann"], "num_samples": [2], "user_data": {"ann": {"x": ["how do i", ...]}}}  member `x`, or another
//
// A text is a sentence, or a list of its words, however deep lists lie in lists; what lies deeper than the member's own
// list is words, which are joined by spaces. Members that are not asked for are passed over. The file is read as it
// streams, never as a tree. Refused with the client and the place in its list: a number where a text should be, words
// beside lists of words, a NUL byte; with the client: one that is there twice or has no such member, and, in LEAF's
// form, any disagreement of users, num_samples and user_data. It is LEAF's form if one of these three stands first.
// Needs: nlohmann/json (component `json`).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tessera/core/error.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/tensor.hpp>
#include <tessera/io/text.hpp>

namespace tessera::io {

struct ClientJsonSettings {
    std::string text{};  // the member that is read; empty: `tokens`, or `x` in LEAF's form
};

namespace detail {

// Takes the events of the JSON parser and keeps what clients say.
class ClientTextEvents {
public:
    ClientTextEvents(std::string_view all, const ClientJsonSettings& settings, const std::string& name)
        : all_(all), settings_(settings), name_(name) {}

    // The parser's interface. true: go on.
    bool null() { return value("null"); }
    bool boolean(bool) { return value("a truth value"); }
    bool number_integer(std::int64_t n) { return number(static_cast<double>(n)); }
    bool number_unsigned(std::uint64_t n) { return number(static_cast<double>(n)); }
    bool number_float(double n, const std::string&) { return number(n); }
    bool binary(nlohmann::json::binary_t&) { return value("binary data"); }

    bool string(std::string& text) {
        if (here() == Place::users) {
            users_.push_back(std::move(text));
            return true;
        }
        if (!reads_texts()) return value("a text");
        if (text.find('\0') != text.npos) refuse(where() + "a NUL byte, which no text has");
        if (here() == Place::texts) {
            ++counts_.back();
            say(std::move(text));
        } else {
            if (lists_within_) refuse(where() + "words beside lists of words");
            sentence_.append(sentence_.empty() ? "" : " ").append(text);
        }
        return true;
    }
    bool start_object(std::size_t) {
        if (stack_.empty()) return open(Place::root);
        if (next_ == Place::people) return open(Place::people);
        if (next_ != Place::client) return skip_into("an object");
        if (at_.empty() || at_.find('\0') != at_.npos) refuse("a client has no name, or a NUL byte in it");
        if (!places_.emplace(at_, clients_.size()).second) refuse(whose() + "is there twice");
        clients_.push_back({at_, {}});
        members_.clear();
        return open(Place::client);
    }
    bool key(std::string& name) {
        next_ = Place::other;
        if (here() == Place::root) {
            const bool users = name == "users", counts = name == "num_samples", people = name == "user_data";
            if (!form_known_) leaf_ = users || counts || people;
            form_known_ = true;
            next_ = !leaf_   ? Place::client
                    : users  ? Place::users
                    : counts ? Place::counts
                    : people ? Place::people
                             : next_;
            if (leaf_ && next_ != Place::other && !lists_.insert(name).second)
                refuse("has two members " + in_quotes(name));
            at_ = name;
        } else if (here() == Place::people) {
            next_ = Place::client;
            at_ = name;
        } else if (here() == Place::client) {
            members_.append(members_.empty() ? "" : ", ").append(name);
            if (name != wanted()) return true;
            if (counts_.size() == clients_.size()) refuse(whose() + "has two members " + in_quotes(name));
            next_ = Place::texts;
        }
        return true;
    }
    bool end_object() {
        if (here() == Place::client && counts_.size() < clients_.size())
            refuse(whose() + "has no member " + in_quotes(wanted()) + (members_.empty() ? "" : "; it has " + members_));
        stack_.pop_back();
        next_ = Place::other;
        return true;
    }
    bool start_array(std::size_t) {
        if (reads_texts()) {
            if (here() == Place::texts) ++counts_.back();
            else if (!sentence_.empty()) refuse(where() + "words beside lists of words");
            lists_within_ = false;
            return open(Place::words);
        }
        if (next_ == Place::texts) counts_.push_back(0);
        else if (next_ != Place::users && next_ != Place::counts) return skip_into("a list");
        return open(next_);
    }
    bool end_array() {
        const bool words = here() == Place::words;
        if (words && !sentence_.empty()) say(std::exchange(sentence_, {}));
        stack_.pop_back();
        lists_within_ = words;
        return true;
    }
    bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
        const auto until = all_.substr(0, std::min(position, all_.size()));
        refuse("is not JSON in line " + std::to_string(1 + std::count(until.begin(), until.end(), '\n')) + " (byte " +
               std::to_string(position) + ")");
    }

    std::vector<ClientText> finish() && {
        if (leaf_) agree();
        if (clients_.empty()) refuse("holds no client");
        return std::move(clients_);
    }

private:
    enum class Place : std::uint8_t { root, users, counts, people, client, texts, words, other };

    [[noreturn]] void refuse(const std::string& what) const { throw IoError(name_, what); }
    Place here() const { return stack_.empty() ? Place::other : stack_.back(); }
    bool reads_texts() const { return here() == Place::texts || here() == Place::words; }
    std::string wanted() const { return !settings_.text.empty() ? settings_.text : leaf_ ? "x" : "tokens"; }
    std::string whose() const { return "client " + in_quotes(at_) + " "; }
    // "client 'ann', text 3 of 'tokens': "
    std::string where() const {
        const std::size_t place = counts_.back() + (here() == Place::texts ? 1 : 0);
        return "client " + in_quotes(at_) + ", text " + std::to_string(place) + " of " + in_quotes(wanted()) + ": ";
    }
    bool open(Place place) {
        stack_.push_back(place);
        next_ = Place::other;
        return true;
    }
    // What members that are not asked for may hold, and nothing else.
    bool skip_into(std::string_view what) {
        value(what);
        return open(Place::other);
    }
    bool value(std::string_view what) {
        if (reads_texts()) refuse(where() + std::string(what) + " where a text should be");
        if (stack_.empty()) refuse("is " + std::string(what) + ", not an object of clients");
        if (here() == Place::users || here() == Place::counts || (next_ != Place::other && here() != Place::client))
            refuse((next_ == Place::client ? whose() : in_quotes(at_) + " ") + "has " + std::string(what) +
                   " where something else is needed");
        if (next_ == Place::texts)
            refuse(whose() + "has " + std::string(what) + " as " + in_quotes(wanted()) + ", not a list of texts");
        return true;
    }
    void say(std::string text) {
        if (!text.empty()) clients_.back().texts.push_back(std::move(text));
    }
    bool number(double n) {
        if (here() != Place::counts) return value("a number");
        if (!(n >= 0 && n <= 9e15) || n != std::floor(n))
            refuse("has " + std::to_string(n) + " in num_samples, which is not a count");
        claimed_.push_back(static_cast<std::size_t>(n));
        return true;
    }
    // The three lists of LEAF say the same.
    void agree() const {
        if (lists_.size() < 3) refuse("has some of 'users', 'num_samples' and 'user_data', and LEAF has them all");
        if (users_.size() != claimed_.size())
            refuse("names " + std::to_string(users_.size()) + " users, but counts the examples of " +
                   std::to_string(claimed_.size()));
        std::map<std::string_view, std::size_t> named;
        for (std::size_t i = 0; i < users_.size(); ++i) {
            const auto at = places_.find(users_[i]);
            if (at == places_.end()) refuse("client " + in_quotes(users_[i]) + " is not in user_data");
            if (!named.emplace(users_[i], i).second) refuse("names the user " + in_quotes(users_[i]) + " twice");
            if (counts_[at->second] != claimed_[i])
                refuse("client " + in_quotes(users_[i]) + " has " + std::to_string(counts_[at->second]) +
                       " texts and " + std::to_string(claimed_[i]) + " in num_samples");
        }
        for (const auto& each : clients_)
            if (!named.contains(each.client))
                refuse("has data of client " + in_quotes(each.client) + ", who is not in users");
    }

    std::string_view all_;
    const ClientJsonSettings& settings_;
    const std::string& name_;
    std::vector<Place> stack_;   // of what is open
    Place next_ = Place::other;  // of what the last key names
    bool form_known_ = false, leaf_ = false, lists_within_ = false;
    std::string at_, members_, sentence_;  // the client's name and members; words of an open sentence
    std::vector<ClientText> clients_;
    std::map<std::string, std::size_t> places_;
    std::vector<std::size_t> counts_, claimed_;  // texts of each client; what num_samples says
    std::vector<std::string> users_;
    std::set<std::string> lists_;  // LEAF's three
};

}  // namespace detail

// Clients and their texts keep the file's order. `name` is what errors call it.
inline std::vector<ClientText> decode_client_json(std::string_view text, const ClientJsonSettings& settings,
                                                  const std::string& name) {
    detail::require_text(text, name);
    detail::ClientTextEvents events(text, settings, name);
    nlohmann::json::sax_parse(text.begin(), text.end(), &events);
    return std::move(events).finish();
}
inline std::vector<ClientText> read_client_json(const std::string& path, const ClientJsonSettings& settings = {}) {
    const auto bytes = read_file(path);
    return decode_client_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, settings, path);
}

}  // namespace tessera::io
