// SPDX-License-Identifier: BSD-3-Clause
// Local update rules.
#pragma once

#include <tessera/rule/adam.hpp>
#include <tessera/rule/adam_w.hpp>
#include <tessera/rule/dp_sgd.hpp>
#include <tessera/rule/sam.hpp>
#include <tessera/rule/schedule.hpp>
#include <tessera/rule/sgd.hpp>
#include <tessera/rule/step.hpp>
