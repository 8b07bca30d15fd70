//! Sums of numbers with a fraction, as Redis makes them: in the extended format of x86 (64 significant bits), and
//! written with 17 digits behind the point.

use num_bigint::BigUint;

/// The digits behind the point that a sum shows.
const FRACTION: usize = 17;
/// Ten to the power of `FRACTION`.
const ONE: u128 = 100_000_000_000_000_000;
/// A text of so many bytes is no number.
const MOST_BYTES: usize = 5120;
/// A finite number is less than two to this power.
const MOST_BITS: i64 = 16_384;
/// The least positive number is two to this power.
const LEAST: i64 = -16_445;
/// Decimal exponents beyond these are those of infinity, or of nothing.
const MOST_TENS: i64 = 5000;

/// A number in the extended format: `mantissa` times two to the power of `exponent`. The mantissa's first bit is set,
/// unless the number is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extended {
    is_negative: bool,
    mantissa: u64,
    exponent: i64,
}

/// A number that a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Finite(Extended),
    Infinite,
}

/// Rounds `bits` times two to the power of `exponent` to a mantissa; a tie goes to the even one. The lowest bit
/// of `bits` is set if there is more below it. `None` if the number is too large.
fn round(is_negative: bool, bits: u128, exponent: i64) -> Option<Extended> {
    let zero = Extended { is_negative, mantissa: 0, exponent: 0 };
    let length = i64::from(u128::BITS - bits.leading_zeros());
    // What is below the least number is not there, either.
    let drop = (length - 64).max(LEAST - exponent);
    if bits == 0 || drop > length {
        return Some(zero);
    }
    let (mut mantissa, mut exponent) = (bits, exponent);
    if drop > 0 {
        let half = 1_u128 << (drop - 1);
        let rest = bits & (half << 1).wrapping_sub(1);
        mantissa = bits.checked_shr(drop as u32).unwrap_or(0);
        mantissa += u128::from(rest > half || rest == half && mantissa % 2 == 1);
        exponent += drop;
    }
    if mantissa == 0 {
        return Some(zero);
    }
    // Rounding up may have made it one bit longer.
    let more = mantissa.leading_zeros() as i64 - 64;
    let mantissa = if more < 0 { mantissa >> 1 } else { mantissa << more };
    exponent -= more;
    let fits = exponent + 64 <= MOST_BITS;
    fits.then_some(Extended { is_negative, mantissa: mantissa as u64, exponent })
}

/// Rounds a quotient times two to a power.
fn divide(is_negative: bool, value: BigUint, by: BigUint, exponent: i64) -> Option<Extended> {
    /// More than a mantissa has, so that only one bit stands for the rest.
    const BITS: i64 = 66;
    // Shifted so that the quotient has as many bits, or one more.
    let shift = BITS + by.bits() as i64 - value.bits() as i64;
    let (value, by) = match shift {
        1.. => (value << shift, by),
        _ => (value, by << -shift),
    };
    let (quotient, rest) = (&value / &by, value % by);
    let quotient = u128::try_from(quotient).expect("it has at most 67 bits");
    round(is_negative, quotient << 1 | u128::from(rest != BigUint::ZERO), exponent - shift - 1)
}

/// The digits of a text, its exponent, and what follows.
struct Digits<'t> {
    value: BigUint,
    count: usize,
    /// How many of them are behind the point.
    behind: i64,
    rest: &'t [u8],
}

fn read_digits(text: &[u8], base: u32) -> Digits<'_> {
    let (mut digits, mut point, mut rest) = (Vec::new(), None, text);
    while let Some((&byte, next)) = rest.split_first() {
        match (byte as char).to_digit(base) {
            Some(digit) => digits.push(digit as u8),
            None if byte == b'.' && point.is_none() => point = Some(digits.len()),
            None => break,
        }
        rest = next;
    }
    let behind = point.map_or(0, |point| digits.len() - point) as i64;
    let value = BigUint::from_radix_be(&digits, base).unwrap_or_default();
    Digits { value, count: digits.len(), behind, rest }
}

