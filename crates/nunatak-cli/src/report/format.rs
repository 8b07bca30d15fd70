//! Numbers, as people read them.

/// Formats a number with about three significant digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats a time in the unit that suits it.
pub(crate) fn nanoseconds(value: f64) -> String {
    match value {
        v if v >= 999.5e6 => format!("{} s", number(v / 1e9)),
        v if v >= 999.5e3 => format!("{} ms", number(v / 1e6)),
        v if v >= 999.5 => format!("{} µs", number(v / 1e3)),
        v => format!("{v:.0} ns"),
    }
}

/// Formats a share in percents, however small it is.
pub(crate) fn percent(share: f64) -> String {
    match 100.0 * share {
        v if v == 0.0 || v >= 0.1 => format!("{v:.2} %"),
        v => format!("{v:.1e} %"),
    }
}

/// Formats a number with its thousands set apart.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a number of threads: `1 thread`, `2 threads`.
pub(crate) fn thread_count(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([1.234, 12.34, 123.4].map(number), ["1.23", "12.3", "123"]);
        assert_eq!(
            [51.0, 1234.0, 2.5e6, 3e9].map(nanoseconds),
            ["51 ns", "1.23 µs", "2.50 ms", "3.00 s"]
        );
        assert_eq!([7, 1000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
    }
}
