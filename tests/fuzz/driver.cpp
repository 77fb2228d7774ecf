// SPDX-License-Identifier: BSD-3-Clause
// Drives a fuzz target without libFuzzer: its seeds as they are, then mutants of them, the same on every machine.
//
//   some_fuzz [--runs N] [--seed S]
//
// Prints how many inputs were read and refused. Exits with 1 when none was read or none was refused, since such
// a run has tested nothing. A crash leaves the input in crash-input, beside what the sanitizer says.
// With libFuzzer: link the target with -fsanitize=fuzzer in place of this file.
#include <tessera/core/random.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "driver.hpp"

// Weak, because a target that is also linked with libFuzzer has to define its own.
[[gnu::weak]] bool fuzz_accepted = false;

namespace {

using tessera::Key;
using tessera::Stream;
using Input = std::vector<std::uint8_t>;

class Mutator {
public:
    Mutator(std::span<const Input> seeds, Key key) : seeds_(seeds), stream_(key) {}

    Input next() {
        Input input = seeds_[pick(seeds_.size())];
        for (auto times = 1 + stream_.below(1 + stream_.below(6)); times > 0; --times) mutate(input);
        return input;
    }

private:
    std::size_t pick(std::size_t n) { return static_cast<std::size_t>(stream_.below(n)); }
    std::uint8_t byte() { return static_cast<std::uint8_t>(stream_.below(256)); }

    // A piece of `from`, of one to 64 bytes mostly.
    std::span<const std::uint8_t> piece(const Input& from) {
        if (from.empty()) return {};
        const std::size_t begin = pick(from.size()), room = from.size() - begin;
        return std::span(from).subspan(begin, 1 + pick(pick(8) == 0 ? room : std::min<std::size_t>(room, 64)));
    }
    static void insert(Input& input, std::size_t at, std::span<const std::uint8_t> bytes) {
        const Input copy(bytes.begin(), bytes.end());  // may be a part of `input`
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), copy.begin(), copy.end());
    }

    void mutate(Input& input) {
        constexpr std::size_t most = 1 << 20;
        if (input.empty() || input.size() > most) {
            input = seeds_[pick(seeds_.size())];
            return;
        }
        const std::size_t at = pick(input.size());
        switch (stream_.below(10)) {
            case 0: input[at] ^= static_cast<std::uint8_t>(1u << stream_.below(8)); break;
            case 1: input[at] = byte(); break;
            case 2: input[at] = static_cast<std::uint8_t>(input[at] + (stream_.below(2) == 0 ? 1 : 255)); break;
            case 3: input.resize(at); break;
            case 4: {  // take a piece out
                const std::size_t n = piece(input).size(), end = std::min(input.size(), at + n);
                input.erase(input.begin() + static_cast<std::ptrdiff_t>(at),
                            input.begin() + static_cast<std::ptrdiff_t>(end));
                break;
            }
            case 5: insert(input, at, piece(input)); break;
            case 6: {
                const Input fresh(1 + pick(8), byte());
                insert(input, pick(2) == 0 ? input.size() : at, fresh);
                break;
            }
            case 7: {  // splice: our head, another seed's tail
                const Input& other = seeds_[pick(seeds_.size())];
                input.resize(at);
                if (!other.empty()) insert(input, at, std::span(other).subspan(pick(other.size())));
                break;
            }
            case 8: extreme_binary(input, at); break;
            case 9: extreme_text(input, at); break;
        }
    }

    // An integer at a limit, one to eight bytes wide, in either byte order.
    void extreme_binary(Input& input, std::size_t at) {
        constexpr std::array<std::uint64_t, 12> values{
            0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, ~0ull};
        const std::uint64_t value = values[pick(values.size())];
        const std::size_t width = std::size_t{1} << pick(4);
        const bool big = pick(2) == 0;
        for (std::size_t i = 0; i < width && at + i < input.size(); ++i)
            input[at + i] = static_cast<std::uint8_t>(value >> 8 * (big ? width - 1 - i : i));
    }
    // A run of digits replaced by a number at a limit; formats that are text have their sizes there.
    void extreme_text(Input& input, std::size_t at) {
        constexpr std::string_view values[] = {"0",
                                               "-1",
                                               "255",
                                               "2147483648",
                                               "4294967295",
                                               "4294967296",
                                               "65536",
                                               "9223372036854775808",
                                               "18446744073709551615",
                                               "99999999999999999999"};
        const auto digit = [](std::uint8_t c) { return c >= '0' && c <= '9'; };
        const auto begin = std::find_if(input.begin() + static_cast<std::ptrdiff_t>(at), input.end(), digit);
        const auto end = std::find_if_not(begin, input.end(), digit);
        const auto where = static_cast<std::size_t>(begin - input.begin());
        const auto value = values[pick(std::size(values))];
        input.erase(begin, end);
        insert(input, where, {reinterpret_cast<const std::uint8_t*>(value.data()), value.size()});
    }

    std::span<const Input> seeds_;
    Stream stream_;
};

const Input* current = nullptr;

// Only system calls: the process is about to die of the same signal.
void save_input(int signal) {
    const int file = ::open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file >= 0 && current) [[maybe_unused]]
        const auto written = ::write(file, current->data(), current->size());
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

bool number(const char* text, std::uint64_t& out) {
    const char* last = text + std::strlen(text);
    const auto [end, error] = std::from_chars(text, last, out);
    return error == std::errc{} && end == last && end != text;
}

}  // namespace

int main(int argc, char** argv) {
    std::uint64_t runs = 10000, seed = 1;
    for (int i = 1; i < argc; i += 2) {
        const std::string_view flag = argv[i];
        std::uint64_t* value = flag == "--runs" ? &runs : flag == "--seed" ? &seed : nullptr;
        if (!value || i + 1 == argc || !number(argv[i + 1], *value)) {
            std::fprintf(stderr, "usage: %s [--runs N] [--seed S]; '%s' is not understood\n", argv[0], argv[i]);
            return 2;
        }
    }
    std::signal(SIGABRT, save_input);

    const auto seeds = fuzz_seeds();
    if (seeds.empty()) {
        std::fprintf(stderr, "%s: the target has no seeds\n", argv[0]);
        return 1;
    }
    Mutator mutator(seeds, Key{seed});
    std::uint64_t read = 0, refused = 0;
    for (std::uint64_t i = 0; i < runs; ++i) {
        const Input input = i < seeds.size() ? seeds[i] : mutator.next();
        current = &input;
        fuzz_accepted = false;
        LLVMFuzzerTestOneInput(input.data(), input.size());
        ++(fuzz_accepted ? read : refused);
    }
    std::printf("%llu inputs tried, %llu read, %llu refused\n", static_cast<unsigned long long>(runs),
                static_cast<unsigned long long>(read), static_cast<unsigned long long>(refused));
    return read > 0 && refused > 0 ? 0 : 1;
}
