//! Patterns of keys: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a character that means itself.

/// Whether the text matches the pattern. Takes time proportional to the product of their lengths at
/// most, whatever the pattern.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if the last star must stand for one more byte.
    let mut star = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return true;
        }
        if t < text.len()
            && let Some(next) = match_one(pattern, p, text[t])
        {
            (p, t) = (next, t + 1);
            continue;
        }
        match star {
            Some((after, from)) if from < text.len() => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// Returns the place in the pattern behind the part that matches one byte.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        b'[' => {
            let (is_negated, mut at) = match pattern.get(at + 1) {
                Some(b'^') => (true, at + 2),
                _ => (false, at + 1),
            };
            let mut is_in = false;
            loop {
                match pattern.get(at) {
                    // A class that is not closed ends with the pattern.
                    None => break,
                    Some(b']') => {
                        at += 1;
                        break;
                    }
                    Some(b'\\') if at + 1 < pattern.len() => {
                        is_in |= pattern[at + 1] == byte;
                        at += 2;
                    }
                    Some(&first)
                        if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() =>
                    {
                        let last = pattern[at + 2];
                        is_in |= (first.min(last)..=first.max(last)).contains(&byte);
                        at += 3;
                    }
                    Some(&one) => {
                        is_in |= one == byte;
                        at += 1;
                    }
                }
            }
            (is_in != is_negated).then_some(at)
        }
        one => (one == byte).then_some(at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("", "", true),
            ("", "a", false),
            ("a*b*c*d", "axbxcxd", true),
            ("a[bc", "ab", true),
            ("*a*", "bbb", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    /// Many stars take no exponential time.
    #[test]
    fn many_stars_end() {
        let pattern = "a*".repeat(40) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(2000).as_bytes()));
    }
}
