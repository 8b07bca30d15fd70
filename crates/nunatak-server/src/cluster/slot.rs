//! Slots: the parts of the keys that a node has, by Redis Cluster's specification.

use crc::{CRC_16_XMODEM, Crc, Table};

/// How many slots there are.
pub(crate) const SLOTS: usize = 16_384;

static CHECKSUM: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_XMODEM);

/// Returns the slot of a key: of what the first braces enclose, if that is not empty.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = memchr::memchr(b'{', key).and_then(|open| {
        let rest = &key[open + 1..];
        memchr::memchr(b'}', rest).map(|len| &rest[..len])
    });
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    CHECKSUM.checksum(hashed) % SLOTS as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of Redis Cluster's specification, and slots that Redis 7.0.15 has told.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(CHECKSUM.checksum(b"123456789"), 0x31C3);
        let known: [(&str, u16); 8] = [
            ("", 0),
            ("foo", 12182),
            ("bar", 5061),
            ("{user1000}.following", 3443),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("somekey", 11058),
        ];
        for (key, slot) in known {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
    }
}
