//! How many bins an index has: for so many entries, and at its next size.

use crate::error::Error;

/// Returns the number of bins for so many entries, if `planned` are planned for a bin, and `slack` times the square root of
/// the bins: the share of links that random hashes use varies more in small indexes.
pub(in crate::table) fn bins_for(entries: usize, planned: f64, slack: f64) -> Result<usize, Error> {
    let bins = (entries as f64 / planned).ceil();
    let bins = bins + slack * bins.sqrt();
    // Pointers are signed.
    if bins >= (isize::MAX as usize / 128) as f64 {
        return Err(Error::CapacityOverflow);
    }
    // A power of two divides the number of bins, so that the index can shrink by that factor. This
    // costs at most a sixty-fourth of the bins.
    let bins = (bins as usize).max(2);
    Ok(bins.next_multiple_of((bins.next_power_of_two() / 64).max(2)))
}

/// Returns the factor by which an index grows (section 3.2.5): 8, 4 or 2, by size.
pub(in crate::table) fn growth_factor(bins: usize) -> usize {
    match bins {
        0..4096 => 8,
        4096..4_194_304 => 4,
        _ => 2,
    }
}

/// Returns the number of bins of an index that has shrunk by one step and still has `wanted` bins; `None` if it has too few.
pub(in crate::table) fn shrunk(bins: usize, wanted: usize) -> Option<usize> {
    // The factors are small, because one thread holds all bins of a unit.
    [8, 6, 5, 4, 3, 2]
        .into_iter()
        .find(|factor| bins.is_multiple_of(2 * factor) && bins / factor >= wanted)
        .map(|factor| bins / factor)
}

/// Returns the number of bins of an index that has grown from `bins` to at least `wanted`; `None` if it has them.
pub(in crate::table) fn grown(bins: usize, wanted: usize) -> Option<usize> {
    let factor = wanted.div_ceil(bins);
    (factor > 1).then(|| bins.saturating_mul(factor))
}
