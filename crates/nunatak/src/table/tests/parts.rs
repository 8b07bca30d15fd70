//! Parts of all tables, which are read one by one.

use crate::hash::IdentityCodec;
use crate::table::{ByWord, Change, Design, Dlht, Iceberg, PairTable, Pea, Turbo};

/// Reads every part of a table. Returns how many parts there are.
fn parts_hold_every_pair_once<D: Design>(count: u64) -> usize {
    let table = D::table(IdentityCodec, 0).unwrap();
    // Words that are hashes already, so that the codec need not mix them.
    let word = |number: u64| (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for number in 0..count {
        let before = table.apply(word(number), &ByWord, Some(number), |_| Change::Keep);
        assert_eq!(before, None);
    }
    let (mut pairs, mut part) = (Vec::new(), 0);
    while table.read_part(part, &mut pairs) {
        part += 1;
        assert!(part < 1 << 20, "the parts have no end");
    }
    for behind in [part + 1, usize::MAX] {
        let are_more = table.read_part(behind, &mut pairs);
        assert!(!are_more && pairs.len() as u64 == count, "there is no part {behind}");
    }
    pairs.sort_unstable_by_key(|&(_, number)| number);
    assert!(pairs.into_iter().eq((0..count).map(|number| (word(number), number))));
    part + 1
}

#[test]
fn all_parts_together_are_the_table() {
    for (count, of_turbo) in [(0, 1), (20, 1), (10_000, 1024)] {
        assert_eq!(parts_hold_every_pair_once::<Turbo>(count), of_turbo);
        assert_eq!(parts_hold_every_pair_once::<Pea>(count), 1);
        assert_eq!(parts_hold_every_pair_once::<Iceberg>(count), 1);
        assert_eq!(parts_hold_every_pair_once::<Dlht>(count), 1);
    }
}
