//! Types that are stored in a word of a slot.

use super::size::{BesideInSlot, Bytes, Size};
use core::num::NonZero;

/// A type of at most 8 bytes that can be a value of an inline map.
///
/// Implemented for integers, floats, `bool`, `char`, byte arrays, `NonZero`, `Option<NonZero>`,
/// `()` and tuples that fit. With the feature `derive`, `#[derive(Inline)]` implements it for your
/// own type; [`inline_as!`](crate::inline_as) does it by functions.
///
/// ```
/// use nunatak::entry::Inline;
/// assert_eq!(<(u32, i16)>::from_word((7_u32, -1_i16).to_word()), (7, -1));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not stored inline",
    note = "an inline map takes types of at most 8 bytes: integers, floats (as values), `bool`, \
            `char`, byte arrays, `NonZero`, `Option<NonZero>` and tuples that fit",
    note = "for a type of your own that fits, use `#[derive(Inline)]` (feature `derive`) or \
            `nunatak::inline_as!`",
    note = "for any other type use `DlhtBoxedMap`, or in a file `durable::TypedMap`"
)]
pub trait Inline: Copy + Send + Sync + 'static {
    /// How many low bytes of the word the type uses: a [`Bytes`](crate::entry::Bytes).
    type Size: Size;

    /// How many low bits of the word the type uses.
    const BITS: u32 = Self::Size::BITS;

    /// Converts the value to a word. Bits from [`BITS`](Self::BITS) on are zero.
    fn to_word(self) -> u64;

    /// Converts a word back to the value that became it.
    fn from_word(word: u64) -> Self;

    /// Whether every word stands for a value.
    ///
    /// ```
    /// use nunatak::entry::Inline;
    /// assert!(u64::EVERY_WORD && !u32::EVERY_WORD);
    /// ```
    const EVERY_WORD: bool = false;

    /// Whether a word that a file holds stands for a value.
    ///
    /// ```
    /// use nunatak::entry::Inline;
    /// assert!(char::is_word(0x41) && !char::is_word(0xD800));
    /// ```
    fn is_word(word: u64) -> bool {
        Self::EVERY_WORD || word.checked_shr(Self::BITS).unwrap_or(0) == 0
    }
}

/// An [`Inline`] type that can be a key: two values are equal exactly if their words are. (Floats
/// are not keys: zero has two words.)
///
/// ```
/// use nunatak::DlhtMap;
/// let map: DlhtMap<(char, u8), f64> = DlhtMap::new();
/// map.insert(('a', 1), 0.5);
/// assert_eq!(map.get(&('a', 1)), Some(0.5));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the key of an inline map",
    note = "keys of at most 8 bytes are compared as words, so floats are values only",
    note = "for a type of your own that fits, use `#[derive(Inline, InlineKey)]` (feature `derive`) \
            or `nunatak::inline_as!`",
    note = "for any other type use `DlhtBoxedMap`, or in a file `durable::TypedMap`"
)]
pub trait InlineKey: Inline + Eq {}

macro_rules! integers {
    ($($integer:ty, $unsigned:ty, $bytes:literal;)*) => {$(
        impl Inline for $integer {
            type Size = Bytes<$bytes>;

            #[inline(always)]
            fn to_word(self) -> u64 {
                // By way of the unsigned type, so that a sign is not extended.
                self as $unsigned as u64
            }

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                word as Self
            }

            const EVERY_WORD: bool = Self::BITS == 64;
        }

        impl InlineKey for $integer {}

        impl Inline for NonZero<$integer> {
            type Size = Bytes<$bytes>;

            #[inline(always)]
            fn to_word(self) -> u64 {
                self.get().to_word()
            }

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                Self::new(<$integer>::from_word(word)).expect("the word of a nonzero number")
            }

            fn is_word(word: u64) -> bool {
                <$integer>::is_word(word) && word != 0
            }
        }

        impl InlineKey for NonZero<$integer> {}

        impl Inline for Option<NonZero<$integer>> {
            type Size = Bytes<$bytes>;

            #[inline(always)]
            fn to_word(self) -> u64 {
                self.map_or(0, NonZero::to_word)
            }

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                NonZero::new(<$integer>::from_word(word))
            }
        }

        impl InlineKey for Option<NonZero<$integer>> {}
    )*};
}

