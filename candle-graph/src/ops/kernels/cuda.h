// The words of the kernels for CUDA's compiler.
typedef unsigned int uint;
typedef unsigned short ushort;

#define KERNEL(name, ...) extern "C" __global__ void __launch_bounds__(THREADS) name(__VA_ARGS__)
#define IN(type, name) const type *__restrict__ name
#define OUT(type, name) type *__restrict__ name
#define VALUE(type, name) const type name
#define SHARED(type, name, size) __shared__ type name[size]

#define FUNCTION static __device__ __forceinline__

#define UNROLL _Pragma("unroll")

#define THREAD threadIdx.x
#define GROUP_X blockIdx.x
#define GROUP_Y blockIdx.y
#define BARRIER() __syncthreads()
#define BARRIER_OF_TENSORS() __syncthreads()
#define SHUFFLE_XOR(value, lanes) __shfl_xor_sync(0xffffffffu, value, lanes)

#define BITS_OF(x) __float_as_uint(x)
#define FLOAT_OF(bits) __uint_as_float(bits)

FUNCTION float half_to_float(ushort bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

FUNCTION ushort float_to_half(float value) {
    ushort bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
