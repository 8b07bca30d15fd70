//! Requests: arrays of bulk strings, and lines ("inline commands").
//!
//! A request may arrive in many pieces. The parser keeps what it knows of the first request of a buffer,
//! so that no byte is looked at twice, and never allocates for a length that was only announced.

use super::numbers::parse_i64;
use std::fmt;

/// The longest line: an inline command, or a length.
const MOST_LINE: usize = 64 << 10;

/// What a connection that has not given its password may send.
const MOST_UNAUTHENTICATED: (i64, i64) = (10, 16 << 10);

/// Where an argument is in its connection's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    fn new(start: usize, len: usize) -> Self {
        Self { start: start as u32, end: (start + len) as u32 }
    }
}

/// The arguments of a command; the first one is its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { bytes, spans }
    }

    pub(crate) fn len(self) -> usize {
        self.spans.len()
    }

    /// Returns an argument, or an empty string if there are fewer.
    #[inline(always)]
    pub(crate) fn at(self, index: usize) -> &'a [u8] {
        match self.spans.get(index) {
            Some(span) => &self.bytes[span.start as usize..span.end as usize],
            None => &[],
        }
    }

    /// Returns the arguments from an index on.
    pub(crate) fn from(self, index: usize) -> impl DoubleEndedIterator<Item = &'a [u8]> + Clone {
        (index..self.len()).map(move |index| self.at(index))
    }

    /// Whether an argument is this word, in any case.
    pub(crate) fn is(self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Copies the arguments, for a transaction.
    pub(crate) fn to_owned(self) -> (Vec<u8>, Vec<Span>) {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        for arg in self.from(0) {
            spans.push(Span::new(bytes.len(), arg.len()));
            bytes.extend_from_slice(arg);
        }
        (bytes, spans)
    }
}

/// Why a connection is closed: what it sent is not of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.0)
    }
}

fn malformed<T>(what: &str) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

/// What a request may contain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The bytes of an argument.
    pub(crate) bulk: usize,
    /// Whether the connection has given its password, or needs none.
    pub(crate) is_authenticated: bool,
}

/// The state of a request that has arrived in part.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// The first byte that was not looked at.
    at: usize,
    /// How many arguments are missing; `None` before the first line is complete.
    missing: Option<usize>,
    /// The length of the argument that begins at `at`.
    bulk: Option<usize>,
    spans: Vec<Span>,
}

/// Returns the line that begins at `at` and its length with the line's end, if it is complete.
fn line(bytes: &[u8], at: usize, what: &str) -> Result<Option<(usize, usize)>, Malformed> {
    let rest = &bytes[at..];
    match memchr::memchr(b'\n', &rest[..rest.len().min(MOST_LINE + 2)]) {
        Some(end) => {
            let text = if end > 0 && rest[end - 1] == b'\r' { end - 1 } else { end };
            Ok(Some((text, end + 1)))
        }
        None if rest.len() > MOST_LINE => malformed(what),
        None => Ok(None),
    }
}

/// Reads a number of up to seven digits that ends its line. Returns it and the length with the line's end;
/// `None` if the line is anything else, which may be all right.
#[inline(always)]
fn short_number(bytes: &[u8]) -> Option<(usize, usize)> {
    let (mut number, mut at) = (0, 0);
    loop {
        match *bytes.get(at)? {
            digit @ b'0'..=b'9' if at < 7 => number = 10 * number + usize::from(digit - b'0'),
            b'\r' if at > 0 && bytes.get(at + 1) == Some(&b'\n') => break,
            _ => return None,
        }
        at += 1;
    }
    // A number with a zero in front is none, and zero is rare.
    (bytes[0] != b'0').then_some((number, at + 2))
}

impl Parser {
    /// Returns the offset of the byte behind the last request.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Whether the next byte is the first one of a request.
    pub(crate) fn is_between(&self) -> bool {
        self.missing.is_none()
    }

    /// Begins with a request whose first byte is at this offset.
    pub(crate) fn restart(&mut self, at: usize) {
        self.at = at;
        self.missing = None;
        self.bulk = None;
        self.spans.clear();
    }

    /// Tells that so many bytes were taken away in front of the unfinished request.
    pub(crate) fn shift(&mut self, bytes: usize) {
        self.at -= bytes;
        for span in &mut self.spans {
            span.start -= bytes as u32;
            span.end -= bytes as u32;
        }
    }

