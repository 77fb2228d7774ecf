// SPDX-License-Identifier: BSD-3-Clause
// Well-formed messages and checkpoints that are slightly wrong, for every method of the library, in both directions.
//
// A mutant of bytes rarely gets past the frame. Here the value is changed, field by field as it was declared, and then
// framed, with a right checksum: vectors of other lengths, numbers that are not finite or at a limit, masks and lists of
// other sizes, another round, another client. Whatever comes of it, nothing is read past its end (the sanitizers see it,
// also in the kernels), nobody throws anything but WireError, and who refuses is as before.
#include "driver.hpp"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

#include <tessera/core/by_name.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>

#include <every_method.hpp>

#include "../support/toy_data.hpp"

namespace {

using namespace tessera;
using Net = nn::Dnn<support::Toy::width, 5, support::Toy::classes>;

void demand(bool holds) {
    if (!holds) std::abort();
}
Fingerprint print_of(const auto& state) {
    Hasher h;
    hash_into(h, state);
    return h.finish();
}

// What an input decides, drawn from its bytes.
class Choices {
public:
    explicit Choices(std::span<const std::uint8_t> input) {
        Hasher h;
        h.bytes(input.data(), input.size());
        stream_ = Stream(Key{h.finish().low});
    }
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(stream_.below(n)); }
    bool one_in(std::size_t n) { return below(n) == 0; }

private:
    Stream stream_{Key{0}};
};

// Changes the leaf whose turn it is; `left` counts down to it.
template <class T>
void change_leaf(T& value, std::size_t& left, Choices& draw) {
    if constexpr (std::is_same_v<T, bool>) {
        if (left-- == 0) value = !value;
    } else if constexpr (std::is_floating_point_v<T>) {
        constexpr T huge = std::numeric_limits<T>::max(), inf = std::numeric_limits<T>::infinity();
        const std::array<T, 8> bad{0, -1, huge, -huge, inf, std::numeric_limits<T>::quiet_NaN(), T(1e-30), T(0.5)};
        if (left-- == 0) value = bad[draw.below(bad.size())];
    } else if constexpr (detail::Number<T>) {
        constexpr std::array<std::uint64_t, 8> bad{0, 1, 2, 7, 255, 65536, 0xFFFFFFFF, ~0ull};
        if (left-- == 0) value = static_cast<T>(bad[draw.below(bad.size())]);
    } else if constexpr (std::is_same_v<T, Mask>) {
        if (left-- != 0) return;
        constexpr std::array<std::size_t, 6> sizes{0, 1, 63, 64, 65, 1000};
        const std::size_t size = draw.one_in(2) ? value.size() : sizes[draw.below(sizes.size())];
        Mask other(size, draw.one_in(2));
        for (std::size_t j = 0; j < size; ++j)
            if (draw.one_in(2)) other.set(j, draw.one_in(2));
        value = std::move(other);
    } else if constexpr (detail::Growable<T>) {
        if (left-- == 0) {
            switch (draw.below(6)) {
                case 0: value.clear(); break;
                case 1: value.resize(1); break;
                case 2: value.resize(value.size() + 1); break;
                case 3: value.resize(value.size() / 2); break;
                case 4: value.resize(value.size() + 1000); break;
                case 5:
                    if (!value.empty()) value.pop_back();
                    break;
            }
            return;
        }
        if (value.empty()) return;
        change_leaf(value[draw.below(value.size())], left, draw);
    } else if constexpr (detail::is_array<T>) {
        for (auto& each : value) change_leaf(each, left, draw);
    } else {
        with_fields(value, [&](auto&... field) { (change_leaf(field, left, draw), ...); });
    }
}
template <class T>
void change(T& value, Choices& draw) {
    for (std::size_t times = draw.below(4); times > 0; --times) {
        constexpr std::size_t far = 1000;
        std::size_t beyond = far;
        change_leaf(value, beyond, draw);  // counts them
        const std::size_t leaves = far - beyond;
        std::size_t left = leaves > 0 ? draw.below(leaves) : far;
        change_leaf(value, left, draw);
    }
}

struct Border {
    virtual ~Border() = default;
    virtual bool download(Choices&) = 0;
    virtual bool upload(Choices&) = 0;
    virtual bool checkpoint(Choices&) = 0;
};

template <class Me>
Me small() {  // as the library has it, but for how long it takes
    Me method{};
    for (const auto& [name, value] : {std::pair{"kd_steps", "2"}, {"kd_batch", "4"}, {"inner_steps", "2"}, {"steps", "2"},
                                      {"clients", "3"}, {"width", "4"}, {"hidden", "1"}})
        set_by_name(method, name, value);
    return method;
}

// A server and its clients after two rounds, and what they would say to each other in the third.
template <class Me>
struct World final : Border {
    using State = server_t<Me, float>;
    using Own = client_t<Me, float>;
    static constexpr std::size_t clients = 3;

    data::FederatedDataset data = support::toy_data({.clients = clients, .train = 4, .extra = 1, .test = 1});
    ClientData open_data{&data.pool().examples(), data[0].train};
    Setup<Me, Net> setup{Net{}, small<Me>(), {.seed = 3, .batch = 2, .rounds = 5}, {}, clients};
    Server<Me, Net> server{setup, clients, open_data};
    std::vector<Own> own{clients};
    std::vector<down_t<Me, float>> first_downs, downs;
    std::vector<up_t<Me, Net>> ups;
    Workspace<float> workspace;

