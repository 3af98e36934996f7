/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/stage.hpp - tensors as the table takes them: contiguous memory. Others are copied to such before, or back behind. */
#ifndef NIGH_TORCH_STAGE_H
#define NIGH_TORCH_STAGE_H

#include <ATen/core/Tensor.h>

#include <nigh/transport.h>

#include <string>

namespace nigh_torch
{

/* Throws unless it is a dense tensor on the CPU. `what` begins the sentence. */
void check_tensor(const at::Tensor &tensor, const std::string &what);
/* Its elements in order, in contiguous memory: the tensor itself if it is so. */
at::Tensor to_read(const at::Tensor &tensor, const std::string &what);
/* Memory for its elements: the tensor itself if it is contiguous, else a new one, which copy_back() brings there. */
at::Tensor to_write(const at::Tensor &tensor, const std::string &what);
/* The same with its elements in it. */
at::Tensor to_change(const at::Tensor &tensor, const std::string &what);
void copy_back(const at::Tensor &tensor, const at::Tensor &flat);
bool overlap(const at::Tensor &a, const at::Tensor &b);

/* NIGH_OPAQUE: only moved. */
enum nigh_type type_of(at::ScalarType type);

} // namespace nigh_torch

#endif
