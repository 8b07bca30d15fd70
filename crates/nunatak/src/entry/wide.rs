//! Types of one or two words.

use core::num::NonZero;

/// A type of at most 16 bytes that can be a value of a [`DlhtWideMap`](crate::DlhtWideMap).
///
/// Implemented for integers up to 128 bits, floats, `bool`, `char`, byte arrays of up to 16 bytes,
/// `NonZero`, `Option<NonZero>`, `()` and pairs of types of one word. For a type of your own, implement
/// it by way of one of these.
///
/// ```
/// use nunatak::{DlhtWideMap, entry::Wide};
///
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// struct Point { x: f64, y: f64 }
/// impl Wide for Point {
///     type Words = <(f64, f64) as Wide>::Words;
///     fn to_words(self) -> [u64; 2] {
///         (self.x, self.y).to_words()
///     }
///     fn from_words(words: [u64; 2]) -> Self {
///         let (x, y) = Wide::from_words(words);
///         Self { x, y }
///     }
/// }
///
/// let map: DlhtWideMap<u64, Point> = DlhtWideMap::new();
/// map.insert(1, Point { x: 0.5, y: -1.0 });
/// assert_eq!(map.get(&1).map(|point| point.y), Some(-1.0));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not stored in two words",
    note = "a wide map takes types of at most 16 bytes: integers, floats (as values), `bool`, `char`, \
            byte arrays, `NonZero`, and pairs of types of at most 8 bytes",
    note = "for any other type use `DlhtBoxedMap`"
)]
pub trait Wide: Copy + Send + Sync + 'static {
    /// How many words the type takes: [`OneWord`], [`TwoWords`], or for `()` [`NoWords`].
    type Words: Count;

    /// Converts the value to words. The second is zero if the type takes one.
    fn to_words(self) -> [u64; 2];

    /// Converts words back to the value that became them.
    fn from_words(words: [u64; 2]) -> Self;
}

/// A [`Wide`] type that can be a key: two values are equal exactly if their words are. (Floats are not
/// keys: zero has two words.)
///
/// ```
/// use nunatak::DlhtWideMap;
/// let map: DlhtWideMap<u128, u64> = DlhtWideMap::new();
/// map.insert(u128::MAX, 1);
/// assert_eq!(map.get(&u128::MAX), Some(1));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the key of a wide map",
    note = "keys are compared as words, so floats are values only",
    note = "for any other type use `DlhtBoxedMap`"
)]
pub trait WideKey: Wide + Eq {}

mod sealed {
    pub trait Sealed {}
}

/// A number of words: [`NoWords`], [`OneWord`] or [`TwoWords`].
///
/// ```
/// use nunatak::entry::{Count, Wide};
/// fn words<T: Wide>() -> usize {
///     T::Words::COUNT
/// }
/// assert_eq!((words::<()>(), words::<u64>(), words::<u128>()), (0, 1, 2));
/// ```
pub trait Count: sealed::Sealed + Send + Sync + 'static {
    /// The number.
    const COUNT: usize;
}

/// No word: the value of a map that is a set.
///
/// ```
/// use nunatak::entry::{NoWords, Wide};
/// fn takes_no_words<T: Wide<Words = NoWords>>() {}
/// takes_no_words::<()>();
/// ```
#[derive(Debug)]
pub struct NoWords(());

/// One word.
///
/// ```
/// use nunatak::entry::{OneWord, Wide};
/// fn takes_one_word<T: Wide<Words = OneWord>>() {}
/// takes_one_word::<u32>();
/// ```
#[derive(Debug)]
pub struct OneWord(());

/// Two words.
///
/// ```
/// use nunatak::entry::{TwoWords, Wide};
/// fn takes_two_words<T: Wide<Words = TwoWords>>() {}
/// takes_two_words::<(u64, u64)>();
/// ```
#[derive(Debug)]
pub struct TwoWords(());

impl sealed::Sealed for NoWords {}
impl sealed::Sealed for OneWord {}
impl sealed::Sealed for TwoWords {}

impl Count for NoWords {
    const COUNT: usize = 0;
}

impl Count for OneWord {
    const COUNT: usize = 1;
}

impl Count for TwoWords {
    const COUNT: usize = 2;
}

