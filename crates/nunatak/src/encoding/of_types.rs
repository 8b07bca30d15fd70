//! [`Encoding`]s of the types of the language.

use super::traits::{Encoding, KeyEncoding};
use crate::error::Error;
use crate::seeded::{Bug, seeded};

impl Encoding for String {
    type Owned = Self;
    type Ref = str;
    type View<'b> = &'b str;

    fn name() -> String {
        "str".into()
    }

    fn encode(item: &str, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.extend_from_slice(item.as_bytes());
        Ok(())
    }

    fn as_bytes(item: &str) -> Option<&[u8]> {
        Some(item.as_bytes())
    }

    fn decode(bytes: &[u8]) -> Option<&str> {
        core::str::from_utf8(bytes).ok()
    }

    fn to_owned(view: &str) -> Self {
        view.into()
    }

    fn borrow(owned: &Self) -> &str {
        owned
    }
}

impl KeyEncoding for String {}

impl Encoding for Vec<u8> {
    type Owned = Self;
    type Ref = [u8];
    type View<'b> = &'b [u8];

    fn name() -> String {
        "bytes".into()
    }

    fn encode(item: &[u8], bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.extend_from_slice(item);
        Ok(())
    }

    fn as_bytes(item: &[u8]) -> Option<&[u8]> {
        Some(item)
    }

    fn decode(bytes: &[u8]) -> Option<&[u8]> {
        Some(bytes)
    }

    fn to_owned(view: &[u8]) -> Self {
        view.to_vec()
    }

    fn borrow(owned: &Self) -> &[u8] {
        owned
    }
}

impl KeyEncoding for Vec<u8> {}

impl<const N: usize> Encoding for [u8; N] {
    type Owned = Self;
    type Ref = Self;
    type View<'b> = &'b Self;
    const WIDTH: Option<usize> = Some(N);

    fn name() -> String {
        format!("bytes{N}")
    }

    fn encode(item: &Self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.extend_from_slice(item);
        Ok(())
    }

    fn as_bytes(item: &Self) -> Option<&[u8]> {
        Some(item)
    }

    fn decode(bytes: &[u8]) -> Option<&Self> {
        bytes.try_into().ok()
    }

    fn to_owned(view: &Self) -> Self {
        *view
    }

    fn borrow(owned: &Self) -> &Self {
        owned
    }
}

impl<const N: usize> KeyEncoding for [u8; N] {}

/// Types that are copied: their name, the number that is stored, and the two conversions.
macro_rules! copied {
    ($($type:ty, $name:literal, $stored:ty, $to:expr, $from:expr;)*) => {$(
        impl Encoding for $type {
            type Owned = Self;
            type Ref = Self;
            type View<'b> = Self;
            const WIDTH: Option<usize> = Some(size_of::<$stored>());

            fn name() -> String {
                $name.into()
            }

            fn encode(item: &Self, bytes: &mut Vec<u8>) -> Result<(), Error> {
                let to: fn(Self) -> $stored = $to;
                bytes.extend_from_slice(&to(*item).to_le_bytes());
                Ok(())
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                let from: fn($stored) -> Option<Self> = $from;
                from(<$stored>::from_le_bytes(bytes.try_into().ok()?))
            }

            fn to_owned(view: Self) -> Self {
                view
            }

            fn borrow(owned: &Self) -> &Self {
                owned
            }
        }
    )*};
}

copied! {
    u8, "u8", u8, |item| item, Some;
    u16, "u16", u16, |item| item, Some;
    u32, "u32", u32, |item| item, Some;
    u64, "u64", u64, |item| item, Some;
    u128, "u128", u128, |item| item, Some;
    usize, "u64", u64, |item| item as u64, |word| word.try_into().ok();
    i8, "i8", i8, |item| item, Some;
    i16, "i16", i16, |item| item, Some;
    i32, "i32", i32, |item| item, Some;
    i64, "i64", i64, |item| item, Some;
    i128, "i128", i128, |item| item, Some;
    isize, "i64", i64, |item| item as i64, |word| word.try_into().ok();
    f32, "f32", f32, |item| item, Some;
    f64, "f64", f64, |item| item, Some;
    bool, "bool", u8, u8::from, |byte| [Some(false), Some(true)].get(usize::from(byte)).copied()?;
    char, "char", u32, u32::from, char::from_u32;
}

