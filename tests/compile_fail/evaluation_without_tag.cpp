// SPDX-License-Identifier: BSD-3-Clause
// A result that does not say whether it is before or after local training.
// expect: Required<
// expect: When>
#include <tessera/report/evaluation.hpp>

using namespace tessera::report;

const Evaluation result{.model = Which::personal,
#ifdef TESSERA_GOOD
                        .when = When::after,
#endif
                        .on = On::local(),
                        .split = SplitOf::test,
                        .clients = Whom::all,
                        .pick = Pick::last(),
                        .average = Average::unweighted,
                        .metric = Metric::accuracy,
                        .stage = "",
                        .value = 0.9};
