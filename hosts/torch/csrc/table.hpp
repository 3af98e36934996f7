/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/table.hpp - nigh.so, which lies beside this object in the package. */
#ifndef NIGH_TORCH_TABLE_H
#define NIGH_TORCH_TABLE_H

#include <nigh/transport.h>

namespace nigh_torch
{

/* Loads $NIGH_PLUGIN, else the nigh.so beside this object. The table stays good until the process ends. Throws
 * std::runtime_error that says what failed and what to do. */
const struct nigh_ops *load_table();

} // namespace nigh_torch

#endif
