// SPDX-License-Identifier: BSD-3-Clause
// What place::Mpi carries comes whole and in order, whatever its length. Run by ranks.py, on several numbers of ranks.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <tessera/core/random.hpp>
#include <tessera/place/mpi.hpp>

using namespace tessera;

namespace {

// What `from` sends `to` in a turn: some bytes, none now and then, some hundred kilobytes now and then.
Bytes letter(std::size_t from, std::size_t to, std::size_t turn) {
    Stream stream(Key{7}(from)(to)(turn));
    const std::uint64_t kind = stream.below(4);
    Bytes bytes(kind == 0 ? 0 : kind == 1 ? 300'000 + stream.below(9) : stream.below(300));
    for (std::size_t i = 0; i < bytes.size(); i += 97) bytes[i] = static_cast<std::byte>(stream.below(256));
    return bytes;
}

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "not carried: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

}  // namespace

int main(int argc, char** argv) {
    const place::MpiProgram program(argc, argv);
    const auto all = place::Mpi::world();
    const std::size_t me = all->rank(), n = all->ranks();
    for (std::size_t turn = 0; turn < 6; ++turn) {
        Bytes told = me == 0 ? letter(0, 0, turn) : Bytes(5);
        all->broadcast(told);
        require(told == letter(0, 0, turn), "a broadcast");

        const auto everybody = all->gather_all(letter(me, 1, turn));
        for (std::size_t r = 0; r < n; ++r) require(everybody[r] == letter(r, 1, turn), "what all gather");
        const auto mine = all->gather(letter(me, 2, turn));
        require(mine.size() == (me == 0 ? n : 0), "whom a gathering is for");
        for (std::size_t r = 0; r < mine.size(); ++r) require(mine[r] == letter(r, 2, turn), "what one gathers");

        std::vector<Bytes> outgoing;
        for (std::size_t r = 0; r < n; ++r) outgoing.push_back(letter(me, r, turn));
        const auto incoming = all->exchange(std::move(outgoing));
        for (std::size_t r = 0; r < n; ++r) require(incoming[r] == letter(r, me, turn), "an exchange");

        // Round the circle and back to oneself; whoever sends first must not wait for a receiver.
        const std::size_t next = (me + 1) % n, before = (me + n - 1) % n;
        for (std::size_t i = 0; i < 3; ++i) all->send(next, letter(me, next, 100 * turn + i));
        for (std::size_t i = 0; i < 3; ++i)
            require(all->receive(before) == letter(before, me, 100 * turn + i), "letters of a pair, in order");
    }
    require(n == 1 || all->sent().bytes > 0, "what is counted");
    std::printf("carried\n");
}
