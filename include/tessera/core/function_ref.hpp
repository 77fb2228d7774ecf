// SPDX-License-Identifier: BSD-3-Clause
// A function that somebody else keeps, by its signature alone: what takes one is compiled once, not once for every
// lambda that it is given. It must not outlive the function.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace tessera {

template <class Signature>
class FunctionRef;

template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
public:
    template <class F>
        requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<Result, F&, Arguments...>)
    FunctionRef(F&& f)
        : f_(&f), call_([](const void* self, Arguments... arguments) -> Result {
              using Holder = std::remove_reference_t<F>;
              return (*static_cast<Holder*>(const_cast<void*>(self)))(std::forward<Arguments>(arguments)...);
          }) {}

    Result operator()(Arguments... arguments) const { return call_(f_, std::forward<Arguments>(arguments)...); }

private:
    const void* f_;
    Result (*call_)(const void*, Arguments...);
};

}  // namespace tessera
