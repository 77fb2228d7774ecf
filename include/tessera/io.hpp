// SPDX-License-Identifier: BSD-3-Clause
// Files and messages. Readers that need zlib or a JSON parser are included by name.
#pragma once

#include <tessera/io/cifar.hpp>
#include <tessera/io/continuation.hpp>
#include <tessera/io/csv.hpp>
#include <tessera/io/csv_cells.hpp>
#include <tessera/io/file.hpp>
#include <tessera/io/growing_file.hpp>
#include <tessera/io/image_npy.hpp>
#include <tessera/io/labels.hpp>
#include <tessera/io/mapped.hpp>
#include <tessera/io/message.hpp>
#include <tessera/io/model_file.hpp>
#include <tessera/io/npy.hpp>
#include <tessera/io/npz.hpp>
#include <tessera/io/safetensors.hpp>
#include <tessera/io/sequences.hpp>
#include <tessera/io/split_file.hpp>
#include <tessera/io/tensor.hpp>
#include <tessera/io/tensorboard.hpp>
#include <tessera/io/text.hpp>
#include <tessera/io/weights.hpp>