    World() {
        for (Id k = 0; k < clients; ++k) first_downs.push_back(server.send(k));
        for (std::size_t round = 0; round < 2; ++round) {
            server.open_round({{.client = 0}, {.client = 1}, {.client = 2}});
            for (Id k = 0; k < clients; ++k) {
                auto client = device(k);
                demand(server.accept(k, client.visit(server.send(k), round, workspace)) == Verdict::accepted);
                own[k] = client.take_state();
            }
            demand(server.close_round().counted);
        }
        for (Id k = 0; k < clients; ++k) {
            downs.push_back(server.send(k));
            ups.push_back(device(k).visit(downs.back(), 2, workspace));
        }
    }
    Client<Me, Net> device(Id k, bool fresh = false) const { return {setup, k, data[k], fresh ? Own{} : own[k]}; }
    std::size_t parameters() const { return setup.initial.size(); }

    bool download(Choices& draw) override {
        const Id k = static_cast<Id>(draw.below(clients));
        const bool fresh = draw.one_in(3);
        auto down = fresh ? first_downs[k] : downs[draw.one_in(4) ? draw.below(clients) : k];
        change(down, draw);
        auto client = device(k, fresh);
        const auto before = print_of(client.state());
        const std::uint64_t round = draw.one_in(8) ? ~std::uint64_t{0} >> draw.below(64) : 2;
        try {
            const Bytes up = client.visit(
                io::encode_frame(io::Kind::download, parameters(), round, draw.one_in(16) ? 7 : k, down), workspace);
            demand(io::decode_frame(up).round == round);
            demand(all_finite(client.state()));
            return true;
        } catch (const WireError&) {
            demand(print_of(client.state()) == before);
            return false;
        }
    }
    bool upload(Choices& draw) override {
        const auto state = server.state();
        const auto before = print_of(state);
        const Id k = static_cast<Id>(draw.below(clients));
        auto up = ups[draw.one_in(4) ? draw.below(clients) : k];
        change(up, draw);
        server.open_round({{.client = 0}, {.client = 1}, {.client = 2}});
        const std::uint64_t round = draw.one_in(16) ? draw.below(5) : 2;
        const Bytes bytes = io::encode_frame(io::Kind::upload, parameters(), round, draw.one_in(16) ? 1 : k, up);
        const bool accepted = server.receive(k, bytes) == Verdict::accepted;
        if (accepted) demand(server.receive(k, bytes) == Verdict::duplicate);
        demand(print_of(server.state()) == before);
        for (Id other = 0; other < clients; ++other)
            if (other != k && draw.one_in(2)) server.accept(other, ups[other]);
        server.close_round();
        demand(all_finite(server.state()));
        demand(server.holds(server.state()));
        for (Id each = 0; each < clients; ++each) server.send(each);  // who was lied to can still speak
        server.restore(state, 2);
        return accepted;
    }
    // A forged checkpoint, and what the run would do next: visit, close the round, serve.
    bool checkpoint(Choices& draw) override {
        State state = server.state();
        std::vector<Own> states = own;
        std::uint64_t round = draw.one_in(16) ? ~std::uint64_t{0} >> draw.below(64) : 2;
        if (draw.one_in(2)) change(state, draw);
        else change(states[draw.below(clients)], draw);
        Bytes bytes;
        put(bytes, round);
        put(bytes, state);
        constexpr bool keeps = ClientStore<Own>::keeps;
        put(bytes, std::uint64_t{keeps ? clients : 0});
        for (Id k = 0; keeps && k < clients; ++k) {
            put(bytes, k);
            put(bytes, states[k]);
        }
        Federation<Me, Net> run{Net{}, data, setup.method, setup.settings, {}, open_data};
        const auto before = run.fingerprint();
        Reader forged(bytes);
        try {
            run.restore(forged);
        } catch (const WireError&) {
            demand(run.fingerprint() == before);
            return false;
        }
        const auto honest = server.state();
        server.restore(run.server(), 2);
        try {  // it may end in a sentence, such as that a budget is spent; nothing worse
            server.open_round({{.client = 0}, {.client = 1}, {.client = 2}});
            for (Id k = 0; k < clients; ++k) {
                Client<Me, Net> client(setup, k, data[k], run.client(k));
                server.accept(k, client.visit(server.send(k), 2, workspace));
                std::vector<float> out(data[k].test.size() * support::Toy::classes);
                client.serve(server.send(k), 2, workspace)(Batch<float>(*data[k].examples, data[k].test), Out<float>(out));
            }
            server.close_round();
            demand(server.holds(server.state()));
        } catch (const Error&) {
        }
        server.restore(honest, 2);
        return true;
    }
};

// Of all methods every TESSERA_PARTS-th: each part is a program of its own, compiled beside the others.
template <class... Me>
std::vector<std::unique_ptr<Border>> some_of(detail::Types<Me...>*) {
    std::vector<std::unique_ptr<Border>> all;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        const auto add = [&]<class Each, bool Mine>() {
            if constexpr (Mine) all.push_back(std::make_unique<World<Each>>());
        };
        (add.template operator()<Me, I % TESSERA_PARTS == TESSERA_PART>(), ...);
    }(std::index_sequence_for<Me...>{});
    return all;
}
const std::vector<std::unique_ptr<Border>>& borders() {
    static const auto all = some_of(static_cast<support::EveryMethod*>(nullptr));
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Choices draw({data, size});
    Border& border = *borders()[draw.below(borders().size())];
    switch (draw.below(5)) {
        case 0:
        case 1: fuzz_accepted = border.download(draw); break;
        case 2:
        case 3: fuzz_accepted = border.upload(draw); break;
        case 4: fuzz_accepted = border.checkpoint(draw); break;
    }
    return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_seeds() { return {{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14, 15, 16}}; }