/// Reads an exponent behind a letter. Without one the exponent is zero; `None` if something else is there.
fn read_exponent(text: &[u8], letter: u8) -> Option<i64> {
    let Some((first, rest)) = text.split_first() else { return Some(0) };
    let (is_negative, digits) = match rest {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if first.to_ascii_lowercase() != letter || digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = (value * 10 + i64::from(digit - b'0')).min(1 << 40);
    }
    Some(if is_negative { -value } else { value })
}

impl Number {
    /// Reads a number as `strtold` does, if the text is one as a whole.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (is_negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if text.len() >= MOST_BYTES {
            return None;
        }
        if [&b"inf"[..], b"infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word)) {
            return Some(Self::Infinite);
        }
        let (base, letter, text) = match unsigned {
            [b'0', b'x' | b'X', rest @ ..] => (16, b'p', rest),
            rest => (10, b'e', rest),
        };
        let digits = read_digits(text, base);
        let exponent = read_exponent(digits.rest, letter).filter(|_| digits.count > 0)?;
        if digits.value == BigUint::ZERO {
            return Some(Self::Finite(Extended { is_negative, mantissa: 0, exponent: 0 }));
        }
        let found = if base == 16 {
            divide(is_negative, digits.value, BigUint::from(1_u8), exponent - 4 * digits.behind)
        } else {
            let tens = exponent - digits.behind;
            if tens.abs() > MOST_TENS + MOST_BYTES as i64 {
                return None;
            }
            let scale = BigUint::from(10_u8).pow(tens.unsigned_abs() as u32);
            let (value, by) = match tens {
                0.. => (digits.value * scale, BigUint::from(1_u8)),
                _ => (digits.value, scale),
            };
            divide(is_negative, value, by, 0)
        };
        // What rounds to zero is out of range.
        found.filter(|it| it.mantissa != 0).map(Self::Finite)
    }
}

/// Shifts bits to the right. The lowest bit of the result is set if a bit was lost.
fn shift_right(bits: u128, by: u64) -> u128 {
    match by {
        0 => bits,
        1..128 => bits >> by | u128::from(bits & ((1 << by) - 1) != 0),
        _ => u128::from(bits != 0),
    }
}

impl Extended {
    /// Returns the sum; `None` if it is too large.
    fn plus(self, other: Self) -> Option<Self> {
        /// Bits below those of the mantissa: all but three of the free ones.
        const MORE: i64 = 61;
        let key = |it: Self| if it.mantissa == 0 { i64::MIN } else { it.exponent };
        let (large, small) = if key(self) >= key(other) { (self, other) } else { (other, self) };
        let apart = (large.exponent - small.exponent).unsigned_abs();
        let a = u128::from(large.mantissa) << MORE;
        let b = shift_right(u128::from(small.mantissa) << MORE, apart);
        let (bits, is_negative) = match large.is_negative == small.is_negative {
            true => (a + b, large.is_negative),
            false if a >= b => (a - b, large.is_negative),
            false => (b - a, small.is_negative),
        };
        round(is_negative && bits != 0, bits, large.exponent - MORE)
    }

    /// Writes the number without an exponent, and without zeros at the end of its fraction.
    fn text(self) -> String {
        let sign = if self.is_negative { "-" } else { "" };
        if self.exponent >= 0 {
            let value = BigUint::from(self.mantissa) << self.exponent;
            return if self.mantissa == 0 { "0".into() } else { format!("{sign}{value}") };
        }
        // The multiple of 10^-17 that is closest.
        let (value, shift) = (u128::from(self.mantissa) * ONE, self.exponent.unsigned_abs());
        let scaled = match shift {
            // Less than a half.
            127.. => 0,
            _ => {
                let (half, whole) = (1 << (shift - 1), value >> shift);
                let rest = value & ((1 << shift) - 1);
                whole + u128::from(rest > half || rest == half && whole % 2 == 1)
            }
        };
        let digits = format!("{scaled:0>width$}", width = FRACTION + 1);
        let (whole, fraction) = digits.split_at(digits.len() - FRACTION);
        match fraction.trim_end_matches('0') {
            "" if whole == "0" => "0".into(),
            "" => format!("{sign}{whole}"),
            fraction => format!("{sign}{whole}.{fraction}"),
        }
    }
}

