// SPDX-License-Identifier: BSD-3-Clause
// What programs that define TESSERA_LINKED_KERNELS find compiled of networks, beside the kernels
// (kernels/linked.cpp): the list, the walk over it and the layers of the smallest networks.
#include <tessera/nn/graph.hpp>
#include <tessera/nn/walk.hpp>

namespace tessera::nn {

template const Backend<float>& backend_for<float>();
template const Backend<double>& backend_for<double>();
template class Graph<float>;
template class Graph<double>;
template class Walk<float>;
template class Walk<double>;

namespace detail {

template std::shared_ptr<Op<float>> op_of<float>(Linear);
template std::shared_ptr<Op<float>> op_of<float>(LeakyRelu);
template std::shared_ptr<Op<float>> op_of<float>(Relu);
template double gradient(const Graph<float>&, const float*, const Batch<float>&, LossAt<float>, float*,
                         FunctionRef<void(const float*, float*)>);
template void evaluate(const Graph<float>&, const float*, const Batch<float>&, std::size_t, float*);
template double step(const Graph<float>&, float*, const Batch<float>&, LossAt<float>, const Update<float>&,
                     const Coordinates&);

}  // namespace detail

}  // namespace tessera::nn