macro_rules! are_keys {
    ($($type:ty)*) => { $(impl KeyEncoding for $type {})* };
}

are_keys! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize bool char }

impl KeyEncoding for () {}

impl Encoding for () {
    type Owned = ();
    type Ref = ();
    type View<'b> = ();
    const WIDTH: Option<usize> = Some(0);

    fn name() -> String {
        "()".into()
    }

    fn encode((): &(), _bytes: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }

    fn to_owned((): ()) {}

    fn borrow(owned: &()) -> &() {
        owned
    }
}

impl<E: Encoding> Encoding for Option<E> {
    type Owned = Option<E::Owned>;
    type Ref = Option<E::Owned>;
    type View<'b> = Option<E::View<'b>>;

    fn name() -> String {
        format!("{}?", E::name())
    }

    fn encode(item: &Self::Ref, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.push(u8::from(item.is_some()));
        item.as_ref().map_or(Ok(()), |item| E::encode(E::borrow(item), bytes))
    }

    fn decode(bytes: &[u8]) -> Option<Self::View<'_>> {
        match bytes {
            [0] => Some(None),
            [1, rest @ ..] => E::decode(rest).map(Some),
            _ => None,
        }
    }

    fn to_owned(view: Self::View<'_>) -> Self::Owned {
        view.map(E::to_owned)
    }

    fn borrow(owned: &Self::Owned) -> &Self::Ref {
        owned
    }
}

impl<E: KeyEncoding> KeyEncoding for Option<E> {}

/// Appends a part of a tuple that another part follows.
fn encode_part<E: Encoding>(item: &E::Owned, bytes: &mut Vec<u8>) -> Result<(), Error> {
    let begin = bytes.len();
    let prefix = if E::WIDTH.is_some() { 0 } else { size_of::<u32>() };
    bytes.resize(begin + prefix, 0);
    E::encode(E::borrow(item), bytes)?;
    let length = bytes.len() - begin - prefix;
    match E::WIDTH {
        // Of parts without a length, two keys of other lengths could have the same bytes.
        Some(width) if width == length || seeded(Bug::WidthNotCompared) => Ok(()),
        Some(_) => Err(Error::Unencodable { what: "part of a tuple" }),
        None => {
            let length = u32::try_from(length).map_err(|_| Error::TooLong)?;
            bytes[begin..begin + prefix].copy_from_slice(&length.to_le_bytes());
            Ok(())
        }
    }
}

/// Takes a part of a tuple that another part follows.
fn decode_part<'b, E: Encoding>(bytes: &mut &'b [u8]) -> Option<E::View<'b>> {
    let length = match E::WIDTH {
        Some(width) => width,
        None => {
            let (length, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            u32::from_le_bytes(*length) as usize
        }
    };
    let (part, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    E::decode(part)
}

/// The width of a tuple whose parts have these.
const fn sum(widths: &[Option<usize>]) -> Option<usize> {
    let (mut sum, mut at) = (0, 0);
    while at < widths.len() {
        match widths[at] {
            Some(width) => sum += width,
            None => return None,
        }
        at += 1;
    }
    Some(sum)
}

macro_rules! tuples {
    ($(($($part:ident $view:ident)*) $last:ident;)*) => {$(
        #[allow(non_snake_case, reason = "parts have the names of their types")]
        impl<$($part: Encoding,)* $last: Encoding> Encoding for ($($part,)* $last) {
            type Owned = ($($part::Owned,)* $last::Owned);
            type Ref = Self::Owned;
            type View<'b> = ($($part::View<'b>,)* $last::View<'b>);
            const WIDTH: Option<usize> = sum(&[$($part::WIDTH,)* $last::WIDTH]);

            fn name() -> String {
                let parts = [$($part::name(),)* $last::name()];
                format!("({})", parts.join(", "))
            }

            fn encode(item: &Self::Ref, bytes: &mut Vec<u8>) -> Result<(), Error> {
                let ($($part,)* last) = item;
                $(encode_part::<$part>($part, bytes)?;)*
                $last::encode($last::borrow(last), bytes)
            }

            fn decode(bytes: &[u8]) -> Option<Self::View<'_>> {
                let mut rest = bytes;
                $(let $view = decode_part::<$part>(&mut rest)?;)*
                Some(($($view,)* $last::decode(rest)?))
            }

            fn to_owned(view: Self::View<'_>) -> Self::Owned {
                let ($($view,)* last) = view;
                ($($part::to_owned($view),)* $last::to_owned(last))
            }

            fn borrow(owned: &Self::Owned) -> &Self::Ref {
                owned
            }
        }

        impl<$($part: KeyEncoding,)* $last: KeyEncoding> KeyEncoding for ($($part,)* $last) {}
    )*};
}

