// The activation function that the constant ACTIVATION numbers, for kernels that have one.
#ifdef ACTIVATION

// 1 / (1 + e^-x), without an overflow.
FUNCTION float logistic(float x) {
    const float small = EXP(-ABS(x));
    return (x >= 0.0f ? 1.0f : small) / (1.0f + small);
}

// e^x - 1 for x <= 0, exact near 0.
FUNCTION float exp_minus_one(float x) {
    if (x > -0.25f) {
        // Seven terms of the series leave 3e-9 of the result.
        float series = 1.0f / 5040.0f;
        series = FMA(series, x, 1.0f / 720.0f);
        series = FMA(series, x, 1.0f / 120.0f);
        series = FMA(series, x, 1.0f / 24.0f);
        series = FMA(series, x, 1.0f / 6.0f);
        series = FMA(series, x, 0.5f);
        return FMA(series * x, x, x);
    }
    return EXP(x) - 1.0f;
}

// The error function: a rational map of the axis and a Chebyshev fit of its complement, whose
// relative error is 1.2e-7.
FUNCTION float error_function(float x) {
    const float size = ABS(x);
    const float t = 1.0f / FMA(0.5f, size, 1.0f);
    float fit = 0.17087277f;
    fit = FMA(fit, t, -0.82215223f);
    fit = FMA(fit, t, 1.48851587f);
    fit = FMA(fit, t, -1.13520398f);
    fit = FMA(fit, t, 0.27886807f);
    fit = FMA(fit, t, -0.18628806f);
    fit = FMA(fit, t, 0.09678418f);
    fit = FMA(fit, t, 0.37409196f);
    fit = FMA(fit, t, 1.00002368f);
    fit = FMA(fit, t, -1.26551223f);
    const float complement = t * EXP(fit - size * size);
    return x >= 0.0f ? 1.0f - complement : complement - 1.0f;
}

FUNCTION float leaky(float x, float slope) { return x > 0.0f ? x : slope * x; }

FUNCTION float activate(float x) {
#if ACTIVATION == 0
    return x;
#elif ACTIVATION == 1
    return x < 0.0f ? 0.0f : x;
#elif ACTIVATION == 2
    return 0.5f * x * (1.0f + error_function(0.70710678f * x));
#elif ACTIVATION == 3
    return x * logistic(1.5957691f * FMA(0.044715f * x * x, x, x));
#elif ACTIVATION == 4
    return x * logistic(x);
#elif ACTIVATION == 5
    return x > 0.0f ? x : exp_minus_one(x);
#elif ACTIVATION == 6
    return 1.05070099f * (x > 0.0f ? x : 1.67326324f * exp_minus_one(x));
#elif ACTIVATION == 7
    return leaky(x, 0.1f);
#elif ACTIVATION == 8
    return leaky(x, 0.2f);
#elif ACTIVATION == 9
    return leaky(x, 0.25f);
#elif ACTIVATION == 10
    return leaky(x, 0.3f);
#else
    return leaky(x, 0.5f);
#endif
}

#endif
