/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/combine.cc - reductions between hosts: results of whole hosts are combined, element by element. */
#include "hosts.hpp"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/complex.h>

#include <cmath>

namespace nigh_torch
{

namespace
{

template <typename T> struct is_complex : std::false_type {
};
template <typename T> struct is_complex<c10::complex<T>> : std::true_type {
};

/* As torch's minimum and maximum: NaN stays. */
template <typename T> bool is_nan(const T &value)
{
    return value != value;
}

template <typename T> T lesser(T a, T b)
{
    return is_nan(a) || a < b ? a : b;
}

template <typename T> T greater(T a, T b)
{
    return is_nan(a) || a > b ? a : b;
}

template <typename T, typename F> void each(T *into, const T *from, uint64_t count, F op)
{
    for (uint64_t i = 0; i < count; i++)
        into[i] = op(into[i], from[i]);
}

template <typename T> bool combine_as(uint32_t op, T *into, const T *from, uint64_t count)
{
    switch (op) {
    case NIGH_SUM:
    case NIGH_AVG:
    case NIGH_PREMUL:
        each(into, from, count, [](T a, T b) { return static_cast<T>(a + b); });
        return true;
    case NIGH_PROD:
        each(into, from, count, [](T a, T b) { return static_cast<T>(a * b); });
        return true;
    default:
        break;
    }
    if constexpr (!is_complex<T>::value) {
        if (op == NIGH_MIN || op == NIGH_MAX) {
            if (op == NIGH_MIN)
                each(into, from, count, [](T a, T b) { return lesser(a, b); });
            else
                each(into, from, count, [](T a, T b) { return greater(a, b); });
            return true;
        }
    }
    if constexpr (std::is_integral<T>::value) {
        switch (op) {
        case NIGH_BAND:
            each(into, from, count, [](T a, T b) { return static_cast<T>(a & b); });
            return true;
        case NIGH_BOR:
            each(into, from, count, [](T a, T b) { return static_cast<T>(a | b); });
            return true;
        case NIGH_BXOR:
            each(into, from, count, [](T a, T b) { return static_cast<T>(a ^ b); });
            return true;
        default:
            break;
        }
    }
    return false;
}

/* One byte, 0 or not 0: the sum is "or", the product "and". */
bool combine_bool(uint32_t op, uint8_t *into, const uint8_t *from, uint64_t count)
{
    switch (op) {
    case NIGH_SUM:
    case NIGH_MAX:
    case NIGH_BOR:
        each(into, from, count, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a || b); });
        return true;
    case NIGH_PROD:
    case NIGH_MIN:
    case NIGH_BAND:
        each(into, from, count, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a && b); });
        return true;
    case NIGH_BXOR:
        each(into, from, count, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(!a != !b); });
        return true;
    default:
        return false;
    }
}

template <typename T, typename N> void divide_as(void *data, uint64_t count, int by)
{
    T *at = static_cast<T *>(data);

    for (uint64_t i = 0; i < count; i++)
        at[i] = static_cast<T>(at[i] / static_cast<N>(by));
}

/* Calls it with a null pointer of the type of C++. False: there is none. */
template <typename F> bool with_type(uint32_t type, F call)
{
    switch (type) {
    case NIGH_I8:
        return call(static_cast<int8_t *>(nullptr));
    case NIGH_U8:
        return call(static_cast<uint8_t *>(nullptr));
    case NIGH_I16:
        return call(static_cast<int16_t *>(nullptr));
    case NIGH_U16:
        return call(static_cast<uint16_t *>(nullptr));
    case NIGH_I32:
        return call(static_cast<int32_t *>(nullptr));
    case NIGH_U32:
        return call(static_cast<uint32_t *>(nullptr));
    case NIGH_I64:
        return call(static_cast<int64_t *>(nullptr));
    case NIGH_U64:
        return call(static_cast<uint64_t *>(nullptr));
    case NIGH_F32:
        return call(static_cast<float *>(nullptr));
    case NIGH_F64:
        return call(static_cast<double *>(nullptr));
    case NIGH_F16:
        return call(static_cast<c10::Half *>(nullptr));
    case NIGH_BF16:
        return call(static_cast<c10::BFloat16 *>(nullptr));
    case NIGH_CF32:
        return call(static_cast<c10::complex<float> *>(nullptr));
    case NIGH_CF64:
        return call(static_cast<c10::complex<double> *>(nullptr));
    default:
        return false;
    }
}

} // namespace

bool combine(uint32_t type, uint32_t op, void *into, const void *from, uint64_t count)
{
    if (type == NIGH_BOOL)
        return combine_bool(op, static_cast<uint8_t *>(into), static_cast<const uint8_t *>(from), count);
    return with_type(type, [&](auto *of) {
        using T = std::remove_pointer_t<decltype(of)>;
        return combine_as(op, static_cast<T *>(into), static_cast<const T *>(from), count);
    });
}

void divide(uint32_t type, void *data, uint64_t count, int by)
{
    switch (type) {
    case NIGH_F32:
        return divide_as<float, float>(data, count, by);
    case NIGH_F64:
        return divide_as<double, double>(data, count, by);
    case NIGH_F16:
        return divide_as<c10::Half, float>(data, count, by);
    case NIGH_BF16:
        return divide_as<c10::BFloat16, float>(data, count, by);
    case NIGH_CF32:
        return divide_as<c10::complex<float>, float>(data, count, by);
    case NIGH_CF64:
        return divide_as<c10::complex<double>, double>(data, count, by);
    default:
        return;
    }
}

uint64_t width_of(const struct nigh_collective &call)
{
    uint64_t width = call.width;

    if (call.type == NIGH_BOOL)
        return 1;
    (void)with_type(call.type, [&](auto *of) {
        width = sizeof(*of);
        return true;
    });
    return width;
}

} // namespace nigh_torch
