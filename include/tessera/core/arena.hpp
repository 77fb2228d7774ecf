// SPDX-License-Identifier: BSD-3-Clause
// Vectors with value semantics and no heap traffic in a warm round.
//
// Vec<T> is a std::vector over an allocator that takes 64-byte aligned blocks from the arena the current
// thread stands in. A released block goes to the arena of the thread that releases it: blocks are not
// owned, so an upload born in a worker may die in the server, and any Vec may outlive every arena.
// Workers have an arena each and share a parent, which catches what the server lets go after a round and
// what workers hand back: a block may be born in one worker and die in another, round after round. An arena is used by
// one thread at a time; a parent by any number.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/core/strict_math.hpp>

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
    explicit Arena(Arena& parent) : parent_(&parent) { __atomic_fetch_add(&parent.workers_, 1, __ATOMIC_RELAXED); }
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

    // Gives every free block to the parent, at the end of a round. Where several workers share, spare blocks of each
    // size that was missed in it are laid in, at most 8 MiB of a kind: how many are wanted at once depends on how
    // visits happen to overlap, and a later round may overlap more.
    void hand_back() noexcept {
        if (!parent_) return;
        const Hold mine(*this), theirs(*parent_);
        for (std::size_t kind = 0; kind < free_.size(); ++kind) {
            while (void* block = pop(kind)) parent_->push(block, kind);
            for (std::size_t spare = parent_->spares(kind); spare > 0; --spare)
                if (void* block = ::operator new(detail::bytes_of(kind), std::align_val_t{alignment}, std::nothrow))
                    parent_->push(block, kind);
        }
    }

    static void* allocate(std::size_t bytes) {
        const std::size_t kind = detail::kind_of(bytes);
        for (Arena* arena = current(); arena; arena = arena->parent_)
            if (void* block = arena->take(kind)) return block;
        if (Arena* worker = current(); worker && worker->parent_) worker->parent_->miss(kind);
        return ::operator new(detail::bytes_of(kind), std::align_val_t{alignment});
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
    // A spin lock over the compiler's atomics: <mutex> and <atomic> would double what core costs to include. Only
    // parents are locked: it would be two thirds of the 19 ns of a warm Scratch.
    class Hold {
    public:
        explicit Hold(Arena& arena)
            : lock_(__atomic_load_n(&arena.workers_, __ATOMIC_RELAXED) > 0 ? &arena.lock_ : nullptr) {
            while (lock_ && __atomic_test_and_set(lock_, __ATOMIC_ACQUIRE)) {
            }
        }
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;
        ~Hold() {
            if (lock_) __atomic_clear(lock_, __ATOMIC_RELEASE);
        }

    private:
        bool* lock_;
    };

    void* pop(std::size_t kind) {
        Block* block = free_[kind];
        if (block) {
            free_[kind] = block->next;
            --count_[kind];
        }
        return block;
    }
    void push(void* memory, std::size_t kind) {
        free_[kind] = ::new (memory) Block{free_[kind]};
        ++count_[kind];
    }
    void* take(std::size_t kind) {
        const Hold hold(*this);
        return pop(kind);
    }
    // A worker keeps what a visit may want; more of a kind are of use to the others only.
    void give(void* memory, std::size_t kind) noexcept {
        if (parent_ && count_[kind] >= 16) return parent_->give(memory, kind);
        const Hold hold(*this);
        push(memory, kind);
    }
    void miss(std::size_t kind) {
        const Hold hold(*this);
        ++missed_[kind];
    }
    // As many as were missed, and some for each worker: that one visit was alone with a size says nothing of the next.
    std::size_t spares(std::size_t kind) {
        constexpr std::size_t each = 4;
        const std::size_t missed = std::exchange(missed_[kind], 0);
        if (missed == 0 || workers_ < 2) return 0;
        const std::size_t most = (std::size_t{8} << 20) / detail::bytes_of(kind), wanted = missed + each * workers_;
        return wanted < most ? wanted : most;
    }
    static Arena*& current() {
        thread_local Arena* arena = nullptr;
        return arena;
    }

    Arena* parent_ = nullptr;
    bool lock_ = false;
    std::size_t workers_ = 0;
    std::array<Block*, 256> free_{};
    std::array<std::size_t, 256> count_{}, missed_{};
};

namespace detail {
// Walks over n numbers that are to be written later.
struct Unwritten {
    using iterator_category = std::random_access_iterator_tag;
    using value_type = Unwritten;
    using difference_type = std::ptrdiff_t;
    using pointer = const Unwritten*;
    using reference = Unwritten;
    difference_type place = 0;

    Unwritten operator*() const { return *this; }
    Unwritten& operator++() { return ++place, *this; }
    friend difference_type operator-(Unwritten a, Unwritten b) { return a.place - b.place; }
    friend bool operator==(Unwritten, Unwritten) = default;
};
}  // namespace detail

template <class T>
struct ArenaAllocator {
    using value_type = T;
    using is_always_equal = std::true_type;

    ArenaAllocator() = default;
    template <class U>
    ArenaAllocator(const ArenaAllocator<U>&) noexcept {}

    T* allocate(std::size_t n) { return static_cast<T*>(Arena::allocate(n * sizeof(T))); }
    void deallocate(T* p, std::size_t n) noexcept { Arena::release(p, n * sizeof(T)); }
    void construct(T*, detail::Unwritten) noexcept { static_assert(std::is_trivially_copyable_v<T>); }
    friend bool operator==(ArenaAllocator, ArenaAllocator) { return true; }
};

// Copies of plain numbers are one memcpy (from -O2 on; below, the walk over what is unwritten stays). The standard
// vector copies number by number for every allocator but its own: a fifth of the time of a client that makes one step.
template <class T>
class Vec : public std::vector<T, ArenaAllocator<T>> {
    using Base = std::vector<T, ArenaAllocator<T>>;

public:
    using Base::Base;
    Vec() = default;
    Vec(Vec&&) = default;
    Vec(const Vec& from) : Base(copy(from)) {}
    Vec& operator=(Vec&&) = default;
    Vec& operator=(const Vec& from) {
        if (from.size() > this->capacity()) return *this = Vec(from);
        Base::operator=(from);
        return *this;
    }

private:
    static Base copy(const Base& from) {
        if constexpr (std::is_trivially_copyable_v<T>) {
            Base to(detail::Unwritten{}, detail::Unwritten{static_cast<std::ptrdiff_t>(from.size())});
            if (!from.empty()) std::memcpy(to.data(), from.data(), from.size() * sizeof(T));
            return to;
        } else {
            return from;
        }
    }
};

// Room for n numbers whose values do not matter yet; a Vec would write zeros first.
template <class T>
class Scratch {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    explicit Scratch(std::size_t n) : size_(n), data_(n > 0 ? ArenaAllocator<T>().allocate(n) : nullptr) {}
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        if (data_) ArenaAllocator<T>().deallocate(data_, size_);
    }

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
