// SPDX-License-Identifier: BSD-3-Clause
// What personalization brings is personal minus global, never the other way round.
// expect: deleted function
#include <tessera/report/evaluation.hpp>

using namespace tessera::report;

using Global = PerClient<Which::global, When::before, SplitOf::test, Whom::all>;
using Personal = PerClient<Which::personal, When::after, SplitOf::test, Whom::all>;

Effect effect(const Global& global, const Personal& personal) {
#ifdef TESSERA_GOOD
    return compare(global, personal);
#else
    return compare(personal, global);
#endif
}
