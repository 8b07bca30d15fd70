//! Encodings that are not what they say.

#![allow(dead_code, reason = "each test uses a part")]

use nunatak::Error;
#[cfg(not(miri))]
use nunatak::durable::{Encoding, KeyEncoding};
#[cfg(miri)]
use nunatak::encoding::{Encoding, KeyEncoding};

/// Strings, of which it says that each has one byte.
pub(crate) struct OneByte;

impl Encoding for OneByte {
    type Owned = String;
    type Ref = str;
    type View<'b> = &'b str;
    const WIDTH: Option<usize> = Some(1);

    fn name() -> String {
        "one byte".into()
    }
    fn encode(item: &str, bytes: &mut Vec<u8>) -> Result<(), Error> {
        String::encode(item, bytes)
    }
    fn decode(bytes: &[u8]) -> Option<&str> {
        String::decode(bytes)
    }
    fn to_owned(view: &str) -> String {
        view.into()
    }
    fn borrow(owned: &String) -> &str {
        owned
    }
}

impl KeyEncoding for OneByte {}

/// Any bytes, of which it says that they are a `u64`.
pub(crate) struct Loose;

impl Encoding for Loose {
    type Owned = Vec<u8>;
    type Ref = [u8];
    type View<'b> = &'b [u8];

    fn name() -> String {
        u64::name()
    }
    fn encode(item: &[u8], bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.extend(item);
        Ok(())
    }
    fn decode(bytes: &[u8]) -> Option<&[u8]> {
        Some(bytes)
    }
    fn to_owned(view: &[u8]) -> Vec<u8> {
        view.into()
    }
    fn borrow(owned: &Vec<u8>) -> &[u8] {
        owned
    }
}