tuples! {
    (A a) Z;
    (A a B b) Z;
    (A a B b C c) Z;
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Debug;

    /// Checks an item; what is shorter or longer by a byte is another item, or none.
    fn is_itself<E: Encoding<Owned: Debug + PartialEq>>(item: E::Owned, expected: &[u8]) {
        let mut bytes = vec![7];
        E::encode(E::borrow(&item), &mut bytes).unwrap();
        assert_eq!(&bytes[1..], expected);
        assert_eq!(E::decode(expected).map(E::to_owned).as_ref(), Some(&item));
        assert!(E::WIDTH.is_none_or(|width| width == expected.len()));
        let is_other = |bytes: &[u8]| E::decode(bytes).map(E::to_owned).as_ref() != Some(&item);
        assert!(expected.is_empty() || is_other(&expected[..expected.len() - 1]));
        assert!(is_other(&[expected, &[1]].concat()));
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        is_itself::<String>("née".into(), "née".as_bytes());
        is_itself::<Vec<u8>>(vec![], &[]);
        is_itself::<[u8; 3]>([1, 2, 3], &[1, 2, 3]);
        is_itself::<u16>(258, &[2, 1]);
        is_itself::<i128>(-1, &[255; 16]);
        is_itself::<usize>(1, &[1, 0, 0, 0, 0, 0, 0, 0]);
        is_itself::<isize>(-1, &[255; 8]);
        is_itself::<f64>(-0.0, &[0, 0, 0, 0, 0, 0, 0, 128]);
        is_itself::<bool>(true, &[1]);
        is_itself::<char>('é', &[0xE9, 0, 0, 0]);
        is_itself::<()>((), &[]);
        is_itself::<Option<String>>(None, &[0]);
        is_itself::<Option<String>>(Some("a".into()), &[1, b'a']);
        is_itself::<Option<Option<()>>>(Some(None), &[1, 0]);
        is_itself::<(u8, bool)>((7, false), &[7, 0]);
        is_itself::<(String, String)>(("ab".into(), "c".into()), b"\x02\0\0\0abc");
        is_itself::<(u8, String, u8)>((7, "a".into(), 8), b"\x07\x01\0\0\0a\x08");
        is_itself::<(u8, (String, u8), u8, ())>((7, ("a".into(), 8), 9, ()), {
            b"\x07\x06\0\0\0\x01\0\0\0a\x08\x09"
        });
        assert_eq!(<(u8, [u8; 4], bool)>::WIDTH, Some(6));
        assert_eq!(<(u8, (String, u8), [u8; 2])>::name(), "(u8, (str, u8), bytes2)");
    }

    #[test]
    fn bytes_of_no_item_are_refused() {
        assert_eq!(<String as Encoding>::decode(&[0xFF]), None);
        assert_eq!((bool::decode(&[2]), bool::decode(&[])), (None, None));
        assert_eq!(char::decode(&[0, 0xD8, 0, 0]), None);
        assert_eq!(<Option<u8>>::decode(&[0, 1]), None);
        assert_eq!(<Option<u8>>::decode(&[2, 1]), None);
        // A length beyond the end.
        assert_eq!(<(String, u8)>::decode(b"\xff\xff\xff\xffab"), None);
        assert_eq!(<(String, u8)>::decode(b"\x02\0\0"), None);
    }
}
