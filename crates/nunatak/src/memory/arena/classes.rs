//! Sizes of places: in steps of eight bytes at first, then four sizes for each doubling.

/// Bytes of a span.
pub(super) const SPAN: usize = 64 << 10;

/// All sizes are multiples of this.
pub(super) const GRAIN: usize = 8;

/// From this size on there are four sizes for each doubling.
const FINE: usize = 128;

/// The largest place in a span that several places share.
pub(super) const LARGEST: usize = SPAN / 2;

/// Sizes up to [`FINE`] in steps of a grain, then four for each doubling up to
/// [`LARGEST`].
pub(super) const CLASSES: usize = FINE / GRAIN + 4 * (LARGEST / FINE).ilog2() as usize;

/// Returns the class of the smallest places that so many bytes fit in; nothing if they need spans
/// of their own.
pub(super) fn class_of(bytes: usize) -> Option<usize> {
    match bytes {
        ..=FINE => Some(bytes.max(1).div_ceil(GRAIN) - 1),
        bytes if bytes <= LARGEST => {
            // The two bits behind the highest bit tell which quarter.
            let log = (bytes - 1).ilog2();
            let quarter = (bytes - 1) >> (log - 2) & 3;
            Some(FINE / GRAIN + 4 * (log - FINE.ilog2()) as usize + quarter)
        }
        _ => None,
    }
}

/// Returns the size of a class's places.
pub(super) fn size_of_class(class: usize) -> usize {
    match class.checked_sub(FINE / GRAIN) {
        None => (class + 1) * GRAIN,
        Some(above) => (5 + above % 4) << (above / 4) << (FINE.ilog2() - 2),
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn classes_fit_what_is_in_them_and_little_more() {
        for bytes in 0..=LARGEST {
            let class = class_of(bytes).unwrap();
            let size = size_of_class(class);
            assert!(
                class < CLASSES && size >= bytes && size.is_multiple_of(GRAIN),
                "{bytes}: {size}"
            );
            assert!(class == 0 || size_of_class(class - 1) < bytes, "{bytes} fit a smaller one");
            assert!(bytes <= FINE || 4 * size <= 5 * bytes, "{bytes} in {size}");
        }
        assert_eq!(size_of_class(CLASSES - 1), LARGEST);
        assert_eq!(class_of(LARGEST + 1), None);
    }
}
