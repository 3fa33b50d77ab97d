// LayerNorm of a sum. A warp holds one row, PER_THREAD values a thread: mean first, then the variance
// around it.

KERNEL(layer_norm, OUT(scalar, out), IN(scalar, x), IN(scalar, residual), IN(scalar, weight),
       IN(scalar, bias), VALUE(uint, rows), VALUE(uint, width), VALUE(uint, x_stride),
       VALUE(uint, residual_stride), VALUE(float, eps)) {
    const uint row = GROUP_X * (THREADS / WARP) + THREAD / WARP;
    float own[PER_THREAD];
    float sum = 0.0f;
    UNROLL
    for (uint i = 0u; i < PER_THREAD; i++) {
        const uint column = i * WARP + THREAD % WARP;
        float value = 0.0f;
        if (row < rows && column < width) {
            value = LOAD(x, row * x_stride + column);
#if WITH_RESIDUAL
            value += LOAD(residual, row * residual_stride + column);
#endif
        }
        own[i] = value;
        sum += value;
    }
    WARP_SUM(sum)
    const float mean = sum / (float)width;
    float squares = 0.0f;
    UNROLL
    for (uint i = 0u; i < PER_THREAD; i++) {
        if (i * WARP + THREAD % WARP < width) {
            own[i] -= mean;
            squares = FMA(own[i], own[i], squares);
        }
    }
    WARP_SUM(squares)
    const float factor = 1.0f / SQRT(squares / (float)width + eps);
    UNROLL
    for (uint i = 0u; i < PER_THREAD; i++) {
        const uint column = i * WARP + THREAD % WARP;
        if (row < rows && column < width) {
            const float value = own[i] * factor;
            STORE(out, row * width + column, FMA(value, LOAD(weight, column), LOAD(bias, column)));
        }
    }
}
