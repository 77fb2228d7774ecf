// SPDX-License-Identifier: BSD-3-Clause
// Datasets, partitioners, synthetic tasks.
#pragma once

#include <tessera/data/dataset.hpp>
#include <tessera/data/lazy.hpp>
#include <tessera/data/missing.hpp>
#include <tessera/data/normalise.hpp>
#include <tessera/data/partition.hpp>
#include <tessera/data/partition/by_class.hpp>
#include <tessera/data/partition/dirichlet.hpp>
#include <tessera/data/partition/fault.hpp>
#include <tessera/data/partition/feature_shift.hpp>
#include <tessera/data/partition/iid.hpp>
#include <tessera/data/partition/lognormal.hpp>
#include <tessera/data/partition/natural.hpp>
#include <tessera/data/partition/settings.hpp>
#include <tessera/data/partition/shards.hpp>
#include <tessera/data/pool.hpp>
#include <tessera/data/shift.hpp>
#include <tessera/data/synthetic.hpp>
#include <tessera/data/transform.hpp>
