// SPDX-License-Identifier: BSD-3-Clause
// What a run leaves behind: plain values that any writer can turn into a file.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tessera/core/error.hpp>
#include <tessera/core/view.hpp>
#include <tessera/report/evaluation.hpp>

namespace tessera::report {

// A configuration value that keeps its kind, so that JSON shows 0.05 and true, not "0.05" and "true".
class Setting {
public:
    using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

    template <class T>
        requires(std::is_arithmetic_v<T> || std::convertible_to<T, std::string_view>)
    Setting(const T& value) : value_(stored(value)) {}
    const Value& value() const { return value_; }
    friend bool operator==(const Setting&, const Setting&) = default;

private:
    template <class T>
    static Value stored(const T& value) {
        if constexpr (std::same_as<T, bool>) return value;
        else if constexpr (std::signed_integral<T>) return static_cast<std::int64_t>(value);
        else if constexpr (std::unsigned_integral<T>) return static_cast<std::uint64_t>(value);
        else if constexpr (std::floating_point<T>) return static_cast<double>(value);
        else return std::string(std::string_view(value));
    }
    Value value_;
};

struct RoundRecord {
    std::size_t round = 0;
    double seconds = 0;
    std::uint64_t bytes_up = 0, bytes_down = 0;                     // measured on the wire form
    double formula_bytes_up = absent, formula_bytes_down = absent;  // as the method's paper counts them
    double flops = absent;
    std::size_t trained = 0, merged = 0, rejected = 0, diverged = 0;  // clients
    std::string state_hash{};                                         // hexadecimal
    std::vector<Evaluation> evaluations{};
};

// On the client's own test data, at the end of the run: the model it receives, and the model it is served.
struct ClientRecord {
    Id id = 0;
    std::size_t n_train = 0, n_test = 0;
    double accuracy_global = absent, accuracy_personal = absent;
    double loss_global = absent, loss_personal = absent;
    std::vector<std::size_t> labels{};  // training examples per class, when the task has classes

    double gain() const { return accuracy_personal - accuracy_global; }  // absent when either is
};

struct RunRecord {
    std::vector<std::pair<std::string, Setting>> config{};
    std::string kernel_set{}, version{};
    std::vector<RoundRecord> rounds{};
    std::vector<Evaluation> final_evaluations{};
    std::vector<ClientRecord> per_client{};
    std::string state_hash{};
    std::vector<std::string> notes{};

    // Replaces an earlier value of the same name: a name stands once.
    void set(std::string_view name, Setting value) {
        for (auto& [known, old] : config)
            if (known == name) {
                old = std::move(value);
                return;
            }
        config.emplace_back(std::string(name), std::move(value));
    }
    const Setting* find(std::string_view name) const {
        for (const auto& [known, value] : config)
            if (known == name) return &value;
        return nullptr;
    }
};

// Writes a result into the clients' rows; `rows` is in order of id, ids that have no row get one.
template <Which W, When T, Whom P>
void fill(std::vector<ClientRecord>& rows, const PerClient<W, T, SplitOf::test, P>& result) {
    tessera::detail::require(result.on() == On::local(), "per-client rows hold results on the clients' own data");
    for (const auto& count : result.counts()) {
        auto row = std::ranges::lower_bound(rows, count.client, {}, &ClientRecord::id);
        if (row == rows.end() || row->id != count.client) row = rows.insert(row, ClientRecord{.id = count.client});
        const auto n = static_cast<double>(count.n);
        row->n_test = count.n;
        (W == Which::global ? row->accuracy_global : row->accuracy_personal) = count.correct / n;
        (W == Which::global ? row->loss_global : row->loss_personal) = count.loss_sum / n;
    }
}

}  // namespace tessera::report
