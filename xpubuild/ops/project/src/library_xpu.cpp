#include <torch/library.h>

#include "fused/swiglu.h"

TORCH_LIBRARY_IMPL(xpubuild_ops, XPU, m) {
  m.impl("swiglu", &fused::swiglu_xpu);
  m.impl("swiglu_backward", &fused::swiglu_backward_xpu);
}
