//! What a log has when a server begins: which of its changes the map may lack, and their replay.

use super::files::{Files, State};
use super::record::{Header, Position, Record, Records, Start};
use super::{HEADER, LogError};
use crate::store::space::Change;
use nunatak::Error;
use std::collections::{BTreeMap, HashSet};

/// The segments that an earlier server has left.
#[derive(Debug)]
pub(crate) struct Left {
    /// Whether a replay of them was interrupted.
    was_interrupted: bool,
    start: Start,
    /// Whether the earlier server was about to close the map, which had everything.
    was_ended: bool,
    /// The bytes of the segments from the start on.
    segments: BTreeMap<u64, Vec<u8>>,
}

/// A step of a replay.
pub(crate) enum Step<'r> {
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
                    segments.insert(number, bytes);
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
        let (mut start, mut was_ended, mut last) = (self.start, false, None);
        for (&number, bytes) in &self.segments {
            let mut goes_on = false;
            for (_, record) in Records::of(number, bytes) {
                was_ended = record == Record::Closed;
                match record {
                    Record::Checkpoint(later) => start = later,
                    Record::Continued => goes_on = true,
                    _ => {}
                }
            }
            if !goes_on {
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
        let header = newest.and_then(|bytes| Header::decode(bytes).ok().flatten());
        let of_header = header.map_or(start, |header| header.start);
        self.start = if of_header.from > start.from { of_header } else { start };
        self.was_ended = was_ended;
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
        mut run: impl FnMut(Step<'_>) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let mut refused: HashSet<Position> = HashSet::new();
        for (&number, bytes) in &self.segments {
            refused.extend(Records::of(number, bytes).filter_map(|(_, record)| match record {
                Record::Void(position) => Some(position),
                _ => None,
            }));
        }
        let mut count = 0;
        for (&number, bytes) in &self.segments {
            for (position, record) in Records::of(number, bytes) {
                let step = match &record {
                    Record::Change(changes) => Step::Change(changes),
                    Record::Clear => Step::Clear,
                    _ => continue,
                };
                if !refused.contains(&position) {
                    run(step)?;
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    /// Removes the segments: the map has synced their changes.
    pub(crate) fn retire(self, files: &Files) -> Result<(), LogError> {
        files.retire()
    }
}

/// Whether the header of a segment was never written. It is in one sector, so it is there as a whole or not
/// at all; what follows may be there in any case.
fn has_no_header(bytes: &[u8]) -> bool {
    bytes.iter().take(HEADER).all(|&byte| byte == 0)
}