macro_rules! of_one_word {
    ($($(#[$key:ident])? $type:ty;)*) => {$(
        impl Wide for $type {
            type Words = OneWord;

            #[inline(always)]
            fn to_words(self) -> [u64; 2] {
                [crate::entry::Inline::to_word(self), 0]
            }

            #[inline(always)]
            fn from_words([word, _]: [u64; 2]) -> Self {
                crate::entry::Inline::from_word(word)
            }
        }
    )*};
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        of_one_word! { $integer; NonZero<$integer>; Option<NonZero<$integer>>; }
        impl WideKey for $integer {}
        impl WideKey for NonZero<$integer> {}
        impl WideKey for Option<NonZero<$integer>> {}
    )*};
}

integers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize }
of_one_word! { bool; char; f32; f64; }
impl WideKey for bool {}
impl WideKey for char {}
impl WideKey for () {}

impl Wide for () {
    type Words = NoWords;

    #[inline(always)]
    fn to_words(self) -> [u64; 2] {
        [0, 0]
    }

    #[inline(always)]
    fn from_words(_words: [u64; 2]) -> Self {}
}

impl Wide for u128 {
    type Words = TwoWords;

    #[inline(always)]
    fn to_words(self) -> [u64; 2] {
        [self as u64, (self >> 64) as u64]
    }

    #[inline(always)]
    fn from_words([low, high]: [u64; 2]) -> Self {
        u128::from(high) << 64 | u128::from(low)
    }
}

impl WideKey for u128 {}

impl Wide for i128 {
    type Words = TwoWords;

    #[inline(always)]
    fn to_words(self) -> [u64; 2] {
        self.cast_unsigned().to_words()
    }

    #[inline(always)]
    fn from_words(words: [u64; 2]) -> Self {
        u128::from_words(words).cast_signed()
    }
}

impl WideKey for i128 {}

macro_rules! byte_arrays {
    ($($words:ident: $($bytes:literal)*;)*) => {$($(
        impl Wide for [u8; $bytes] {
            type Words = $words;

            #[inline(always)]
            fn to_words(self) -> [u64; 2] {
                let mut bytes = [0; 16];
                bytes[..$bytes].copy_from_slice(&self);
                u128::from_le_bytes(bytes).to_words()
            }

            #[inline(always)]
            fn from_words(words: [u64; 2]) -> Self {
                let mut bytes = [0; $bytes];
                bytes.copy_from_slice(&u128::from_words(words).to_le_bytes()[..$bytes]);
                bytes
            }
        }

        impl WideKey for [u8; $bytes] {}
    )*)*};
}

byte_arrays! {
    OneWord: 1 2 3 4 5 6 7 8;
    TwoWords: 9 10 11 12 13 14 15 16;
}

impl<A: Wide<Words = OneWord>, B: Wide<Words = OneWord>> Wide for (A, B) {
    type Words = TwoWords;

    #[inline(always)]
    fn to_words(self) -> [u64; 2] {
        [self.0.to_words()[0], self.1.to_words()[0]]
    }

    #[inline(always)]
    fn from_words([first, second]: [u64; 2]) -> Self {
        (A::from_words([first, 0]), B::from_words([second, 0]))
    }
}

impl<A: WideKey<Words = OneWord>, B: WideKey<Words = OneWord>> WideKey for (A, B) {}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    fn comes_back<T: Wide + PartialEq + core::fmt::Debug>(value: T) {
        let words = value.to_words();
        assert_eq!(T::from_words(words), value);
        assert!(T::Words::COUNT == 2 || words[1] == 0, "{value:?}");
    }

    #[test]
    fn values_come_back() {
        [0, 1, u128::MAX, 1 << 64].into_iter().for_each(comes_back);
        [0, -1, i128::MIN, i128::MAX].into_iter().for_each(comes_back);
        [(-1_i8, 2.5_f64), (i8::MIN, f64::MAX)].into_iter().for_each(comes_back);
        comes_back([1_u8, 2, 3]);
        comes_back([255_u8; 8]);
        comes_back([7_u8; 9]);
        comes_back([255_u8; 16]);
        comes_back(Some(NonZero::new(3_u16).unwrap()));
        comes_back(('é', true));
    }
}
