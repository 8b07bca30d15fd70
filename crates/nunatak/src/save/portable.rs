//! [`Portable`]: types that are saved as bytes.

use std::sync::Arc;

/// A key or a value of a boxed map that can be saved. Implemented for integers, `bool`, `char`,
/// strings, byte strings and pairs; implement it for your own types.
///
/// ```
/// use nunatak::save::{Portable, Save};
/// use nunatak::DlhtBoxedMap;
///
/// #[derive(Clone, PartialEq, Debug)]
/// struct Session {
///     user: u64,
///     name: String,
/// }
///
/// impl Portable for Session {
///     fn write(&self, bytes: &mut Vec<u8>) {
///         self.user.write(bytes);
///         self.name.write(bytes);
///     }
///
///     fn read(bytes: &[u8]) -> Option<Self> {
///         let (user, name) = bytes.split_at_checked(8)?;
///         Some(Self { user: u64::read(user)?, name: String::read(name)? })
///     }
/// }
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("sessions");
/// let sessions: DlhtBoxedMap<String, Session> = DlhtBoxedMap::new();
/// sessions.insert("token".to_owned(), Session { user: 7, name: "Ada".to_owned() });
/// sessions.save(&path)?;
/// let sessions: DlhtBoxedMap<String, Session> = Save::load(&path)?;
/// assert_eq!(sessions.get("token").map(|session| session.user), Some(7));
/// # Ok::<(), nunatak::Error>(())
/// ```
pub trait Portable: Sized {
    /// Appends the value's bytes.
    ///
    /// ```
    /// use nunatak::save::Portable;
    /// let mut bytes = Vec::new();
    /// 258_u16.write(&mut bytes);
    /// assert_eq!(bytes, [2, 1]);
    /// ```
    fn write(&self, bytes: &mut Vec<u8>);

    /// Returns the value that was written as these bytes; `None` if there is none.
    ///
    /// ```
    /// use nunatak::save::Portable;
    /// assert_eq!((u16::read(&[2, 1]), u16::read(&[2])), (Some(258), None));
    /// ```
    fn read(bytes: &[u8]) -> Option<Self>;
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Portable for $integer {
            fn write(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64);

macro_rules! byte_strings {
    ($($type:ty, $of_bytes:expr;)*) => {$(
        impl Portable for $type {
            fn write(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(self.as_ref());
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                let of_bytes: fn(&[u8]) -> Option<$type> = $of_bytes;
                of_bytes(bytes)
            }
        }
    )*};
}

byte_strings! {
    Vec<u8>, |bytes| Some(bytes.to_vec());
    Box<[u8]>, |bytes| Some(bytes.into());
    Arc<[u8]>, |bytes| Some(bytes.into());
}

macro_rules! strings {
    ($($type:ty),*) => {$(
        impl Portable for $type {
            fn write(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(self.as_bytes());
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                core::str::from_utf8(bytes).ok().map(Self::from)
            }
        }
    )*};
}

strings!(String, Box<str>, Arc<str>);

impl Portable for () {
    fn write(&self, _bytes: &mut Vec<u8>) {}

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

impl Portable for bool {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(*self));
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl Portable for char {
    fn write(&self, bytes: &mut Vec<u8>) {
        u32::from(*self).write(bytes);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        u32::read(bytes)?.try_into().ok()
    }
}

/// The length of the first, in 8 bytes, and both.
impl<A: Portable, B: Portable> Portable for (A, B) {
    fn write(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; 8]);
        self.0.write(bytes);
        let length = (bytes.len() - start - 8) as u64;
        bytes[start..start + 8].copy_from_slice(&length.to_le_bytes());
        self.1.write(bytes);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (length, both) = bytes.split_first_chunk()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (first, second) = both.split_at_checked(length)?;
        Some((A::read(first)?, B::read(second)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Debug;

    fn comes_back<T: Portable + PartialEq + Debug>(value: T) {
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        assert_eq!(T::read(&bytes), Some(value));
    }

    #[test]
    fn values_come_back() {
        comes_back(u64::MAX);
        comes_back(-1_i128);
        comes_back(0.5_f32);
        comes_back((String::from("é"), (vec![0_u8, 255], true)));
        comes_back((Box::<str>::from(""), 'é'));
        comes_back((Arc::<[u8]>::from([1, 2]), ()));
        assert_eq!((bool::read(&[2]), char::read(&0xD800_u32.to_le_bytes())), (None, None));
        assert_eq!((String::read(&[255]), <()>::read(&[0])), (None, None));
        for length in [2, u64::MAX] {
            let bytes = [&length.to_le_bytes()[..], &[7]].concat();
            assert_eq!(<(u8, u8)>::read(&bytes), None);
        }
    }
}
