# SPDX-License-Identifier: BSD-3-Clause
"""The step of a masked layer as masked training does it in PyTorch: dense products by autograd, the gradient times the
mask before the update. And on compressed rows, where weights are what is active: two products of a sparse matrix and a
sampled one (MKL's in PyTorch 2)."""
import sys
import warnings

import torch

import stopwatch

warnings.filterwarnings("ignore", message="Sparse")  # that CSR is a beta
LAYERS = {"784x256": (784, 256), "1024x1024": (1024, 1024)}
DENSITIES = ("0.50", "0.20", "0.10", "0.05")
RATE = 1e-3
TOLERANCE = 5e-5  # as for the C++ competitors
CSR_TOLERANCE = 2e-4  # a sparse row is summed from its first term to its last: four times what registers of sums are off


class MaskedLayer:
    def __init__(self, task, layer, density):
        def array(name):
            return task(f"{layer}.{density}.{name}")
        inputs, outputs = LAYERS[layer]
        self.x = array("x.f32").view(-1, inputs).requires_grad_()
        self.dy = array("dy.f32").view(-1, outputs)
        self.start = array("w.f32").view(outputs, inputs)
        self.mask = array("mask.u8").view(outputs, inputs).float()
        self.expected = [array(f"{name}.f64") for name in ("y", "dx", "moved")]
        self.w = self.start.clone().requires_grad_()

    def step(self):
        self.w.grad = self.x.grad = None
        y = torch.nn.functional.linear(self.x, self.w)
        y.backward(self.dy)
        with torch.no_grad():
            self.w.grad.mul_(self.mask)
            self.w.add_(self.w.grad, alpha=-RATE)
        return y

    def error(self):
        with torch.no_grad():
            self.w.copy_(self.start)
        answers = [self.step().detach(), self.x.grad, self.w.detach()]
        return max(stopwatch.distance(a.flatten(), e) for a, e in zip(answers, self.expected))

    def work(self):
        self.step()
        return 1


class CsrLayer(MaskedLayer):
    """Of compressed rows, and of those of the turned matrix, whose values are the same in another order."""

    def __init__(self, task, layer, density):
        super().__init__(task, layer, density)
        self.x = self.x.detach()
        self.active = self.mask.nonzero(as_tuple=True)
        outputs, inputs = self.mask.shape
        self.order = torch.argsort(self.active[1] * outputs + self.active[0])
        self.rows = self.compressed(self.mask)
        self.columns = self.compressed(self.mask.t())
        self.nothing = torch.sparse_csr_tensor(*self.rows, torch.zeros(len(self.active[0])), (outputs, inputs))
        self.values = self.start[self.active].clone()

    @staticmethod
    def compressed(mask):
        csr = mask.contiguous().to_sparse_csr()
        return csr.crow_indices().int(), csr.col_indices().int()

    def step(self):
        w = torch.sparse_csr_tensor(*self.rows, self.values, self.mask.shape, check_invariants=False)
        turned = torch.sparse_csr_tensor(*self.columns, self.values[self.order], self.mask.t().shape, check_invariants=False)
        y = (w @ self.x.t()).t()
        dx = (turned @ self.dy.t()).t()
        dw = torch.sparse.sampled_addmm(self.nothing, self.dy.t(), self.x, beta=0)
        self.values.add_(dw.values(), alpha=-RATE)
        return y, dx

    def error(self):
        self.values = self.start[self.active].clone()
        y, dx = self.step()
        moved = torch.zeros_like(self.start)
        moved[self.active] = self.values
        return max(stopwatch.distance(a.flatten(), e) for a, e in zip((y, dx, moved), self.expected))


if __name__ == "__main__":
    TASK = stopwatch.Task(sys.argv[1])
    COMPETITORS = {}
    for LAYER in LAYERS:
        for DENSITY in DENSITIES:
            for NAME, KIND, ALLOWED in (("torch_masked", MaskedLayer, TOLERANCE), ("torch_csr", CsrLayer, CSR_TOLERANCE)):
                competitor = KIND(TASK, LAYER, DENSITY)
                COMPETITORS[f"{LAYER}/{DENSITY}/{NAME}"] = (competitor.error, ALLOWED, competitor.work)
    stopwatch.serve(COMPETITORS)
