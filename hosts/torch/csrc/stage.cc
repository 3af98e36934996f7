/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/stage.cc - see stage.hpp. */
#include "stage.hpp"
#include "state.hpp"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

namespace nigh_torch
{

static bool is_plain(const at::Tensor &tensor)
{
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

void check_tensor(const at::Tensor &tensor, const std::string &what)
{
    if (!tensor.defined())
        raise(what + ": a tensor is undefined");
    if (!tensor.device().is_cpu())
        raise(what + ": a tensor is on " + tensor.device().str() +
              ": nigh takes tensors of the CPU; name another backend "
              "for this device, as in \"cpu:nigh,cuda:nccl\"");
    if (tensor.layout() != at::kStrided)
        raise(what + ": a sparse tensor; nigh takes dense ones");
}

at::Tensor to_read(const at::Tensor &tensor, const std::string &what)
{
    check_tensor(tensor, what);
    if (is_plain(tensor))
        return tensor;
    at::AutoDispatchBelowADInplaceOrView guard;
    return tensor.resolve_conj().resolve_neg().contiguous();
}

static void check_writable(const at::Tensor &tensor, const std::string &what)
{
    check_tensor(tensor, what);
    if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
        raise(what + ": several elements of a tensor that is written lie at one place, as those of expand() "
                     "do: give a "
                     "clone() of it");
}

at::Tensor to_write(const at::Tensor &tensor, const std::string &what)
{
    check_writable(tensor, what);
    if (is_plain(tensor))
        return tensor;
    at::AutoDispatchBelowADInplaceOrView guard;
    return at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));
}

at::Tensor to_change(const at::Tensor &tensor, const std::string &what)
{
    check_writable(tensor, what);
    if (is_plain(tensor))
        return tensor;
    at::AutoDispatchBelowADInplaceOrView guard;
    return tensor.resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous);
}

void copy_back(const at::Tensor &tensor, const at::Tensor &flat)
{
    at::AutoDispatchBelowADInplaceOrView guard;
    tensor.copy_(flat.view(tensor.sizes()));
}

bool overlap(const at::Tensor &a, const at::Tensor &b)
{
    const char *x = static_cast<const char *>(a.data_ptr()), *y = static_cast<const char *>(b.data_ptr());

    return a.nbytes() && b.nbytes() && x < y + b.nbytes() && y < x + a.nbytes();
}

enum nigh_type type_of(at::ScalarType type)
{
    switch (type) {
    case at::kChar:
        return NIGH_I8;
    case at::kByte:
        return NIGH_U8;
    case at::kShort:
        return NIGH_I16;
    case at::kUInt16:
        return NIGH_U16;
    case at::kInt:
        return NIGH_I32;
    case at::kUInt32:
        return NIGH_U32;
    case at::kLong:
        return NIGH_I64;
    case at::kUInt64:
        return NIGH_U64;
    case at::kFloat:
        return NIGH_F32;
    case at::kDouble:
        return NIGH_F64;
    case at::kBool:
        return NIGH_BOOL;
    case at::kHalf:
        return NIGH_F16;
    case at::kBFloat16:
        return NIGH_BF16;
    case at::kComplexFloat:
        return NIGH_CF32;
    case at::kComplexDouble:
        return NIGH_CF64;
    default:
        return NIGH_OPAQUE;
    }
}

} // namespace nigh_torch
