// SPDX-License-Identifier: BSD-3-Clause
// The contracts: model, rule, fold, method, plan, executor, and the values between them.
#pragma once

#include <tessera/contracts/adder.hpp>
#include <tessera/contracts/capabilities.hpp>
#include <tessera/contracts/codec.hpp>
#include <tessera/contracts/context.hpp>
#include <tessera/contracts/descender.hpp>
#include <tessera/contracts/divergence.hpp>
#include <tessera/contracts/executor.hpp>
#include <tessera/contracts/fold.hpp>
#include <tessera/contracts/gate.hpp>
#include <tessera/contracts/judgement.hpp>
#include <tessera/contracts/masking.hpp>
#include <tessera/contracts/memory.hpp>
#include <tessera/contracts/method.hpp>
#include <tessera/contracts/model.hpp>
#include <tessera/contracts/place.hpp>
#include <tessera/contracts/plan.hpp>
#include <tessera/contracts/policy.hpp>
#include <tessera/contracts/prior.hpp>
#include <tessera/contracts/private.hpp>
#include <tessera/contracts/routable.hpp>
#include <tessera/contracts/rule.hpp>
#include <tessera/contracts/sparse.hpp>
#include <tessera/contracts/store.hpp>
