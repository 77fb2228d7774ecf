// SPDX-License-Identifier: BSD-3-Clause
// Layers, losses, networks, the model zoo, models chosen at run time.
#pragma once

#include <tessera/nn/activation.hpp>
#include <tessera/nn/additive.hpp>
#include <tessera/nn/any_model.hpp>
#include <tessera/nn/attention.hpp>
#include <tessera/nn/backend.hpp>
#include <tessera/nn/batch_norm.hpp>
#include <tessera/nn/blend.hpp>
#include <tessera/nn/clipped.hpp>
#include <tessera/nn/conv.hpp>
#include <tessera/nn/conv_zoo.hpp>
#include <tessera/nn/gradient_check.hpp>
#include <tessera/nn/graph.hpp>
#include <tessera/nn/joint.hpp>
#include <tessera/nn/layer.hpp>
#include <tessera/nn/layer_check.hpp>
#include <tessera/nn/layer_norm.hpp>
#include <tessera/nn/linear.hpp>
#include <tessera/nn/loss.hpp>
#include <tessera/nn/masked.hpp>
#include <tessera/nn/network.hpp>
#include <tessera/nn/norm.hpp>
#include <tessera/nn/objective/aligned.hpp>
#include <tessera/nn/objective/taught.hpp>
#include <tessera/nn/plan.hpp>
#include <tessera/nn/prox.hpp>
#include <tessera/nn/recipe.hpp>
#include <tessera/nn/recurrent.hpp>
#include <tessera/nn/routed.hpp>
#include <tessera/nn/routing.hpp>
#include <tessera/nn/shape.hpp>
#include <tessera/nn/sparse.hpp>
#include <tessera/nn/tuned.hpp>
#include <tessera/nn/walk.hpp>
#include <tessera/nn/zoo.hpp>
