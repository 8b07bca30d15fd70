//! [`Encoding`]: how keys and values of a typed map become bytes.

use crate::error::Error;

/// How keys or values of a [`TypedMap`](crate::durable::TypedMap) are stored as bytes.
///
/// | encoding | what is stored | read in place as |
/// |---|---|---|
/// | `String` | the bytes of the text | `&str` |
/// | `Vec<u8>` | the bytes | `&[u8]` |
/// | integers, `char` (as `u32`), `bool` (0 or 1) | all bytes, the lowest first; `usize` and `isize` have eight | the same |
/// | `f32`, `f64`: values only | all bytes, the lowest first | the same |
/// | `[u8; N]` | the bytes | `&[u8; N]` |
/// | `()` | nothing | `()` |
/// | `Option<E>` | 0, or 1 and what `E` stores | an `Option` |
/// | tuples of two to four | each part after the other; a part of varying length that is not the last follows its length (`u32`) | a tuple |
/// | `Postcard<T>` (feature `serde`) | the postcard format of any `T: Serialize + DeserializeOwned` | `T`, which is decoded |
///
/// # Of your own
/// An encoding is a type that is named in the type of the map. It can be the stored type itself, or
/// a mere name for a format. Encoding and decoding must be inverse: `decode` of what `encode` has
/// appended returns the same item. A change of the format needs another [`name`](Self::name), or
/// another version of the [schema](crate::durable::Options::schema).
///
/// ```
/// use nunatak::{Error, durable::{Encoding, KeyEncoding, TypedMap}};
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// struct Color { red: u8, green: u8, blue: u8 }
///
/// impl Encoding for Color {
///     type Owned = Self;
///     type Ref = Self;
///     type View<'b> = Self;
///     const WIDTH: Option<usize> = Some(3);
///
///     fn name() -> String {
///         "rgb".into()
///     }
///     fn encode(item: &Self, bytes: &mut Vec<u8>) -> Result<(), Error> {
///         bytes.extend([item.red, item.green, item.blue]);
///         Ok(())
///     }
///     fn decode(bytes: &[u8]) -> Option<Self> {
///         let &[red, green, blue] = bytes else { return None };
///         Some(Self { red, green, blue })
///     }
///     fn to_owned(view: Self) -> Self {
///         view
///     }
///     fn borrow(owned: &Self) -> &Self {
///         owned
///     }
/// }
/// // Equal colors have equal bytes.
/// impl KeyEncoding for Color {}
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("map");
/// let names: TypedMap<Color, String> = TypedMap::create(&path)?;
/// let red = Color { red: 255, green: 0, blue: 0 };
/// names.insert(&red, "red")?;
/// assert_eq!(names.get(&red)?.as_deref(), Some("red"));
/// # Ok::<(), Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an encoding of a typed map",
    note = "encodings are `String`, `Vec<u8>`, integers, floats (as values), `bool`, `char`, \
            `[u8; N]`, `()`, `Option`, and tuples of two to four of them",
    note = "for a type that implements `Serialize` and `DeserializeOwned` write \
            `durable::Postcard<{Self}>`, with the feature `serde` of nunatak",
    note = "for another format implement `durable::Encoding`"
)]
pub trait Encoding: 'static {
    /// What a get returns.
    type Owned;
    /// What keys and values are passed as: `str` for `String`.
    type Ref: ?Sized;
    /// What is read without a copy: `&str` for `String`.
    type View<'b>;
    /// How many bytes every item has, if all have as many.
    const WIDTH: Option<usize> = None;

    /// Returns the name of the encoding, which is part of the file's [`Schema`](crate::Schema).
    ///
    /// ```
    /// # use nunatak::durable::Encoding;
    /// assert_eq!(<(String, Option<u64>)>::name(), "(str, u64?)");
    /// ```
    fn name() -> String;

    /// Appends the bytes of an item.
    ///
    /// # Errors
    /// [`Error::Unencodable`] if the item has no encoding.
    ///
    /// ```
    /// # use nunatak::durable::Encoding;
    /// let mut bytes = Vec::new();
    /// <(String, u16)>::encode(&("ab".into(), 258), &mut bytes)?;
    /// assert_eq!(bytes, [2, 0, 0, 0, b'a', b'b', 2, 1]);
    /// # Ok::<(), nunatak::Error>(())
    /// ```
    fn encode(item: &Self::Ref, bytes: &mut Vec<u8>) -> Result<(), Error>;

    /// Returns the bytes of an item without encoding it, if it consists of them.
    ///
    /// ```
    /// # use nunatak::durable::Encoding;
    /// assert_eq!(<u64 as Encoding>::as_bytes(&7), None);
    /// assert_eq!(<String as Encoding>::as_bytes("ab"), Some(&b"ab"[..]));
    /// ```
    fn as_bytes(item: &Self::Ref) -> Option<&[u8]> {
        let _ = item;
        None
    }

    /// Returns the item of these bytes; `None` if they are those of no item. Must not panic: a
    /// damaged file may have any bytes.
    ///
    /// ```
    /// # use nunatak::durable::Encoding;
    /// assert_eq!((u16::decode(&[2, 1]), u16::decode(&[2])), (Some(258), None));
    /// ```
    fn decode(bytes: &[u8]) -> Option<Self::View<'_>>;

    /// Makes an item of its own from what was read in place.
    ///
    /// ```
    /// # use nunatak::durable::Encoding;
    /// assert_eq!(<String as Encoding>::to_owned("ab"), String::from("ab"));
    /// ```
    fn to_owned(view: Self::View<'_>) -> Self::Owned;

    /// Borrows an item as it is passed.
    ///
    /// ```
    /// # use nunatak::durable::Encoding;
    /// assert_eq!(<String as Encoding>::borrow(&String::from("ab")), "ab");
    /// ```
    fn borrow(owned: &Self::Owned) -> &Self::Ref;
}

/// An [`Encoding`] of keys: it is *canonical*. Items that the program takes for equal have equal
/// bytes, and no two others have. A map compares keys by their bytes alone, so an encoding that is
/// not canonical makes a key that was stored absent, or stores it twice. Nothing else is lost.
///
/// Floats are no keys: 0.0 is equal to -0.0, and NaN is not equal to itself. `Postcard<T>` is an
/// encoding of keys if `T: Eq + Hash`, which leaves floats, `HashMap` and `HashSet` out (their
/// entries come in any order), and takes `BTreeMap` and `BTreeSet` in. It can't see an `Eq` of your
/// own that takes for equal what is serialized differently (letters in both cases, say): such a key
/// has to be made uniform before it is passed.
///
/// ```
/// use nunatak::durable::KeyEncoding;
/// fn is_key<K: KeyEncoding>() {}
/// is_key::<(String, u64)>();
/// ```
///
/// ```compile_fail
/// # use nunatak::durable::KeyEncoding;
/// # fn is_key<K: KeyEncoding>() {}
/// is_key::<f64>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't encode the keys of a typed map",
    note = "equal keys need equal bytes, so floats, `HashMap` and `HashSet` are values only",
    note = "for a type that implements `Serialize`, `DeserializeOwned`, `Eq` and `Hash` write \
            `durable::Postcard<{Self}>`, with the feature `serde` of nunatak"
)]
pub trait KeyEncoding: Encoding {}
