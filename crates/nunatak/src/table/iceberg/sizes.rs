//! The constants of a table; how many blocks and rows they make of a capacity.

use super::back::Back;
use super::front::Front;
use super::geometry::{BlockSizes, Geometry, MOST_ROWS};
use crate::error::Error;
use crate::memory::{Addresses, Medium};
use crate::table::shared::room::Room;

/// The constants that the paper varies.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The share of the slots that may be taken before the table doubles.
    pub(crate) max_load: f64,
    /// The number of items to which the table can grow; `None` chooses it by the machine's memory.
    pub(crate) max_capacity: Option<usize>,
    /// Whether the table grows by itself.
    pub(crate) room: Room,
}

impl Default for Config {
    fn default() -> Self {
        Self { max_load: 0.91, max_capacity: None, room: Room::default() }
    }
}

/// Returns the number of blocks of a table for so many items.
pub(super) fn blocks_for<B: BlockSizes>(items: usize, config: &Config) -> Result<usize, Error> {
    let blocks = (items as f64 / (Geometry::<B>::SLOTS as f64 * config.max_load)).ceil();
    // Pointers are signed, and rounding up takes at most a quarter.
    if blocks >= (isize::MAX as usize / 4 / bytes_of_block::<B>()) as f64 {
        return Err(Error::CapacityOverflow);
    }
    Ok((blocks as usize).max(2))
}

/// Returns the bytes that a block of each yard takes, with fingerprints and marks.
pub(super) const fn bytes_of_block<B: BlockSizes>() -> usize {
    B::FRONT * 17 + 1 + B::BACK * 16 + 8 + 1
}

/// Returns for how many rows a table of so many columns reserves addresses.
fn most_rows<B: BlockSizes>(columns: usize, config: &Config) -> Result<u64, Error> {
    match config.max_capacity {
        Some(items) => {
            let blocks = blocks_for::<B>(items, config)?;
            Ok((blocks.div_ceil(columns) as u64).next_power_of_two())
        }
        None => {
            let rows = Addresses::share() / (columns * bytes_of_block::<B>()) as u64;
            Ok(1 << rows.max(1).ilog2())
        }
    }
}

/// Returns how many items a table can grow to that is small now.
pub(super) fn most_items<B: BlockSizes>(config: &Config) -> usize {
    let blocks = blocks_for::<B>(0, config).and_then(|blocks| {
        let (columns, rows) = Geometry::<B>::shape(blocks);
        Ok(columns * most_rows::<B>(columns, config)?.clamp(rows, MOST_ROWS) as usize)
    });
    (blocks.unwrap_or(0) as f64 * Geometry::<B>::SLOTS as f64 * config.max_load) as usize
}

/// Both yards, the number of rows that have addresses, and those addresses.
type Reserved<B, M> = (Front<B, M>, Back<B, M>, u64, Addresses);

/// Reserves addresses for as many rows as the caller wants, or as the machine could need.
pub(super) fn reserve_rows<B: BlockSizes, M: Medium>(
    medium: &M,
    (columns, rows): (usize, u64),
    config: &Config,
) -> Result<Reserved<B, M>, Error> {
    let mut most = most_rows::<B>(columns, config)?;
    if rows > MOST_ROWS {
        return Err(Error::CapacityOverflow);
    }
    most = most.clamp(rows, MOST_ROWS);
    let blocks = columns * rows as usize;
    loop {
        let all = columns * most as usize;
        let reserved = Front::new(medium, blocks, all)
            .and_then(|front| Ok((front, Back::new(medium, blocks, all)?)));
        match reserved {
            Ok((front, back)) => {
                let addresses = Addresses::count((all * bytes_of_block::<B>()) as u64);
                return Ok((front, back, most, addresses));
            }
            // The system may limit the addresses of a process.
            Err(_) if most > rows => most /= 2,
            Err(error) => return Err(error),
        }
    }
}
