// An affine map of columns with sums before and behind it, a thread for every value.

KERNEL(affine_rows, OUT(scalar, out), IN(scalar, x), IN(scalar, residual), IN(scalar, scale),
       IN(scalar, shift), IN(scalar, add), VALUE(uint, rows), VALUE(uint, width),
       VALUE(uint, x_stride), VALUE(uint, residual_stride), VALUE(uint, add_stride)) {
    const uint row = ROW, column = COLUMN;
    if (row < rows && column < width) {
        float value = LOAD(x, row * x_stride + column);
#if WITH_RESIDUAL
        value += LOAD(residual, row * residual_stride + column);
#endif
#if WITH_AFFINE
        value = FMA(value, LOAD(scale, column), LOAD(shift, column));
#endif
#if WITH_ADD
        value += LOAD(add, row * add_stride + column);
#endif
        STORE(out, row * width + column, value);
    }
}