integers! {
    u8, u8, 1; u16, u16, 2; u32, u32, 4; u64, u64, 8; usize, usize, 8;
    i8, u8, 1; i16, u16, 2; i32, u32, 4; i64, u64, 8; isize, usize, 8;
}

macro_rules! as_integers {
    ($($type:ty, $bytes:literal, $to:expr, $from:expr, $is_word:expr;)*) => {$(
        impl Inline for $type {
            type Size = Bytes<$bytes>;

            #[inline(always)]
            fn to_word(self) -> u64 {
                let to: fn($type) -> u64 = $to;
                to(self)
            }

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                let from: fn(u64) -> $type = $from;
                from(word)
            }

            fn is_word(word: u64) -> bool {
                let is_word: fn(u64) -> bool = $is_word;
                is_word(word)
            }
        }
    )*};
}

as_integers! {
    (), 0, |()| 0, |_| (), |word| word == 0;
    bool, 1, u64::from, |word| word != 0, |word| word <= 1;
    char, 4, u64::from, |word| char::from_u32(word as u32).expect("the word of a character"),
        |word| u32::try_from(word).is_ok_and(|word| char::from_u32(word).is_some());
    f32, 4, |float| float.to_bits().into(), |word| f32::from_bits(word as u32), |word| word >> 32 == 0;
    f64, 8, f64::to_bits, f64::from_bits, |_| true;
}

impl InlineKey for () {}
impl InlineKey for bool {}
impl InlineKey for char {}

impl<const N: usize> Inline for [u8; N]
where
    Bytes<N>: Size,
{
    type Size = Bytes<N>;

    #[inline(always)]
    fn to_word(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(&self);
        u64::from_le_bytes(bytes)
    }

    #[inline(always)]
    fn from_word(word: u64) -> Self {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&word.to_le_bytes()[..N]);
        bytes
    }

    const EVERY_WORD: bool = N == 8;
}

impl<const N: usize> InlineKey for [u8; N] where Bytes<N>: Size {}

impl<A: Inline, B: Inline> Inline for (A, B)
where
    A::Size: BesideInSlot<B::Size>,
{
    type Size = <A::Size as BesideInSlot<B::Size>>::Sum;

    #[inline(always)]
    fn to_word(self) -> u64 {
        // `checked_shl`: after a first half of 64 bits the shift would be 64.
        self.0.to_word() | self.1.to_word().checked_shl(A::BITS).unwrap_or(0)
    }

    #[inline(always)]
    fn from_word(word: u64) -> Self {
        let low = if A::BITS == 64 { u64::MAX } else { (1 << A::BITS) - 1 };
        (A::from_word(word & low), B::from_word(word.checked_shr(A::BITS).unwrap_or(0)))
    }

    fn is_word(word: u64) -> bool {
        let low = if A::BITS == 64 { u64::MAX } else { (1 << A::BITS) - 1 };
        A::is_word(word & low) && B::is_word(word.checked_shr(A::BITS).unwrap_or(0))
    }
}

impl<A: InlineKey, B: InlineKey> InlineKey for (A, B) where (A, B): Inline {}

/// Longer tuples, as pairs of pairs.
macro_rules! tuples {
    ($(($first:ident $($rest:ident)+): $image:ty, $of:pat => $to:expr;)*) => {$(
        impl<$first: Inline, $($rest: Inline),+> Inline for ($first, $($rest),+)
        where
            $image: Inline,
        {
            type Size = <$image as Inline>::Size;

            #[inline(always)]
            fn to_word(self) -> u64 {
                #[allow(non_snake_case, reason = "the names of the types")]
                let ($first, $($rest),+) = self;
                <$image>::to_word($to)
            }

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                #[allow(non_snake_case, reason = "the names of the types")]
                let $of = <$image>::from_word(word);
                ($first, $($rest),+)
            }

            fn is_word(word: u64) -> bool {
                <$image>::is_word(word)
            }
        }

        impl<$first: InlineKey, $($rest: InlineKey),+> InlineKey for ($first, $($rest),+)
        where
            $image: Inline
        {
        }
    )*};
}

tuples! {
    (A B C): (A, (B, C)), (A, (B, C)) => (A, (B, C));
    (A B C D): (A, (B, (C, D))), (A, (B, (C, D))) => (A, (B, (C, D)));
}

