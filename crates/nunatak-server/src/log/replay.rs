//! What a log has when a server begins: which of its changes the map may lack, and their replay.

use super::files::{Files, State};
use super::record::{Header, Position, Record, Records, Start};
use super::{HEADER, LogError};
use crate::store::space::Change;
use nunatak::Error;
use std::collections::{BTreeMap, HashSet};

/// How many records are stored together.
const TOGETHER: usize = 256;

/// The segments that an earlier server has left. Their bytes are read when they are needed: together they may be
/// more than there is memory for.
#[derive(Debug)]
pub(crate) struct Left {
    /// Whether a replay of them was interrupted.
    was_interrupted: bool,
    start: Start,
    /// Whether the earlier server was about to close the map, which had everything.
    was_ended: bool,
    /// The segments from the start on.
    segments: BTreeMap<u64, Segment>,
}

/// What a segment says about the log.
#[derive(Debug)]
struct Segment {
    /// Of its header.
    start: Start,
    /// Of its last checkpoint.
    later: Option<Start>,
    /// Whether the next segment goes on.
    goes_on: bool,
    /// Whether its last record says that the map was about to be closed.
    was_ended: bool,
    /// Records that the map has refused.
    refused: Vec<Position>,
}

impl Segment {
    fn read(number: u64, start: Start, bytes: &[u8]) -> Self {
        let mut segment =
            Self { start, later: None, goes_on: false, was_ended: false, refused: Vec::new() };
        for (_, record) in Records::of(number, bytes) {
            segment.was_ended = record == Record::Closed;
            match record {
                Record::Checkpoint(later) => segment.later = Some(later),
                Record::Continued => segment.goes_on = true,
                Record::Void(position) => segment.refused.push(position),
                Record::Change(_) | Record::Clear | Record::Closed => {}
            }
        }
        segment
    }
}

/// A step of a replay.
pub(crate) enum Step<'r> {
    /// Records that are stored in order, each by itself.
    Store(&'r [(&'r [u8], &'r [u8])]),
    /// Changes that are made together.
    Change(&'r [Change<'r>]),
    Clear,
}

impl Left {
    /// Reads the segments. `None` if there are none that count.
    pub(crate) fn read(files: &Files) -> Result<Option<Self>, LogError> {
        let state = files.state()?;
        if state == State::Retired {
            files.retire()?;
        }
        let numbers = files.segments()?;
        let (mut segments, mut start) = (BTreeMap::new(), None);
        for &number in &numbers {
            let bytes = files.read(number)?;
            match Header::decode(&bytes) {
                Ok(Some(header)) if header.number == number => {
                    start = Some(header.start);
                    segments.insert(number, Segment::read(number, header.start, &bytes));
                }
                // Its first write never became durable as a whole, so nothing of it was answered.
                Ok(None) if has_no_header(&bytes) => {}
                Ok(_) => return Err(LogError::Unknown(files.segment(number))),
                Err(version) => return Err(LogError::Newer(files.segment(number), version)),
            }
        }
        let Some(start) = start else {
            files.retire()?;
            return Ok(None);
        };
        let mut left =
            Self { was_interrupted: state == State::Replaying, start, was_ended: false, segments };
        left.find_end();
        let first = left.start.from;
        left.segments.retain(|&number, _| number >= first);
        // Segments may be missing if the map has their changes only.
        let is_whole = left.segments.keys().copied().eq((first..).take(left.segments.len()));
        match is_whole && !left.segments.is_empty() {
            true => Ok(Some(left)),
            false => Err(LogError::Gap(files.segment(first))),
        }
    }

    /// Finds the end of the log, and from where on it counts.
    fn find_end(&mut self) {
        let (mut start, mut last) = (self.start, None);
        for (&number, segment) in &self.segments {
            self.was_ended = segment.was_ended;
            start = segment.later.unwrap_or(start);
            if !segment.goes_on {
                last = Some(number);
                break;
            }
        }
        // What follows was never durable.
        if let Some(last) = last {
            self.segments.split_off(&(last + 1));
        }
        // The headers of later segments may name a later start than any record does.
        let newest = self.segments.values().next_back();
        let of_header = newest.map_or(start, |segment| segment.start);
        self.start = if of_header.from > start.from { of_header } else { start };
    }

    /// Whether the map lacks changes of the log. `map`: whether it was closed, whether the power was cut
    /// since it was open, and the number of its last sync.
    pub(crate) fn is_needed(
        &self,
        files: &Files,
        (was_closed, was_cut, last_sync): (bool, bool, u64),
    ) -> Result<bool, LogError> {
        if self.was_interrupted {
            return Ok(true);
        }
        if was_closed {
            return match self.was_ended {
                true => Ok(false),
                false => Err(LogError::ClosedByOther(files.segment(self.start.from))),
            };
        }
        if was_cut && last_sync < self.start.base {
            return Err(LogError::Gap(files.segment(self.start.from)));
        }
        Ok(was_cut)
    }

    /// Says durably that the log is replayed from here on, whatever happens to the map.
    pub(crate) fn begin(&self, files: &Files) -> Result<(), LogError> {
        files.set_state(State::Replaying)
    }

    /// Replays all changes, and returns how many records there were.
    pub(crate) fn replay(
        &self,
        files: &Files,
        mut run: impl FnMut(Step<'_>) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let refused = self.segments.values().flat_map(|segment| &segment.refused);
        let refused: HashSet<Position> = refused.copied().collect();
        let mut count = 0;
        for &number in self.segments.keys() {
            let bytes = files.read(number)?;
            let mut stores = Vec::with_capacity(TOGETHER);
            let records = Records::of(number, &bytes);
            for (_, record) in records.filter(|(position, _)| !refused.contains(position)) {
                match &record {
                    Record::Change(changes) => {
                        if let [(key, Some(record))] = changes[..] {
                            stores.push((key, record));
                            if stores.len() == TOGETHER {
                                store_all(&mut stores, &mut run)?;
                            }
                        } else {
                            store_all(&mut stores, &mut run)?;
                            run(Step::Change(changes))?;
                        }
                    }
                    Record::Clear => {
                        store_all(&mut stores, &mut run)?;
                        run(Step::Clear)?;
                    }
                    _ => continue,
                }
                count += 1;
            }
            store_all(&mut stores, &mut run)?;
        }
        Ok(count)
    }

    /// Removes the segments: the map has synced their changes.
    pub(crate) fn retire(self, files: &Files) -> Result<(), LogError> {
        files.retire()
    }
}

fn store_all(
    records: &mut Vec<(&[u8], &[u8])>,
    run: &mut impl FnMut(Step<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if !records.is_empty() {
        run(Step::Store(records))?;
        records.clear();
    }
    Ok(())
}

/// Whether the header of a segment was never written. It is in one sector, so it is there as a whole or not
/// at all; what follows may be there in any case.
fn has_no_header(bytes: &[u8]) -> bool {
    bytes.iter().take(HEADER).all(|&byte| byte == 0)
}
