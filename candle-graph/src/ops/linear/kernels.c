// Bias and activation behind a matrix product, a thread for every value.

KERNEL(linear_epilogue, OUT(scalar, out), IN(scalar, product), IN(scalar, bias), VALUE(uint, rows),
       VALUE(uint, width)) {
    const uint row = ROW, column = COLUMN;
    if (row < rows && column < width) {
        float sum = LOAD(product, row * width + column);
#if WITH_BIAS
        sum += LOAD(bias, column);
#endif
        STORE(out, row * width + column, activate(sum));
    }
}
