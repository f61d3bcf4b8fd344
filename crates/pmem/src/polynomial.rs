//! Arithmetic modulo the CRC-32C polynomial, in the reflected order the CRC is defined in:
//! the coefficient of degree d is bit 31 - d.

/// Castagnoli's polynomial, reflected, without its leading term.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// The order of x: x to this power is 1.
const ORDER_OF_X: u64 = (1 << 31) - 1;

/// a · x
const fn times_x(a: u32) -> u32 {
    let shifted = a >> 1;
    if a & 1 == 1 {
        shifted ^ POLYNOMIAL
    } else {
        shifted
    }
}

/// a · b
pub(crate) const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut a = a;
    let mut product = 0;
    while b != 0 {
        if b & ONE != 0 {
            product ^= a;
        }
        b <<= 1;
        a = times_x(a);
    }
    product
}

/// x to the `exponent`; negative powers exist, since x has an inverse.
pub(crate) const fn power_of_x(exponent: i64) -> u32 {
    let mut exponent = exponent.rem_euclid(ORDER_OF_X as i64) as u64;
    let mut square = times_x(ONE);
    let mut power = ONE;
    while exponent != 0 {
        if exponent & 1 == 1 {
            power = multiply(power, square);
        }
        square = multiply(square, square);
        exponent >>= 1;
    }
    power
}

/// a · b · x^33 modulo the CRC polynomial.
pub(crate) fn multiply_by_shift(a: u32, b: u32) -> u32 {
    const X_33: u32 = power_of_x(33);
    multiply(multiply(a, b), X_33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_x_is_what_is_assumed() {
        assert_eq!(power_of_x(ORDER_OF_X as i64), ONE);
        assert_eq!(multiply(power_of_x(-33), power_of_x(33)), ONE);
        assert_eq!(power_of_x(1), ONE >> 1);
    }
}
