// SPDX-License-Identifier: BSD-3-Clause
// Named methods, one per header.
#pragma once

#include <tessera/method/apfl.hpp>
#include <tessera/method/ditto.hpp>
#include <tessera/method/fallback.hpp>
#include <tessera/method/fedalt.hpp>
#include <tessera/method/fedavg.hpp>
#include <tessera/method/fedavg_ft.hpp>
#include <tessera/method/fedbabu.hpp>
#include <tessera/method/fedbn.hpp>
#include <tessera/method/feddf.hpp>
#include <tessera/method/fedper.hpp>
#include <tessera/method/fedprox.hpp>
#include <tessera/method/fedrep.hpp>
#include <tessera/method/fedsim.hpp>
#include <tessera/method/fedspa.hpp>
#include <tessera/method/flow.hpp>
#include <tessera/method/ft_part.hpp>
#include <tessera/method/hyp_cluster.hpp>
#include <tessera/method/knn_per.hpp>
#include <tessera/method/lg_fedavg.hpp>
#include <tessera/method/local.hpp>
#include <tessera/method/mtl.hpp>
#include <tessera/method/partial.hpp>
#include <tessera/method/partial_fed.hpp>
#include <tessera/method/per_fedavg.hpp>
#include <tessera/method/perada.hpp>
#include <tessera/method/pfedbred.hpp>
#include <tessera/method/pfedme.hpp>
#include <tessera/method/pi_flow.hpp>
#include <tessera/method/privacy_forecast.hpp>
#include <tessera/method/privacy_statement.hpp>
#include <tessera/method/private.hpp>
#include <tessera/method/sub_fedavg.hpp>
#include <tessera/method/subsampling.hpp>
