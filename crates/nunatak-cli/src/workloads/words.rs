//! Counts words: the threads divide the text, and all count in one map. The counts are compared
//! with those of a plain map.

use super::check;
use crate::targets::WordTarget;
use crate::text::Text;
use crate::threads::{CheckFailed, share, throughput};

/// Counts the text's words and returns millions of words a second.
pub(crate) fn count<W: WordTarget>(text: &Text, threads: usize) -> Result<f64, CheckFailed> {
    let words = text.words();
    let map = W::empty();
    let mops = throughput(threads, |worker| {
        let range = share(words.len() as u64, worker.number, threads);
        let own = &words[range.start as usize..range.end as usize];
        Ok(worker.once(|| {
            own.iter().for_each(|word| map.count(word));
            own.len() as u64
        }))
    })?;
    let expected = text.counts();
    let (mut distinct, mut wrong) = (0, 0);
    map.for_each(|word, count| {
        distinct += 1;
        wrong += u64::from(expected.get(word) != Some(&count));
    });
    wrong += u64::from(distinct != expected.len());
    check(wrong, "the word counts differ from those of a plain map")?;
    Ok(mops)
}
