// SPDX-License-Identifier: BSD-3-Clause
// All kernels in one object file, for programs of many translation units: define TESSERA_LINKED_KERNELS for each of
// them and compile this file once. Other programs need only the headers.
#define TESSERA_KERNELS_SOURCE
#include <tessera/kernels/amx.hpp>
#include <tessera/kernels/attention.hpp>
#include <tessera/kernels/conv.hpp>
#include <tessera/kernels/conv_blocks.hpp>
#include <tessera/kernels/dense.hpp>
#include <tessera/kernels/draws.hpp>
#include <tessera/kernels/dropout.hpp>
#include <tessera/kernels/gelu.hpp>
#include <tessera/kernels/mean.hpp>
#include <tessera/kernels/moments.hpp>
#include <tessera/kernels/noise.hpp>
#include <tessera/kernels/norm.hpp>
#include <tessera/kernels/normal.hpp>
#include <tessera/kernels/packed.hpp>
#include <tessera/kernels/panels.hpp>
#include <tessera/kernels/pool.hpp>
#include <tessera/kernels/recurrent.hpp>
#include <tessera/kernels/select.hpp>
#include <tessera/kernels/softmax.hpp>
#include <tessera/kernels/sparse.hpp>
#include <tessera/kernels/sparse_conv.hpp>
#include <tessera/kernels/vector.hpp>
#include <tessera/kernels/winograd.hpp>
