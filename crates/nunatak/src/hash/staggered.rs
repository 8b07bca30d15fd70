//! Hashes that are not spread evenly, on purpose.
//!
//! A table whose parts double when they are full is between half full and full. If all parts have
//! equally many keys, they double at about the same time: then the table as a whole is between half
//! full and full, too, and just after the doubling a key costs twice the memory. Here some parts have
//! three times as many keys as others, and all shares in between. So at any time some parts have just
//! doubled and others are nearly full. A key always costs about what it costs on average, and the
//! work of doubling is spread over all inserts.
//!
//! Lookups in parts that are nearly full take longer. That shows where slots hold keys: lookups of
//! such a map became 4 to 16 % slower. So these hashes stay even, and only those of entries that
//! slots point to are staggered.

use super::{Decoder, HashCodec};
use core::fmt;

/// A codec whose hashes are denser where their high bits, but for the highest, are low, if slots do
/// not hold keys.
///
/// Let `x`, from 0 to 1, be the place of a hash within its half, by the codec `P`. The staggered
/// hash is at `x (1 + x) / 2`: between half and one and a half times as dense as an even one. The
/// order of hashes and their halves stay as they are. Different hashes may become the same.
#[derive(Clone)]
pub struct StaggeredCodec<P>(P);

impl<P> fmt::Debug for StaggeredCodec<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaggeredCodec").finish_non_exhaustive()
    }
}

impl<P: HashCodec> StaggeredCodec<P> {
    pub(crate) fn new(codec: P) -> Self {
        Self(codec)
    }
}

/// Returns the hash that a codec's hash becomes.
#[inline(always)]
fn stagger<P: HashCodec>(hash: u64) -> u64 {
    if P::WORDS_ARE_KEYS {
        return hash;
    }
    // x (1 + x) / 2 = x - x (1 - x) / 2, where x is a fraction of 2^64. In the hash it is one of
    // 2^63, so the difference is halved once more.
    let x = hash << 1;
    hash - ((u128::from(x) * u128::from(!x)) >> 66) as u64
}

/// Returns which share of the hashes of a half is staggered to less than `y` of the half.
fn share_below(y: f64) -> f64 {
    // The inverse of x (1 + x) / 2.
    ((1.0 + 8.0 * y).sqrt() - 1.0) / 2.0
}

impl<P: HashCodec> HashCodec for StaggeredCodec<P> {
    const WORDS_ARE_KEYS: bool = P::WORDS_ARE_KEYS;

    type Shared = StaggeredCodec<P::Shared>;

    fn into_shared(self) -> Self::Shared {
        StaggeredCodec(self.0.into_shared())
    }

    #[inline(always)]
    fn runs_callers_code() -> bool {
        P::runs_callers_code()
    }

    #[inline(always)]
    fn hash(&self, word: u64) -> u64 {
        stagger::<P>(self.0.hash(word))
    }

    #[inline(always)]
    fn tag(&self, word: u64, hash: u64) -> u64 {
        // A caller's hasher is asked once, and its codec takes the half from the hash, which is the
        // same. Other codecs may take all bits.
        let hash = if P::runs_callers_code() { hash } else { self.0.hash(word) };
        self.0.tag(word, hash)
    }

    #[inline(always)]
    fn hash_and_tag(&self, word: u64) -> (u64, u64) {
        let (hash, tag) = self.0.hash_and_tag(word);
        (stagger::<P>(hash), tag)
    }

    #[inline(always)]
    fn hash_of_tag(&self, tag: u64, half: usize) -> u64 {
        stagger::<P>(self.0.hash_of_tag(tag, half))
    }

    #[cfg(durable)]
    fn is_tag(&self, tag: u64) -> bool {
        self.0.is_tag(tag)
    }

    fn decoder(&self) -> Decoder {
        self.0.decoder()
    }

    fn share(part: usize, parts: usize) -> f64 {
        if P::WORDS_ARE_KEYS {
            return P::share(part, parts);
        }
        let of_half = (parts / 2).max(1);
        let first = (part % of_half) as f64 / of_half as f64;
        let share = share_below(first + 1.0 / of_half as f64) - share_below(first);
        share * of_half as f64 / parts as f64
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::RandomState;
    use crate::hash::{IdentityCodec, WordCodec};
    use core::hash::BuildHasher as _;

    type Hashes = StaggeredCodec<IdentityCodec>;

    #[test]
    fn staggered_hashes_keep_their_order_and_their_half() {
        let stagger = stagger::<IdentityCodec>;
        let step = u64::MAX / 100_003;
        for at in 0..100_003 {
            let (hash, next) = (at * step, at * step + step);
            assert!(stagger(hash) < stagger(next));
            assert_eq!(stagger(hash) >> 63, hash >> 63);
        }
        for bound in [0, (1 << 63) - 1, 1 << 63, u64::MAX] {
            assert_eq!(stagger(bound) >> 63, bound >> 63);
        }
    }

    #[test]
    fn a_part_gets_its_share() {
        let (codec, state) = (Hashes::new(IdentityCodec), RandomState::default());
        let (parts, words) = (16, 1 << 20);
        let mut counts = vec![0_usize; parts];
        for number in 0..words {
            counts[(codec.hash(state.hash_one(number)) >> 60) as usize] += 1;
        }
        let shares: Vec<f64> = (0..parts).map(|part| Hashes::share(part, parts)).collect();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        for (&count, share) in counts.iter().zip(&shares) {
            let expected = share * f64::from(words);
            assert!((count as f64 - expected).abs() < 6.0 * expected.sqrt(), "{count}, {expected}");
        }
        assert!(shares[0] > 2.4 * shares[7], "{shares:?}");
    }

    #[test]
    fn tags_are_those_of_the_codec_and_lead_back() {
        let (codec, state) = (Hashes::new(IdentityCodec), RandomState::default());
        for word in (0..1000_u64).map(|number| state.hash_one(number)) {
            let (hash, tag) = codec.hash_and_tag(word);
            assert_eq!((hash, tag), (codec.hash(word), codec.tag(word, hash)));
            assert_eq!(tag, IdentityCodec.tag(word, word));
            let half = (hash >> 63) as usize;
            assert_eq!(codec.hash_of_tag(tag, half), hash);
            // The decoder of hashes gives them without the lowest bits, as that of the codec does.
            assert_eq!(codec.decoder().word(tag, half), IdentityCodec.decoder().word(tag, half));
        }
    }

    #[test]
    fn hashes_of_keys_that_slots_hold_stay_as_they_are() {
        type Keys = StaggeredCodec<WordCodec<RandomState>>;
        let state = RandomState::default();
        let plain = WordCodec::new(state.clone());
        let hashes: Vec<u64> = (0..1000).map(|word| plain.hash(word)).collect();
        let codec = Keys::new(plain);
        assert!((0..1000).all(|word| codec.hash(word) == hashes[word as usize]));
        assert_eq!(Keys::share(3, 16), 1.0 / 16.0);
    }
}
