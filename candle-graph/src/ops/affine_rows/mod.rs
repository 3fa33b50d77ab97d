//! Affine maps of columns and the sums around them in one pass over memory:
//! `(x + residual) ⊙ scale + shift + add`, where what is not there is left out. The callers check
//! shapes, choose the path and have the reference.

pub(super) mod cpu;
pub(super) mod gpu;