    /// Appends the arguments of the next request to `found`. Returns whether there was one; it may
    /// have no arguments. Arguments of lines are unquoted in place.
    pub(crate) fn parse(
        &mut self,
        bytes: &mut [u8],
        limits: Limits,
        found: &mut Vec<Span>,
    ) -> Result<bool, Malformed> {
        if self.missing.is_none() {
            match bytes.get(self.at) {
                None => return Ok(false),
                Some(b'*') => {
                    let Some((count, end)) = self.count(bytes)? else { return Ok(false) };
                    if !limits.is_authenticated && count > MOST_UNAUTHENTICATED.0 {
                        return malformed("unauthenticated multibulk length");
                    }
                    self.at += end;
                    self.missing = Some(count.max(0) as usize);
                }
                Some(_) => return self.parse_line(bytes, found),
            }
        }
        while let Some(missing) = self.missing.filter(|&missing| missing > 0) {
            let Some(len) = self.bulk else {
                let Some((len, end)) = self.len(bytes, limits.bulk)? else { return Ok(false) };
                if !limits.is_authenticated && len > MOST_UNAUTHENTICATED.1 {
                    return malformed("unauthenticated bulk length");
                }
                self.at += end;
                self.bulk = Some(len as usize);
                continue;
            };
            if bytes.len() - self.at < len + 2 {
                return Ok(false);
            }
            self.spans.push(Span::new(self.at, len));
            self.at += len + 2;
            self.bulk = None;
            self.missing = Some(missing - 1);
        }
        found.append(&mut self.spans);
        self.missing = None;
        Ok(true)
    }

    /// Reads how many arguments a request has. Returns it and the length of its line, if that is complete.
    #[inline(always)]
    fn count(&self, bytes: &[u8]) -> Result<Option<(i64, usize)>, Malformed> {
        if let Some((count, end)) = short_number(&bytes[self.at + 1..]) {
            return Ok(Some((count as i64, end + 1)));
        }
        let what = "too big mbulk count string";
        let Some((text, end)) = line(bytes, self.at, what)? else { return Ok(None) };
        match parse_i64(&bytes[self.at + 1..self.at + text.max(1)]) {
            Some(count) if count <= i64::from(i32::MAX) => Ok(Some((count, end))),
            _ => malformed("invalid multibulk length"),
        }
    }

    /// Reads the length of an argument, as [`count`](Self::count).
    #[inline(always)]
    fn len(&self, bytes: &[u8], most: usize) -> Result<Option<(i64, usize)>, Malformed> {
        let Some(&kind) = bytes.get(self.at) else { return Ok(None) };
        if kind == b'$'
            && let Some((len, end)) = short_number(&bytes[self.at + 1..])
            && len <= most
        {
            return Ok(Some((len as i64, end + 1)));
        }
        let what = "too big bulk count string";
        let Some((text, end)) = line(bytes, self.at, what)? else { return Ok(None) };
        if kind != b'$' {
            return malformed(&format!("expected '$', got '{}'", char::from(kind)));
        }
        match parse_i64(&bytes[self.at + 1..self.at + text.max(1)]) {
            Some(len @ 0..) if len as usize <= most => Ok(Some((len, end))),
            _ => malformed("invalid bulk length"),
        }
    }

    fn parse_line(&mut self, bytes: &mut [u8], found: &mut Vec<Span>) -> Result<bool, Malformed> {
        let Some((text, end)) = line(bytes, self.at, "too big inline request")? else {
            return Ok(false);
        };
        let start = self.at;
        if !unquote(&mut bytes[start..start + text], start, found) {
            return malformed("unbalanced quotes in request");
        }
        self.at += end;
        Ok(true)
    }
}

/// Splits a line into words, as a shell does. Writes unquoted words over the line, which is never
/// shorter. Returns false if a quote is not closed, or something follows a closing quote.
fn unquote(line: &mut [u8], base: usize, found: &mut Vec<Span>) -> bool {
    let (mut from, mut to) = (0, 0);
    loop {
        while line.get(from).is_some_and(u8::is_ascii_whitespace) {
            from += 1;
        }
        if from == line.len() {
            return true;
        }
        let start = to;
        while let Some(&byte) = line.get(from).filter(|byte| !byte.is_ascii_whitespace()) {
            if byte != b'"' && byte != b'\'' {
                line[to] = byte;
                (from, to) = (from + 1, to + 1);
                continue;
            }
            from += 1;
            loop {
                let Some(&inner) = line.get(from) else { return false };
                if inner == byte {
                    from += 1;
                    break;
                }
                let (value, len) = match (inner, byte) {
                    (b'\\', b'"') => escape(&line[from..]),
                    (b'\\', _) if line.get(from + 1) == Some(&b'\'') => (b'\'', 2),
                    _ => (inner, 1),
                };
                line[to] = value;
                (from, to) = (from + len, to + 1);
            }
            if line.get(from).is_some_and(|byte| !byte.is_ascii_whitespace()) {
                return false;
            }
        }
        found.push(Span::new(base + start, to - start));
    }
}

