// The functions of mathematics by the names that CUDA and C share.
#define EXP(x) expf(x)
#define SQRT(x) sqrtf(x)
#define ABS(x) fabsf(x)
#define SIN(x) sinf(x)
#define COS(x) cosf(x)
#define MAX(a, b) fmaxf(a, b)
#define FMA(a, b, c) fmaf(a, b, c)
