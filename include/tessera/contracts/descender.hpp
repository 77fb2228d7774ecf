// SPDX-License-Identifier: BSD-3-Clause
// Descender: somebody else who takes the walks of a thread, as a device does for many clients at once.
//
// An executor that has one lends it to its threads; descend() (contracts/rule.hpp) then asks it first. A walk is handed
// over whole: where it begins, its batches, and one Step that holds for all of them. Who takes none of it, or has no
// device, sees a null pointer a walk.
#pragma once

#include <string_view>
#include <utility>

#include <tessera/contracts/model.hpp>
#include <tessera/core/arena.hpp>
#include <tessera/core/batch.hpp>

namespace tessera {

namespace nn {
template <class R>
struct Blueprint;  // nn/graph.hpp: what a model made of layers says of itself
}

template <class R>
struct Descent {
    const nn::Blueprint<R>* model;
    Vec<R>* x;
    const Batches<R>* batches;
    Step<R> step;          // the rule's, and the method's terms
    bool serving = false;  // for an answer: nobody adds up where it ends
    double loss = 0;       // the sum over the batches, once it is done
};

template <class R>
class Descender {
public:
    Descender(const Descender&) = delete;
    Descender& operator=(const Descender&) = delete;

    // While alive, walks of this thread are offered to `other`; null: to nobody.
    class Use {
    public:
        explicit Use(Descender* other) : before_(std::exchange(current(), other)) {}
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        ~Use() { current() = before_; }

    private:
        Descender* before_;
    };
    static Descender* here() { return current(); }

    // Blocks until x is where the walk ends; false: not taken, and nothing has changed.
    virtual bool descend(Descent<R>&) = 0;
    // Something of a visit stays with its thread, for this reason.
    virtual void stays(std::string_view why) = 0;

protected:
    Descender() = default;
    ~Descender() = default;

private:
    static Descender*& current() {
        thread_local Descender* other = nullptr;
        return other;
    }
};

}  // namespace tessera
