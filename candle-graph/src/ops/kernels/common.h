// What all kernels share, after the words of the compiler at hand.
//
// A kernel is written once, in the subset of C that CUDA, Metal and C compilers have in common:
// - KERNEL(name, OUT(type, name)..., IN(type, name)..., VALUE(type, name)...) { ... }: outputs, then
//   inputs, then values, as the launch lists them. Types are `scalar` (the dtype of the tensors,
//   read with LOAD and written with STORE), `float` and `uint`.
// - GROUP_X, GROUP_Y: the group; THREAD: the thread of the group, of THREADS. Only in kernels.
// - SHARED(type, name, size): memory of the group, declared at the beginning of a kernel.
// - BARRIER(): what one thread of the group writes to SHARED memory before it, others may read after
//   it; for all threads or none. BARRIER_OF_TENSORS() is the same for outputs that are read again.
// - SHUFFLE_XOR(value, lanes): the value of another thread of the warp; for all 32 or none.
// - activate(x): the activation that the constant ACTIVATION numbers (activation.h).
// - UNROLL before a loop whose bounds are constants and which indexes an array of the thread.
// - FUNCTION type name(...) for helpers.

#define WARP 32u

#if SCALAR == 32
typedef float scalar;
#define LOAD(values, at) ((values)[at])
#define STORE(values, at, value) ((values)[at] = (value))
#elif SCALAR == 16
typedef ushort scalar;
#define LOAD(values, at) half_to_float((values)[at])
#define STORE(values, at, value) ((values)[at] = float_to_half(value))
#else
// bfloat16: the upper half of a float, rounded to even.
typedef ushort scalar;
FUNCTION ushort float_to_brain(float value) {
    const uint bits = BITS_OF(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (ushort)((bits >> 16) | 0x40u);
    }
    return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
#define LOAD(values, at) FLOAT_OF((uint)(values)[at] << 16)
#define STORE(values, at, value) ((values)[at] = float_to_brain(value))
#endif

// Stands for minus infinity where a maximum begins.
#define LOWEST -3.4028234e38f

// Sum over the 32 threads of a warp; every one of them receives it.
#define WARP_SUM(value)                                                                            \
    for (uint lanes = WARP / 2u; lanes > 0u; lanes /= 2u) {                                        \
        value += SHUFFLE_XOR(value, lanes);                                                        \
    }

// Largest value over the 32 threads of a warp.
#define WARP_MAX(value)                                                                            \
    for (uint lanes = WARP / 2u; lanes > 0u; lanes /= 2u) {                                        \
        value = MAX(value, SHUFFLE_XOR(value, lanes));                                             \
    }
