// SPDX-License-Identifier: BSD-3-Clause
// Vectors with value semantics and no heap traffic in a warm round.
//
// Vec<T> is std::vector over an allocator that takes 64-byte aligned blocks from the arena the current
// thread stands in. A released block goes to the arena of the thread that releases it: blocks are not
// owned, so an upload born in a worker may die in the server, and any Vec may outlive every arena.
// Workers have an arena each and share a parent, which catches what the server lets go after a round and
// what workers hand back: a block may be born in one worker and die in another, round after round.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera {

inline constexpr std::size_t alignment = 64;

namespace detail {
// Four sizes per power of two: at most a quarter of a block is idle.
constexpr std::size_t kind_of(std::size_t bytes) {
    const std::size_t lines = (bytes + alignment - 1) / alignment;
    if (lines <= 4) return lines == 0 ? 0 : lines - 1;
    const auto octave = static_cast<std::size_t>(std::bit_width(lines - 1)) - 3;
    return 4 * octave + ((lines - 1) >> octave);
}
constexpr std::size_t bytes_of(std::size_t kind) {
    if (kind < 4) return (kind + 1) * alignment;
    const std::size_t octave = kind / 4 - 1;
    return ((kind % 4 + 5) << octave) * alignment;
}
static_assert(bytes_of(kind_of(64)) == 64 && bytes_of(kind_of(257)) == 320 && bytes_of(kind_of(512)) == 512);
static_assert(bytes_of(kind_of(513)) == 640 && bytes_of(kind_of(1'000'000)) >= 1'000'000);
}  // namespace detail

class Arena {
public:
    Arena() = default;
    explicit Arena(Arena& parent) : parent_(&parent) {}
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena() {
        for (auto* block : free_)
            while (block) ::operator delete(std::exchange(block, block->next), std::align_val_t{alignment});
    }

    // While alive, vectors of this thread come from and return to `arena`.
    class Use {
    public:
        explicit Use(Arena& arena) : before_(std::exchange(current(), &arena)) {}
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        ~Use() { current() = before_; }

    private:
        Arena* before_;
    };

    // Gives every free block to the parent.
    void hand_back() noexcept {
        if (!parent_) return;
        const Hold mine(lock_), theirs(parent_->lock_);
        for (std::size_t kind = 0; kind < free_.size(); ++kind)
            while (Block* block = free_[kind]) {
                free_[kind] = block->next;
                block->next = std::exchange(parent_->free_[kind], block);
            }
    }

    static void* allocate(std::size_t bytes) {
        const std::size_t kind = detail::kind_of(bytes);
        for (Arena* arena = current(); arena; arena = arena->parent_)
            if (void* block = arena->take(kind)) return block;
        if (Arena* worker = current(); worker && worker->parent_) worker->parent_->stock(kind);
        return fresh(kind);
    }
    static void release(void* block, std::size_t bytes) noexcept {
        if (Arena* arena = current())
            arena->give(block, detail::kind_of(bytes));
        else
            ::operator delete(block, std::align_val_t{alignment});
    }

private:
    struct Block {
        Block* next;
    };
    // A spin lock over the compiler's atomics: <mutex> and <atomic> would double what core costs to include.
    class Hold {
    public:
        explicit Hold(bool& lock) : lock_(lock) {
            while (__atomic_test_and_set(&lock_, __ATOMIC_ACQUIRE)) {
            }
        }
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;
        ~Hold() { __atomic_clear(&lock_, __ATOMIC_RELEASE); }

    private:
        bool& lock_;
    };

    // For a worker that found nothing: 1 block more, at the next miss 3, then 7, ..., at most a mebibyte. How many of a
    // kind are wanted at once depends on how visits happen to overlap, and a later round may overlap more.
    void stock(std::size_t kind) {
        std::size_t count = 0;
        {
            const Hold hold(lock_);
            const std::size_t next = 2 * stocked_[kind] + 1, most = (std::size_t{1} << 20) / detail::bytes_of(kind);
            count = stocked_[kind] = next <= most ? next : most == 0 ? 1 : most;
        }
        for (; count > 0; --count) give(fresh(kind), kind);
    }
    static void* fresh(std::size_t kind) {
        return ::operator new(detail::bytes_of(kind), std::align_val_t{alignment});
    }
    void* take(std::size_t kind) {
        const Hold hold(lock_);
        Block* block = free_[kind];
        if (block) free_[kind] = block->next;
        return block;
    }
    void give(void* memory, std::size_t kind) noexcept {
        const Hold hold(lock_);
        free_[kind] = ::new (memory) Block{free_[kind]};
    }
    static Arena*& current() {
        thread_local Arena* arena = nullptr;
        return arena;
    }

    Arena* parent_ = nullptr;
    bool lock_ = false;  // uncontended except on the parent; about 10 ns against visits of 100 us and more
    std::array<Block*, 256> free_{};
    std::array<std::size_t, 256> stocked_{};
};

template <class T>
struct ArenaAllocator {
    using value_type = T;
    using is_always_equal = std::true_type;

    ArenaAllocator() = default;
    template <class U>
    ArenaAllocator(const ArenaAllocator<U>&) noexcept {}

    T* allocate(std::size_t n) { return static_cast<T*>(Arena::allocate(n * sizeof(T))); }
    void deallocate(T* p, std::size_t n) noexcept { Arena::release(p, n * sizeof(T)); }
    friend bool operator==(ArenaAllocator, ArenaAllocator) { return true; }
};

template <class T>
using Vec = std::vector<T, ArenaAllocator<T>>;

// Room for n numbers whose values do not matter yet; a Vec would write zeros first.
template <class T>
class Scratch {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    explicit Scratch(std::size_t n) : size_(n), data_(ArenaAllocator<T>().allocate(n)) {}
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { ArenaAllocator<T>().deallocate(data_, size_); }

    std::size_t size() const { return size_; }
    T* data() const { return data_; }
    T& operator[](std::size_t i) const { return data_[i]; }
    T* begin() const { return data_; }
    T* end() const { return data_ + size_; }

private:
    std::size_t size_;
    T* data_;
};

}  // namespace tessera
