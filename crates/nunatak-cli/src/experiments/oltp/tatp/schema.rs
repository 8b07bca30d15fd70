//! The tables of TATP, with all of their 51 columns, and the rows that a database begins with. A row
//! store packs columns of a byte or of half a word; so do these rows.

use crate::experiments::oltp::rows::RowKey;
use crate::keys::Random;

/// 34 columns: `s_id`; `sub_nbr`; ten bits, ten hexadecimal digits and ten bytes; `msc_location` and
/// `vlr_location`.
pub(super) const SUBSCRIBER: u16 = 0;
/// 6 columns: `s_id`, `ai_type`; `data1` and `data2`; `data3` of three letters, `data4` of five.
pub(super) const ACCESS_INFO: u16 = 1;
/// 6 columns: `s_id`, `sf_type`; `is_active`, `error_cntrl` and `data_a`; `data_b` of five letters.
pub(super) const SPECIAL_FACILITY: u16 = 2;
/// 5 columns: `s_id`, `sf_type`; `start_time` and `end_time`; `numberx`.
pub(super) const CALL_FORWARDING: u16 = 3;
/// The index of `sub_nbr`.
pub(super) const SUBSCRIBER_NUMBER: u16 = 4;

/// The word of a subscriber whose lowest byte is `bit_1`.
pub(super) const BITS: usize = 3;
/// The word of a subscriber whose upper half is `vlr_location`.
pub(super) const LOCATION: usize = 7;
/// The word of a facility with `is_active` in the lowest byte, `error_cntrl` and `data_a` above.
pub(super) const FACILITY: usize = 2;
/// The word of a forwarding with `start_time` in the lower half and `end_time` in the upper.
pub(super) const TIMES: usize = 2;

/// The numbers of words of a row: of a subscriber, an access, a facility and a forwarding.
pub(super) const WORDS: [usize; 4] = [8, 4, 4, 5];

/// Columns that transactions change, as masks of their words.
pub(super) const BIT_1: u64 = 0xFF;
pub(super) const VLR_LOCATION: u64 = 0xFFFF_FFFF << 32;
pub(super) const DATA_A: u64 = 0xFF << 16;

/// Returns a word with another value in a column.
pub(super) fn with_column(word: u64, mask: u64, value: u64) -> u64 {
    word & !mask | value << mask.trailing_zeros() & mask
}

/// Returns the value of a column.
pub(super) fn column(word: u64, mask: u64) -> u64 {
    (word & mask) >> mask.trailing_zeros()
}

/// Returns the key of a subscriber, or of its number: the 15 digits of a number are those of the
/// subscriber.
pub(super) fn subscriber(table: u16, subscriber: u64) -> RowKey {
    RowKey { table, key: subscriber }
}

/// Returns the key of an access or of a facility of type 0 to 3.
pub(super) fn part(table: u16, subscriber: u64, kind: u64) -> RowKey {
    RowKey { table, key: subscriber << 8 | kind }
}

/// Returns the key of a forwarding that begins at 0, 8 or 16 o'clock.
pub(super) fn forwarding(subscriber: u64, kind: u64, start: u64) -> RowKey {
    part(CALL_FORWARDING, subscriber, 16 * kind + start / 8)
}

/// Returns a row of the table of forwardings.
pub(super) fn forwarding_row(id: u64, kind: u64, [start, end, number]: [u64; 3]) -> [u64; 5] {
    let [first, second] = digits(number % 1_000_000_000_000_000);
    [id, kind, start | end << 32, first, second]
}

/// Returns the 15 digits of a number.
fn digits(number: u64) -> [u64; 2] {
    let text = format!("{number:015}\0");
    let mut words = [0; 2];
    for (word, bytes) in words.iter_mut().zip(text.as_bytes().chunks(8)) {
        *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    }
    words
}

fn letters(random: &mut Random, count: u32) -> u64 {
    (0..count).fold(0, |word, _| word << 8 | (u64::from(b'A') + random.below(26)))
}

/// Returns one to four of the types 0 to 3.
fn some_types(random: &mut Random) -> impl Iterator<Item = u64> + use<> {
    let (first, count) = (random.below(4), 1 + random.below(4));
    (0..count).map(move |at| (first + at) % 4)
}

/// Calls `add` with the key and the words of each row that a subscriber begins with.
pub(super) fn rows_of(id: u64, mut add: impl FnMut(RowKey, &[u64])) {
    let mut random = Random::new(id);
    let random = &mut random;
    for kind in some_types(random) {
        let numbers = random.below(256) | random.below(256) << 32;
        let words = [id, kind, numbers, letters(random, 8)];
        add(part(ACCESS_INFO, id, kind), &words);
    }
    let mut bit = 0;
    for kind in some_types(random) {
        let is_active = u64::from(random.below(100) < 85);
        let (error, data) = (random.below(256), random.below(256));
        bit = data % 2;
        let words = [id, kind, is_active | error << 8 | data << 16, letters(random, 5)];
        add(part(SPECIAL_FACILITY, id, kind), &words);
        let (first, count) = (random.below(3), random.below(4));
        for start in (0..count).map(|at| 8 * ((first + at) % 3)) {
            let times = [start, start + 1 + random.below(8), random.next()];
            add(forwarding(id, kind, start), &forwarding_row(id, kind, times));
        }
    }
    let [first, second] = digits(id);
    let mut columns = [0_u8; 32];
    for at in 0..10 {
        columns[at] = random.below(2) as u8;
        columns[10 + at] = random.below(16) as u8;
        columns[20 + at] = random.below(256) as u8;
    }
    // As after an update, `bit_1` agrees with `data_a` of a facility.
    columns[0] = bit as u8;
    let mut words = [id, first, second, 0, 0, 0, 0, random.next()];
    for (word, bytes) in words[BITS..].iter_mut().zip(columns.chunks(8)) {
        *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    }
    add(subscriber(SUBSCRIBER, id), &words);
    add(subscriber(SUBSCRIBER_NUMBER, id), &[id]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TATP: one to four accesses and facilities a subscriber, zero to three forwardings a facility;
    /// 85 % of the facilities are active.
    #[test]
    fn tables_have_the_sizes_of_the_standard() {
        let (mut rows, mut active) = ([0_u32; 5], 0);
        for id in 0..10_000 {
            rows_of(id, |key, words| {
                rows[usize::from(key.table)] += 1;
                let expected = WORDS.get(usize::from(key.table)).copied();
                assert_eq!(words.len(), expected.unwrap_or(1));
                if key.table == SPECIAL_FACILITY {
                    active += u32::from(column(words[FACILITY], 0xFF) == 1);
                }
            });
        }
        let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole);
        assert_eq!([rows[0], rows[4]], [10_000; 2]);
        for (part, whole, expected) in [
            (rows[1], rows[0], 2.5),
            (rows[2], rows[0], 2.5),
            (rows[3], rows[2], 1.5),
            (active, rows[2], 0.85),
        ] {
            assert!((share(part, whole) / expected - 1.0).abs() < 0.03, "{part} of {whole}");
        }
    }

    #[test]
    fn numbers_have_15_digits() {
        let bytes: Vec<u8> = digits(1234).into_iter().flat_map(u64::to_le_bytes).collect();
        assert_eq!(&bytes, b"000000000001234\0");
    }
}
