// SPDX-License-Identifier: BSD-3-Clause
// A mask search whose one function is misspelt.
// expect: tessera::Masking: a masking needs `void next(const MaskSearch<R>&, Mask&) const`
#include <tessera/mask/density.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/nn/zoo.hpp>
#include <tessera/runtime/federation.hpp>
#include <tessera/sample/everyone.hpp>

using namespace tessera;

struct Wander {
    static constexpr Offers offers{};
    Mask first(Layout layout, Key key) const { return mask::drawn(layout, 0.5, mask::Distribution::uniform, key); }
    template <class R>
#ifdef TESSERA_GOOD
    void next(const MaskSearch<R>& at, Mask& mask) const {
#else
    void nxt(const MaskSearch<R>& at, Mask& mask) const {
#endif
        mask = mask::drawn(at.layout, 0.5, mask::Distribution::uniform, at.key);
    }
};

void run(const data::FederatedDataset& clients) {
    Federation<FedSpa<Wander>, nn::Mclr<60, 10>> federation{{}, clients, {}};
    federation.round(sample::Everyone{});
}
