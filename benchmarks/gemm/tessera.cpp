// SPDX-License-Identifier: BSD-3-Clause
// Ours: the kernels behind backend::Simd, which take any widths and chose their instruction set at run time.
#include <tessera/kernels/backend.hpp>

#include "gemm/problem.hpp"
#include "support/crew_of_two.hpp"

namespace {

struct Ours {
    using Simd = tessera::backend::Simd;
    static void forward(const bench::GemmTask& t) {
        Simd::affine(t.x, t.w, static_cast<const float*>(nullptr), t.result, t.batch, t.in, t.out);
    }
    static void weights(const bench::GemmTask& t) {
        Simd::affine_weight_gradient(t.dy, t.x, t.result, static_cast<float*>(nullptr), t.batch, t.in, t.out);
    }
    static void inputs(const bench::GemmTask& t) {
        Simd::affine_input_gradient(t.dy, t.w, t.result, t.batch, t.in, t.out);
    }
};

// With a crew of two, which is there only while somebody multiplies.
class Helped final : public bench::Multiplier {
public:
    explicit Helped(const bench::GemmTask& task) : alone_(task) {}
    void run() override {
        bench::CrewOfTwo crew;  // a thread more: 30 us of 10 ms
        const tessera::Crew::Use use(&crew);
        alone_.run();
    }
    static bench::Multiplier* make(const bench::GemmTask& task) { return new Helped(task); }

private:
    bench::Calls<Ours> alone_;
};

}  // namespace

void add_tessera(bench::GemmCompetitors& all) { all.add("tessera", false, bench::Calls<Ours>::make); }
void add_crew(bench::GemmCompetitors& all) { all.add("tessera_crew", false, Helped::make); }
