//! Numbers as Redis reads and writes them.

/// Parses an integer in the one form that it has: no plus sign, no leading zeros, no spaces.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: u64 = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    match is_negative {
        true => 0_i64.checked_sub_unsigned(value),
        false => i64::try_from(value).ok(),
    }
}

/// Parses a cursor.
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a number with a fraction.
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    let is_spaced = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_whitespace);
    if is_spaced(text.first()) || is_spaced(text.last()) {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    text.parse::<f64>().ok().filter(|value| !value.is_nan())
}

/// The digits behind the point that sums keep.
const FRACTION: usize = 17;

/// Ten to the power of `FRACTION`.
const ONE: u128 = 100_000_000_000_000_000;
/// The digits in front of the point of a number that is added exactly.
const WHOLE: usize = 20;

/// Parses a number of few digits as a multiple of 10^-17.
fn parse_decimal(text: &[u8]) -> Option<i128> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (digits, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&digits[..at], parse_i64(&digits[at + 1..])?),
        None => (digits, 0),
    };
    let point = digits.iter().position(|&byte| byte == b'.').unwrap_or(digits.len());
    let fraction = digits.get(point + 1..).unwrap_or_default();
    // Digits that no sum shows are left out, if there is no exponent.
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let shown = if exponent == 0 { fraction.len().min(FRACTION) } else { fraction.len() };
    let is_up = fraction.get(shown).is_some_and(|&digit| digit >= b'5');
    let fraction = &fraction[..shown];
    let shift = exponent.checked_add(FRACTION as i64)?.checked_sub(fraction.len() as i64)?;
    let shift = usize::try_from(shift).ok().filter(|&shift| shift <= FRACTION + WHOLE)?;
    let significant = digits[..point].iter().skip_while(|&&byte| byte == b'0').count();
    if significant + fraction.len() + shift > FRACTION + WHOLE
        || digits == b"."
        || digits.is_empty()
    {
        return None;
    }
    let mut value: i128 = 0;
    for digit in digits[..point].iter().chain(fraction).chain(std::iter::repeat_n(&b'0', shift)) {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i128::from(digit - b'0');
    }
    value += i128::from(is_up);
    Some(if is_negative { -value } else { value })
}

/// Rounds a multiple of 10^-17 to 64 significant bits, as the processor's extended numbers have them.
fn round(value: u128) -> u128 {
    let whole_bits = u128::BITS - (value / ONE).leading_zeros();
    if whole_bits > u64::BITS {
        let unit = ONE << (whole_bits - u64::BITS);
        return (value + unit / 2) / unit * unit;
    }
    let fraction_bits = u64::BITS - whole_bits;
    let shifted = value << fraction_bits;
    let (mantissa, rest) = (shifted / ONE, shifted % ONE);
    let is_up = rest * 2 > ONE || rest * 2 == ONE && mantissa % 2 == 1;
    let scaled = (mantissa + u128::from(is_up)) * ONE;
    // Digits that are not shown are rounded, too.
    let half = (1 << fraction_bits) / 2;
    (scaled + half) >> fraction_bits
}

/// Writes a number without an exponent, and without zeros at the end of its fraction.
pub(crate) fn write_float(value: f64) -> String {
    let mut text = format!("{value:.FRACTION$}");
    // The shortest form that means the number, if it has few digits.
    let short = format!("{value}");
    if short.len() < text.len() {
        text = short;
    }
    trim(text)
}

fn trim(mut text: String) -> String {
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if text == "-0" { "0".into() } else { text }
}

/// Adds two numbers, in decimal digits where they suffice, and returns the sum's text; `None` if the sum
/// is not finite.
pub(crate) fn add_floats(left: &[u8], right: &[u8]) -> Option<String> {
    if let (Some(left), Some(right)) = (parse_decimal(left), parse_decimal(right)) {
        let sum = left + right;
        let rounded = round(sum.unsigned_abs());
        let digits = format!("{rounded:0>width$}", width = FRACTION + 1);
        let (whole, fraction) = digits.split_at(digits.len() - FRACTION);
        let sign = if sum < 0 { "-" } else { "" };
        return Some(trim(format!("{sign}{whole}.{fraction}")));
    }
    let sum = parse_float(left)? + parse_float(right)?;
    sum.is_finite().then(|| write_float(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_form() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("18446744073709551616", None),
            ("01", None),
            ("+1", None),
            ("-0", None),
            ("", None),
            ("-", None),
            (" 1", None),
            ("1a", None),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn sums_have_few_digits() {
        for (left, right, sum) in [
            ("10.50", "0.1", "10.6"),
            ("0.1", "0.2", "0.3"),
            ("5.0e3", "2.0e2", "5200"),
            ("10.6", "-5", "5.6"),
            ("1", "-1", "0"),
            ("-0.5", "0.25", "-0.25"),
            ("3", "1.5", "4.5"),
            ("9223372036854775807", "-0.25", "9223372036854775807"),
            ("9223372036854775807", "-0.75", "9223372036854775806"),
            ("-9223372036854775807", "1e2", "-9223372036854775707"),
            ("1e-2", "0.5", "0.51"),
            ("92233720368547758070", "100", "92233720368547758168"),
            ("13.359223372036854775807", "0", "13.35922337203685478"),
        ] {
            assert_eq!(add_floats(left.as_bytes(), right.as_bytes()).as_deref(), Some(sum));
        }
        assert_eq!(add_floats(b"1e308", b"1e308"), None);
        assert_eq!(add_floats(b"1 ", b"1"), None);
    }
}
