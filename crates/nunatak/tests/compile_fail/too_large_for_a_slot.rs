//! What takes more than 8 bytes is refused where it is written, also by `cargo check`.

use nunatak::{DlhtMap, DlhtSet};

fn main() {
    let _: DlhtMap<u64, (u64, u64)> = DlhtMap::new();
    let _: DlhtMap<u64, [u8; 9]> = DlhtMap::new();
    let _: DlhtSet<(u32, u16, u32)> = DlhtSet::new();
}