/// Makes a type of your own inline, by way of another inline type (its image).
///
/// Two values of a key type must be equal exactly if their images are.
///
/// ```
/// use nunatak::{DlhtMap, inline_as};
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// struct Cell { x: i16, y: i16 }
/// inline_as!(key Cell => (i16, i16), |cell| (cell.x, cell.y), |(x, y)| Cell { x, y });
///
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// struct Celsius(f32);
/// inline_as!(value Celsius => f32, |degrees| degrees.0, Celsius);
///
/// let map: DlhtMap<Cell, Celsius> = DlhtMap::new();
/// map.insert(Cell { x: 1, y: -1 }, Celsius(20.5));
/// assert_eq!(map.get(&Cell { x: 1, y: -1 }), Some(Celsius(20.5)));
/// ```
#[macro_export]
macro_rules! inline_as {
    (key $type:ty => $image:ty, $to:expr, $from:expr) => {
        $crate::inline_as!(value $type => $image, $to, $from);
        impl $crate::entry::InlineKey for $type {}
    };
    (value $type:ty => $image:ty, $to:expr, $from:expr) => {
        impl $crate::entry::Inline for $type {
            type Size = <$image as $crate::entry::Inline>::Size;

            #[inline(always)]
            fn to_word(self) -> u64 {
                let to: fn($type) -> $image = $to;
                <$image as $crate::entry::Inline>::to_word(to(self))
            }

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                let from: fn($image) -> $type = $from;
                from(<$image as $crate::entry::Inline>::from_word(word))
            }

            fn is_word(word: u64) -> bool {
                <$image as $crate::entry::Inline>::is_word(word)
            }

            const EVERY_WORD: bool = <$image as $crate::entry::Inline>::EVERY_WORD;
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Debug;
    use proptest::prelude::*;

    fn round_trips<T: Inline + PartialEq + Debug>(value: T) {
        let word = value.to_word();
        assert_eq!(T::from_word(word), value);
        assert!(T::is_word(word), "{value:?} would be refused");
        assert_eq!(word.checked_shr(T::BITS).unwrap_or(0), 0, "{value:?} exceeds its bits");
    }

    proptest! {
        #[test]
        fn every_type_round_trips(
            long: u64, int: i32, short: i16, byte: u8, boolean: bool, character: char,
            float in -1e300..1e300_f64, bytes: [u8; 7],
        ) {
            round_trips(long);
            round_trips(long.cast_signed());
            round_trips(int);
            round_trips(short);
            round_trips(boolean);
            round_trips(character);
            round_trips(float);
            round_trips(float as f32);
            round_trips(bytes);
            round_trips((int, short));
            round_trips((short, (byte, boolean)));
            round_trips(((), long));
            round_trips((long, ()));
            round_trips((byte, short, int));
            round_trips((byte, byte, short, int));
            round_trips((character, int));
            round_trips(NonZero::new(short));
            round_trips(NonZero::new(long | 1).unwrap());
            round_trips(NonZero::new(int));
        }

        #[test]
        fn words_are_equal_only_if_pairs_are(a: (i16, u8), b: (i16, u8)) {
            prop_assert_eq!(a.to_word() == b.to_word(), a == b);
        }
    }

    #[test]
    fn extremes_round_trip() {
        round_trips(i64::MIN);
        round_trips((i32::MIN, i32::MIN));
        round_trips((u32::MAX, u32::MAX));
        round_trips(char::MAX);
        round_trips([0xFF; 8]);
        round_trips(());
        round_trips(f64::NEG_INFINITY);
        assert!(f64::from_word(f64::NAN.to_word()).is_nan());
    }

    /// A damaged file may hold any words.
    #[test]
    fn words_of_no_value_are_refused() {
        let refused = [
            u8::is_word(256),
            i32::is_word(1 << 32),
            bool::is_word(256),
            char::is_word(0xD800),
            <[u8; 7]>::is_word(1 << 56),
            <()>::is_word(1),
            <(char, u8)>::is_word(0xD800),
            <(u8, char)>::is_word(0xD800 << 8),
            <(u8, u8)>::is_word(1 << 16),
            <((), char)>::is_word(0xD800),
        ];
        assert_eq!(refused, [false; 10]);
        assert!(u64::is_word(u64::MAX) && f64::is_word(u64::MAX) && <(u8, u8)>::is_word(0xFFFF));
    }
}
