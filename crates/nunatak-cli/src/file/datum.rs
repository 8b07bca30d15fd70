//! The types of keys and values: numbers of 64 bits, or byte strings.

use bstr::ByteVec as _;
use std::io::{self, Read, Write};

/// A key or a value: text on the command line and in lines, bytes in dumps.
pub(super) trait Datum: Clone + Ord + Sized {
    /// The name of the type.
    const NAME: &'static str;
    /// Why a text is not a key or a value.
    const EXPECTED: &'static str;

    /// Whether these are byte strings.
    const IS_BYTES: bool;

    /// Parses a text.
    fn parse(text: &str) -> Option<Self>;
    /// Returns the text, without tabs and ends of lines.
    fn text(&self) -> String;
    /// Reads a key or a value; `None` at the end of the input.
    fn read(input: &mut impl Read) -> io::Result<Option<Self>>;
    /// Writes the bytes.
    fn write(&self, out: &mut impl Write) -> io::Result<()>;
    /// Makes a key or a value from a number, for tests.
    fn of_number(number: u64) -> Self;
    /// Returns the number that made it; `None` if no number did.
    fn number(&self) -> Option<u64>;
}

/// Reads an array of bytes; `None` if the input has ended.
fn read_bytes<const N: usize>(input: &mut impl Read) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match input.read(&mut bytes[filled..])? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => filled += more,
        }
    }
    Ok(Some(bytes))
}

/// Text is decimal or, after 0x, hexadecimal. In bytes a number has eight, the lowest first.
impl Datum for u64 {
    const NAME: &'static str = "64-bit";
    const EXPECTED: &'static str = "a key and a value are numbers of 64 bits";
    const IS_BYTES: bool = false;

    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => Self::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn read(input: &mut impl Read) -> io::Result<Option<Self>> {
        Ok(read_bytes(input)?.map(Self::from_le_bytes))
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.to_le_bytes())
    }

    fn of_number(number: u64) -> Self {
        number
    }

    fn number(&self) -> Option<u64> {
        Some(*self)
    }
}

/// Text has escapes for all but printable ASCII. In bytes a string has a length of four bytes, the
/// lowest first, and then its bytes.
impl Datum for Vec<u8> {
    const NAME: &'static str = "byte-string";
    const EXPECTED: &'static str = "a byte string is too long";
    const IS_BYTES: bool = true;

    fn parse(text: &str) -> Option<Self> {
        Some(Self::unescape_bytes(text))
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for &byte in self {
            match byte {
                // Quotation marks need no escape here.
                b'"' | b'\'' => text.push(char::from(byte)),
                _ => text.extend(std::ascii::escape_default(byte).map(char::from)),
            }
        }
        text
    }

    fn read(input: &mut impl Read) -> io::Result<Option<Self>> {
        let Some(length) = read_bytes(input)? else { return Ok(None) };
        let length = u64::from(u32::from_le_bytes(length));
        let mut bytes = Self::new();
        // The string is not allocated at once: in a damaged input the length may be anything.
        let read = input.by_ref().take(length).read_to_end(&mut bytes)?;
        match read as u64 == length {
            true => Ok(Some(bytes)),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let length = u32::try_from(self.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(self)
    }

    /// The length varies, and all bytes depend on the number.
    fn of_number(number: u64) -> Self {
        let length = 8 + number % 97 * (number % 13);
        number.to_le_bytes().into_iter().cycle().take(length as usize).collect()
    }

    fn number(&self) -> Option<u64> {
        let number = u64::from_le_bytes(*self.first_chunk()?);
        (*self == Self::of_number(number)).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_itself<D: Datum + core::fmt::Debug>(datum: &D) {
        assert_eq!(D::parse(&datum.text()).as_ref(), Some(datum));
        let mut bytes = Vec::new();
        datum.write(&mut bytes).unwrap();
        assert_eq!(D::read(&mut bytes.as_slice()).unwrap().as_ref(), Some(datum));
        assert!(D::read(&mut &bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn what_was_written_is_read() {
        [0, 1, 255, u64::MAX].iter().for_each(is_itself);
        let all = Vec::from_iter(0..=u8::MAX);
        [vec![], vec![0], b"a\tb\\n\n\"'".to_vec(), all].iter().for_each(is_itself);
        assert_eq!(u64::read(&mut io::empty()).unwrap(), None);
        assert_eq!(Vec::read(&mut io::empty()).unwrap(), None);
    }

    #[test]
    fn numbers_are_told_from_others() {
        for number in (0..1000).chain([u64::MAX]) {
            assert_eq!(Vec::of_number(number).number(), Some(number));
        }
        assert_eq!((b"1234567".to_vec().number(), b"123456789".to_vec().number()), (None, None));
        assert_eq!((u64::parse("0xff"), u64::parse("x"), u64::parse("")), (Some(255), None, None));
    }
}
