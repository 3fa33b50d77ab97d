// The words of the kernels for Metal's compiler.
#include <metal_stdlib>
using namespace metal;

#define KERNEL(name, ...)                                                                          \
    [[max_total_threads_per_threadgroup(THREADS)]] kernel void name(                               \
        __VA_ARGS__, uint3 group_position [[threadgroup_position_in_grid]],                        \
        uint thread_position [[thread_index_in_threadgroup]])
#define IN(type, name) device const type *name
#define OUT(type, name) device type *name
#define VALUE(type, name) constant type &name
#define SHARED(type, name, size) threadgroup type name[size]

#define FUNCTION static inline

#define UNROLL _Pragma("clang loop unroll(full)")

#define THREAD thread_position
#define GROUP_X group_position.x
#define GROUP_Y group_position.y
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define BARRIER_OF_TENSORS()                                                                       \
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup)
#define SHUFFLE_XOR(value, lanes) simd_shuffle_xor(value, ushort(lanes))

#define EXP(x) exp(float(x))
#define SQRT(x) sqrt(float(x))
#define ABS(x) fabs(float(x))
#define SIN(x) precise::sin(float(x))
#define COS(x) precise::cos(float(x))
#define MAX(a, b) fmax(float(a), float(b))
#define FMA(a, b, c) fma(float(a), float(b), float(c))
#define BITS_OF(x) as_type<uint>(x)
#define FLOAT_OF(bits) as_type<float>(bits)

FUNCTION float half_to_float(ushort bits) { return float(as_type<half>(bits)); }

FUNCTION ushort float_to_half(float value) { return as_type<ushort>(half(value)); }
