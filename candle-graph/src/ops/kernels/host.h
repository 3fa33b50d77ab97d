// The words of the kernels for a C compiler, and a device that is one thread of the CPU: the threads
// of a group are fibers that hand over to each other at barriers and shuffles, in an order that the
// caller chooses. Memory of a group begins as large values, so that what is read before it is
// written shows.
#define _GNU_SOURCE
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define uint unsigned int
#define ushort unsigned short

#define KERNEL(name, ...) static void name(__VA_ARGS__)
#define IN(type, name) const type *name
#define OUT(type, name) type *name
#define VALUE(type, name) const type name
#define SHARED(type, name, size)                                                                   \
    static _Thread_local type name[size];                                                          \
    host_poison(name, sizeof(name))

#define FUNCTION static inline

#define UNROLL

#define THREAD host_current
#define GROUP_X host_group[0]
#define GROUP_Y host_group[1]
#define BARRIER() host_wait(HOST_AT_BARRIER, __LINE__)
#define BARRIER_OF_TENSORS() BARRIER()
#define SHUFFLE_XOR(value, lanes) host_shuffle(value, lanes, __LINE__)

static inline uint BITS_OF(float value) {
    uint bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static inline float FLOAT_OF(uint bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline float half_to_float(ushort bits) {
    const uint sign = (uint)(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) {
        return FLOAT_OF(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    }
    // The exponent of a half as one of a float, its subnormals included.
    const float magnitude = FLOAT_OF(rest << 13) * 0x1p112f;
    return FLOAT_OF(sign | BITS_OF(magnitude));
}

static inline ushort float_to_half(float value) {
    const uint bits = BITS_OF(value), sign = bits >> 16 & 0x8000u;
    const float magnitude = FLOAT_OF(bits & 0x7fffffffu);
    if (magnitude != magnitude) {
        return (ushort)(sign | 0x7e00u);
    }
    if (magnitude >= 65520.0f) {
        return (ushort)(sign | 0x7c00u);
    }
    if (magnitude < 0x1p-14f) {
        return (ushort)(sign | (uint)rintf(magnitude * 0x1p24f));
    }
    const uint kept = BITS_OF(magnitude);
    return (ushort)(sign | ((kept + 0xfffu + (kept >> 13 & 1u)) >> 13) - (112u << 10));
}

enum host_state { HOST_RUNNING, HOST_AT_BARRIER, HOST_AT_SHUFFLE, HOST_DONE };

struct host_fiber {
    ucontext_t context;
    char *stack;
    enum host_state state;
    int line;
    float given, received;
    uint lanes;
};

#define HOST_STACK 65536
#define HOST_MOST_SHARED 64

static _Thread_local uint host_current, host_group[3];
static _Thread_local struct host_fiber *host_fibers;
static _Thread_local ucontext_t host_scheduler;
static _Thread_local const void *host_poisoned[HOST_MOST_SHARED];
static _Thread_local uint host_poisoned_count;
static _Thread_local void **host_arguments;
static void host_entry(void **arguments);

static void host_poison(void *memory, size_t bytes) {
    for (uint i = 0; i < host_poisoned_count; i++) {
        if (host_poisoned[i] == memory) {
            return;
        }
    }
    if (host_poisoned_count < HOST_MOST_SHARED) {
        host_poisoned[host_poisoned_count++] = memory;
    }
    memset(memory, 0x7e, bytes);
}

static void host_wait(enum host_state state, int line) {
    const uint own = host_current;
    host_fibers[own].state = state;
    host_fibers[own].line = line;
    swapcontext(&host_fibers[own].context, &host_scheduler);
}

static float host_shuffle(float value, uint lanes, int line) {
    struct host_fiber *own = &host_fibers[host_current];
    own->given = value;
    own->lanes = lanes;
    host_wait(HOST_AT_SHUFFLE, line);
    return own->received;
}

static void host_start(void) {
    host_entry(host_arguments);
    host_fibers[host_current].state = HOST_DONE;
}

// Lets the fibers `from..to` go on if all of them wait in `state` at one line.
static int host_release(uint from, uint to, enum host_state state) {
    for (uint i = from; i < to; i++) {
        if (host_fibers[i].state != state || host_fibers[i].line != host_fibers[from].line) {
            return 0;
        }
    }
    for (uint i = from; i < to; i++) {
        if (state == HOST_AT_SHUFFLE) {
            const uint other = from + ((i - from) ^ host_fibers[i].lanes);
            host_fibers[i].received = other < to ? host_fibers[other].given : nanf("");
        }
    }
    for (uint i = from; i < to; i++) {
        host_fibers[i].state = HOST_RUNNING;
    }
    return 1;
}

// Runs one group; the number of a line where threads wait for others that never come, or 0.
static int host_run_group(uint threads, const uint *order) {
    host_poisoned_count = 0;
    for (uint i = 0; i < threads; i++) {
        struct host_fiber *fiber = &host_fibers[i];
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack;
        fiber->context.uc_stack.ss_size = HOST_STACK;
        fiber->context.uc_link = &host_scheduler;
        fiber->state = HOST_RUNNING;
        makecontext(&fiber->context, host_start, 0);
    }
    for (;;) {
        for (uint i = 0; i < threads; i++) {
            host_current = order[i];
            if (host_fibers[host_current].state == HOST_RUNNING) {
                swapcontext(&host_scheduler, &host_fibers[host_current].context);
            }
        }
        int moved = host_release(0, threads, HOST_AT_BARRIER);
        for (uint i = 0; i < threads; i += 32) {
            moved |= host_release(i, i + 32 < threads ? i + 32 : threads, HOST_AT_SHUFFLE);
        }
        if (moved) {
            continue;
        }
        for (uint i = 0; i < threads; i++) {
            if (host_fibers[i].state != HOST_DONE) {
                return host_fibers[i].line;
            }
        }
        return 0;
    }
}

// Runs all groups, the threads of each in the given order. Gives 0, the line of a barrier that not
// all threads reach, or -1 without memory.
int host_launch(void **arguments, const uint *groups, uint threads, const uint *order) {
    host_arguments = arguments;
    host_fibers = calloc(threads, sizeof(*host_fibers));
    char *stacks = malloc((size_t)threads * HOST_STACK);
    int line = host_fibers && stacks ? 0 : -1;
    for (uint i = 0; line == 0 && i < threads; i++) {
        host_fibers[i].stack = stacks + (size_t)i * HOST_STACK;
    }
    for (uint y = 0; line == 0 && y < groups[1]; y++) {
        for (uint x = 0; line == 0 && x < groups[0]; x++) {
            host_group[0] = x;
            host_group[1] = y;
            line = host_run_group(threads, order);
        }
    }
    free(stacks);
    free(host_fibers);
    return line;
}
