//! Batches of all tables.

use crate::hash::IdentityCodec;
use crate::table::{ByWord, Change, Design, Dlht, Iceberg, PairTable, Pea, Turbo};

/// A prefetched line is a hint: each lookup finds the pair that is present at its turn.
fn a_batch_sees_what_happens_while_it_runs<D: Design>() {
    const COUNT: u64 = 200;
    // Enough for all tables to grow.
    const MANY: usize = 1 << 18;
    let table = D::table(IdentityCodec, 0).unwrap();
    // Words that are hashes already, so that the codec need not mix them.
    let word = |number: u64| (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let put = |number, value| {
        let _ = table.apply(word(number), &ByWord, Some(value), |_| Change::To(value));
    };
    (0..COUNT - 1).for_each(|number| put(number, number));
    let mut turns = 0;
    table.find_many(
        COUNT as usize,
        |at| word(at as u64),
        |_| ByWord,
        |at, found| {
            let at = at as u64;
            match at {
                // Touches every place, then every value; removes one key and inserts another.
                0 => {
                    assert_eq!(found, Some(0));
                    table.reserve(MANY).unwrap();
                    (0..COUNT).for_each(|number| put(number, number + 1000));
                    table.apply(word(70), &ByWord, None, |_| Change::Remove);
                }
                70 => assert_eq!(found, None),
                _ => assert_eq!(found, Some(at + 1000)),
            }
            turns += 1;
        },
    );
    assert_eq!(turns, COUNT);
}

#[test]
fn batches_see_what_happens_while_they_run() {
    a_batch_sees_what_happens_while_it_runs::<Dlht>();
    a_batch_sees_what_happens_while_it_runs::<Iceberg>();
    a_batch_sees_what_happens_while_it_runs::<Pea>();
    a_batch_sees_what_happens_while_it_runs::<Turbo>();
}
