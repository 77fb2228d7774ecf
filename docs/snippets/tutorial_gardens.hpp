// SPDX-License-Identifier: BSD-3-Clause
// Stands for data of your own in docs/tutorial.md: 24 gardens, each with 120 readings of four instruments, and whether
// the plants wanted water. On clay a high second reading means wet soil, on sand it means that the water has run through:
// the same numbers ask for opposite answers, and no reading says which soil a garden has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tessera/core/random.hpp>
#include <tessera/core/view.hpp>

struct Gardens {
    std::vector<float> rows;           // four numbers a reading
    std::vector<std::int32_t> labels;  // 1: water
    std::vector<std::string> names;
    std::vector<tessera::Id> garden_of;  // whose each reading is, a place in `names`
};

inline Gardens read_gardens() {
    Gardens all;
    for (tessera::Id k = 0; k < 24; ++k) {
        const bool sand = k % 3 == 0;
        all.names.push_back((k < 10 ? "garden 0" : "garden ") + std::to_string(k));
        tessera::Stream draw(tessera::Key{2026}(tessera::purpose::synthetic)(k));
        for (int i = 0; i < 120; ++i) {
            float reading[4];
            for (float& number : reading) number = static_cast<float>(2 * draw.uniform() - 1);
            all.rows.insert(all.rows.end(), reading, reading + 4);
            all.labels.push_back(reading[0] + (sand ? -2 : 2) * reading[1] > 0);
            all.garden_of.push_back(k);
        }
    }
    return all;
}