/// Adds two numbers, and returns the sum's text; `None` if the sum is not finite.
pub(crate) fn add_floats(left: Number, right: Number) -> Option<String> {
    let (Number::Finite(left), Number::Finite(right)) = (left, right) else { return None };
    left.plus(right).map(Extended::text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(left: &str, right: &str) -> Option<String> {
        let number = |text: &str| Number::parse(text.as_bytes());
        add_floats(number(left)?, number(right)?)
    }

    #[test]
    fn sums_are_those_of_redis() {
        for (left, right, sum) in [
            ("10.50", "0.1", "10.6"),
            ("0.1", "0.2", "0.3"),
            ("5.0e3", "2.0e2", "5200"),
            ("10.6", "-5", "5.6"),
            ("1", "-1", "0"),
            ("-0.5", "0.25", "-0.25"),
            ("3", "1.5", "4.5"),
            (".5", "5.", "5.5"),
            ("0x1p3", "0X.8", "8.5"),
            ("9223372036854775807", "-0.25", "9223372036854775807"),
            ("9223372036854775807", "-0.75", "9223372036854775806"),
            ("-9223372036854775807", "1e2", "-9223372036854775707"),
            ("1e-2", "0.5", "0.51"),
            ("1e-4000", "0", "0"),
            ("92233720368547758070", "100", "92233720368547758176"),
            ("13.359223372036854775807", "0", "13.35922337203685478"),
        ] {
            assert_eq!(add(left, right).as_deref(), Some(sum), "{left} {right}");
        }
    }

    #[test]
    fn sums_are_finite() {
        assert_eq!(add("5e4931", "5e4931").map(|sum| sum.len()), Some(4933));
        assert_eq!(add("1.1e4932", "1.1e4932"), None);
        assert_eq!(Number::parse(b"-INFINITY"), Some(Number::Infinite));
        assert_eq!(add("inf", "1"), None);
        // The greatest number, and the first one that is not rounded to it.
        let most = "1.18973149535723176502e4932";
        assert!(add(most, "0").is_some());
        assert_eq!(add(most, "1e4913"), None);
        assert_eq!(Number::parse(b"1.18973149535723176509e4932"), None);
    }

    #[test]
    fn other_texts_are_no_numbers() {
        let long = "1".repeat(MOST_BYTES);
        for text in [
            "",
            "+",
            "-",
            ".",
            "e5",
            "1e",
            "1e+",
            "1 ",
            " 1",
            "1a",
            "1.2.3",
            "nan",
            "0x",
            "0xp1",
            "--1",
            "1e5000",
            "1e-5000",
            "1e99999999999999999999",
            &long,
        ] {
            assert_eq!(Number::parse(text.as_bytes()), None, "{text}");
        }
        assert!(Number::parse(&long.as_bytes()[1..]).is_none(), "too large");
        assert!(Number::parse(format!("0.{}", &long[3..]).as_bytes()).is_some());
    }

    /// The numbers of 53 bits that the language has are exact here, and so are their sums.
    #[test]
    fn doubles_are_exact() {
        for seed in 1..3000_u64 {
            let bits = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let value = f64::from_bits(bits & !(0x7ff << 52) | (1023 - 40 + bits % 100) << 52);
            let text = format!("{value:.17}");
            let exact = format!("{value:.1000}");
            let shown = text.trim_end_matches('0').trim_end_matches('.');
            let shown = if shown == "-0" { "0" } else { shown };
            assert_eq!(add(&exact, "0").as_deref(), Some(shown), "{value}");
            assert_eq!(add(&exact, &exact), add("0", &format!("{:.1000}", value * 2.0)), "{value}");
        }
    }
}
