// SPDX-License-Identifier: BSD-3-Clause
// Everything that needs no optional component. Programs compile sooner with the headers they use.
#pragma once

#include <tessera/codec.hpp>
#include <tessera/contracts.hpp>
#include <tessera/core.hpp>
#include <tessera/data.hpp>
#include <tessera/divergence.hpp>
#include <tessera/exec.hpp>
#include <tessera/fold.hpp>
#include <tessera/gate.hpp>
#include <tessera/io.hpp>
#include <tessera/mask.hpp>
#include <tessera/method.hpp>
#include <tessera/nn.hpp>
#include <tessera/order.hpp>
#include <tessera/prior.hpp>
#include <tessera/privacy.hpp>
#include <tessera/report.hpp>
#include <tessera/rule.hpp>
#include <tessera/runtime.hpp>
#include <tessera/sample.hpp>
#include <tessera/store.hpp>
#include <tessera/version.hpp>