/// Returns the byte that an escape sequence stands for, and the length of the sequence.
fn escape(text: &[u8]) -> (u8, usize) {
    let digit = |at: usize| text.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    match text.get(1) {
        Some(b'x') if digit(2).is_some() && digit(3).is_some() => {
            ((digit(2).unwrap_or(0) * 16 + digit(3).unwrap_or(0)) as u8, 4)
        }
        Some(b'n') => (b'\n', 2),
        Some(b'r') => (b'\r', 2),
        Some(b't') => (b'\t', 2),
        Some(b'b') => (8, 2),
        Some(b'a') => (7, 2),
        Some(&other) => (other, 2),
        None => (b'\\', 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { bulk: 1 << 20, is_authenticated: true };

    type Commands = Vec<Vec<Vec<u8>>>;

    /// Parses pieces of a stream as they arrive.
    fn parse_pieces(pieces: &[&[u8]], limits: Limits) -> Result<Commands, Malformed> {
        let (mut parser, mut buffer, mut commands) = (Parser::default(), Vec::new(), Vec::new());
        for piece in pieces {
            buffer.extend_from_slice(piece);
            let mut spans = Vec::new();
            while parser.parse(&mut buffer, limits, &mut spans)? {
                commands.push(Args::new(&buffer, &spans).from(0).map(<[u8]>::to_vec).collect());
                spans.clear();
            }
        }
        Ok(commands)
    }

    fn parse(text: &str) -> Result<Commands, Malformed> {
        parse_pieces(&[text.as_bytes()], LIMITS)
    }

    fn encode(command: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for arg in command {
            bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            bytes.extend_from_slice(arg);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    #[test]
    fn lines_are_split_as_a_shell_does() {
        let words = |words: &[&str]| {
            let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            Ok(vec![words]) as Result<Commands, Malformed>
        };
        assert_eq!(parse("SET a b\r\n"), words(&["SET", "a", "b"]));
        assert_eq!(parse("PING\n"), words(&["PING"]));
        assert_eq!(parse("a \"b\\x41\\n\" 'c\\''\r\n"), words(&["a", "bA\n", "c'"]));
        assert_eq!(parse("\r\n"), Ok(vec![vec![]]));
        assert_eq!(parse("a \"b\r\n"), malformed("unbalanced quotes in request"));
        assert_eq!(parse("a \"b\"c\r\n"), malformed("unbalanced quotes in request"));
        assert_eq!(parse(&"a".repeat(MOST_LINE + 1)), malformed("too big inline request"));
    }

    #[test]
    fn hostile_lengths_are_refused() {
        for (text, what) in [
            ("*2147483648\r\n", "invalid multibulk length"),
            ("*x\r\n", "invalid multibulk length"),
            ("*\r\n", "invalid multibulk length"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n$99999999999\r\n", "invalid bulk length"),
            ("*1\r\n$ 1\r\n", "invalid bulk length"),
            ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ] {
            assert_eq!(parse(text), malformed(what), "{text}");
        }
        let stranger = Limits { is_authenticated: false, ..LIMITS };
        let refused = parse_pieces(&[b"*11\r\n"], stranger);
        assert_eq!(refused, malformed("unauthenticated multibulk length"));
        let refused = parse_pieces(&[b"*1\r\n$16385\r\n"], stranger);
        assert_eq!(refused, malformed("unauthenticated bulk length"));
        assert_eq!(parse("*2147483647\r\n$1\r\na\r\n"), Ok(vec![]));
        assert_eq!(parse("*-1\r\n*0\r\n"), Ok(vec![vec![], vec![]]));
    }

    proptest! {
        /// A stream means the same however it is cut.
        #[test]
        fn pieces_do_not_matter(
            commands in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6), 0..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let stream: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.sort_unstable();
            let (mut pieces, mut start) = (Vec::new(), 0);
            for cut in cuts.into_iter().chain([stream.len()]) {
                pieces.push(&stream[start..cut]);
                start = cut;
            }
            prop_assert_eq!(parse_pieces(&pieces, LIMITS), Ok(commands));
        }

        /// No bytes make the parser panic.
        #[test]
        fn any_bytes_are_judged(bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(&b"*$\r\n\"'\\0123456789-"[..])], 0..200)) {
            let _ = parse_pieces(&[&bytes], LIMITS);
        }
    }
}
