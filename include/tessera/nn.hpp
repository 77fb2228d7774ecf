// SPDX-License-Identifier: BSD-3-Clause
// Layers, losses, networks, the model zoo, models chosen at run time.
#pragma once

#include <tessera/nn/activation.hpp>
#include <tessera/nn/adapter.hpp>
#include <tessera/nn/additive.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/blend.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/ghost.hpp>
#include <tessera/nn/gradient_check.hpp>
#include <tessera/nn/horizontal.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/loss.hpp>
#include <tessera/nn/mlp.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/objective/aligned.hpp>
#include <tessera/nn/objective/taught.hpp>
#include <tessera/nn/prox.hpp>
#include <tessera/nn/routed.hpp>
#include <tessera/nn/routing.hpp>
#include <tessera/nn/sequential.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/nn/sparse_layers.hpp>
#include <tessera/nn/sparse_linear.hpp>
#include <tessera/nn/sparse_mlp.hpp>
#include <tessera/nn/tuned.hpp>
#include <tessera/nn/zoo.hpp>
