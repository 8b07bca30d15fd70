//! Sizes of inline types, as types: so that what does not fit is an error where it is written, and
//! not in this crate when a program is built.

mod sealed {
    pub trait Sealed {}
}

/// A number of bytes.
///
/// ```
/// use nunatak::entry::{Bytes, Inline, Size};
/// fn is_of_four_bytes<T: Inline<Size = Bytes<4>>>() {}
/// is_of_four_bytes::<(u16, u16)>();
/// assert_eq!(Bytes::<4>::BITS, 32);
/// ```
#[derive(Debug)]
pub struct Bytes<const N: usize>(());

/// A number of bytes that fits into a word: from `Bytes<0>` to `Bytes<8>`.
///
/// ```
/// use nunatak::entry::{Inline, Size};
/// fn bits<T: Inline>() -> u32 {
///     T::Size::BITS
/// }
/// assert_eq!(bits::<(char, u8)>(), 40);
/// ```
#[diagnostic::on_unimplemented(
    message = "more than 8 bytes are not stored inline",
    note = "for up to 16 bytes use `DlhtWideMap`, for larger types `DlhtBoxedMap`, or in a file \
            `durable::TypedMap`"
)]
pub trait Size: sealed::Sealed + 'static {
    /// The same in bits.
    const BITS: u32;
}

/// A size that fits into a word beside another one.
///
/// ```compile_fail
/// # use nunatak::DlhtMap;
/// // An error of `cargo check`, too:
/// let map: DlhtMap<u64, (u64, u64)> = DlhtMap::new();
/// ```
#[diagnostic::on_unimplemented(
    message = "the parts of this type take more than 8 bytes in sum, so it is not stored inline",
    label = "does not fit into 8 bytes",
    note = "for up to 16 bytes use `DlhtWideMap`, for larger types `DlhtBoxedMap`, or in a file \
            `durable::TypedMap`"
)]
pub trait BesideInSlot<Other>: Size {
    /// Both sizes together.
    ///
    /// ```
    /// use nunatak::entry::{BesideInSlot, Bytes};
    /// let _: <Bytes<1> as BesideInSlot<Bytes<2>>>::Sum;
    /// ```
    type Sum: Size;
}

macro_rules! sizes {
    ($($bytes:literal: $($other:literal)*;)*) => {$(
        impl sealed::Sealed for Bytes<$bytes> {}

        impl Size for Bytes<$bytes> {
            const BITS: u32 = 8 * $bytes;
        }

        $(impl BesideInSlot<Bytes<$other>> for Bytes<$bytes> {
            type Sum = Bytes<{ $bytes + $other }>;
        })*
    )*};
}

sizes! {
    0: 0 1 2 3 4 5 6 7 8;
    1: 0 1 2 3 4 5 6 7;
    2: 0 1 2 3 4 5 6;
    3: 0 1 2 3 4 5;
    4: 0 1 2 3 4;
    5: 0 1 2 3;
    6: 0 1 2;
    7: 0 1;
    8: 0;
}
