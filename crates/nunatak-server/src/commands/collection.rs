//! What sets and hashes have in common: members, with a value if they are a hash's fields. Whether they are in one
//! record or in segments is seen here only.

use super::context::{Context, Done, Fail, WRONG_TYPE, fail};
use super::keys::ScanOptions;
use crate::protocol::numbers::parse_u64;
use crate::protocol::reply::Reply;
use crate::protocol::request::Args;
use crate::sample::{MOST_REPEATED, choose};
use crate::store::draft::{Draft, copy_of};
use crate::store::rdb;
use crate::store::record::{Kind, Record, find, items_of_segment, members};
use crate::store::root::{Root, SegmentKey};
use std::collections::HashSet;

/// How many members are drawn at most for one that was not drawn before, and how many at least.
const DRAWS: usize = 8;
const FEW_DRAWS: usize = 256;

/// A member and its value.
pub(super) type Member = (Vec<u8>, Vec<u8>);

/// A value with all of its items.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) kind: Kind,
    pub(super) expiry: Option<u64>,
    pub(super) payload: Vec<u8>,
}

impl Whole {
    /// Returns the value as `DUMP` tells it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let Self { kind, expiry, ref payload } = *self;
        rdb::encode(Record { kind, expiry, is_in_segments: false, payload })
    }
}

/// What a visit of all members meets.
#[derive(Debug)]
pub(super) enum Step<'s> {
    /// First, how many there are.
    Count(usize),
    /// Then all items.
    Items(&'s [u8]),
}

/// A set that members are looked up in.
#[derive(Debug)]
pub(super) enum Source {
    Inline { payload: Vec<u8>, members: HashSet<Vec<u8>> },
    InSegments(Root),
}

impl Source {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Inline { members, .. } => members.len(),
            Self::InSegments(root) => root.members as usize,
        }
    }
}

fn check(record: Option<Record<'_>>, kind: Kind) -> Done {
    match record {
        Some(record) if record.kind != kind => Err(WRONG_TYPE),
        _ => Ok(()),
    }
}

impl Context<'_> {
    /// Returns what reads segments.
    pub(super) fn loader(&self) -> impl FnMut(&SegmentKey) -> Vec<u8> {
        |key| self.raw(self.session.db, key, copy_of)
    }

    /// Begins to change a set or a hash. An absent key is an empty one.
    pub(super) fn draft(&mut self, key: &[u8], kind: Kind) -> Result<Draft, Fail> {
        let admits = self.shared.store.admits_segments(self.session.db);
        self.view(key, |record, _, _| {
            check(record, kind)?;
            let draft = record.and_then(|record| Draft::of(record, admits));
            Ok(draft.unwrap_or_else(|| Draft::new(kind, None, admits)))
        })
    }

    /// Stores a set or a hash. One without members is removed.
    pub(super) fn store_draft(&mut self, key: &[u8], draft: Draft) -> Done {
        match draft.finish() {
            Some(finished) => self.put_finished(self.session.db, key, &finished),
            None => self.delete(key).map(drop),
        }
    }

    /// `SREM` and `HDEL`: removes the members that the arguments name.
    pub(super) fn remove_members(&mut self, args: Args<'_>, kind: Kind) -> Done {
        let mut draft = self.draft(args.at(1), kind)?;
        let mut load = self.loader();
        let removed = args.from(2).filter(|member| draft.remove(&mut load, member)).count();
        drop(load);
        if removed > 0 {
            self.store_draft(args.at(1), draft)?;
        }
        self.reply.count(removed);
        Ok(())
    }

    /// Stores a value of any type in any database.
    pub(super) fn put_whole(&mut self, db: usize, key: &[u8], whole: &Whole) -> Done {
        let Whole { kind, expiry, payload } = whole;
        if *kind == Kind::String {
            Record::begin(self.scratch, *kind, *expiry);
            self.scratch.extend_from_slice(payload);
            return self.put_scratch_in(db, key);
        }
        let admits = self.shared.store.admits_segments(db);
        match Draft::of_payload((*kind, *expiry), payload, admits).finish() {
            Some(finished) => self.put_finished(db, key, &finished),
            None => Ok(()),
        }
    }

    /// Copies a value of any type.
    pub(super) fn whole(&mut self, key: &[u8]) -> Option<Whole> {
        let found = self.view(key, |record, _, _| {
            record.map(|record| {
                let root = record.root();
                let payload = if root.is_some() { Vec::new() } else { record.payload.to_vec() };
                (Whole { kind: record.kind, expiry: record.expiry, payload }, root)
            })
        });
        let (mut whole, root) = found?;
        if let Some(root) = root {
            whole.payload = self.items_of(&root);
        }
        Some(whole)
    }

    /// Copies the items of all segments.
    fn items_of(&self, root: &Root) -> Vec<u8> {
        let mut items = Vec::new();
        for key in root.keys() {
            self.raw(self.session.db, &key, |it| items.extend_from_slice(items_of_segment(it)));
        }
        items
    }

    /// Runs `f` on the value of a member of a set or a hash.
    pub(super) fn member<R>(
        &mut self,
        key: &[u8],
        kind: Kind,
        member: &[u8],
        f: impl FnOnce(Option<&[u8]>, &mut Reply<'_>) -> R,
    ) -> Result<R, Fail> {
        let mut f = Some(f);
        let mut run =
            |value: Option<&[u8]>, reply: &mut Reply<'_>| f.take().map(|f| f(value, reply));
        let (root, mut result) = self.look_at(key, kind, |record, reply| {
            let record = match record {
                Some(record) if let Some(root) = record.root() => return (Some(root), None),
                record => record,
            };
            (None, run(record.and_then(|record| find(kind, record.payload, member)), reply))
        })?;
        if let Some(root) = root {
            let Self { shared, session, reply, pending, .. } = self;
            let key = root.key(root.segment_of(member));
            result = super::context::raw(shared, pending.as_ref(), session.db, &key, |record| {
                run(find(kind, items_of_segment(record), member), reply)
            });
        }
        match result {
            Some(result) => Ok(result),
            None => unreachable!("it was run once, on the record or on a segment"),
        }
    }

    /// Runs `f` on the values of several members, in order.
    pub(super) fn some_members<'m>(
        &mut self,
        key: &[u8],
        kind: Kind,
        wanted: impl Iterator<Item = &'m [u8]> + Clone,
        mut f: impl FnMut(Option<&[u8]>, &mut Reply<'_>),
    ) -> Done {
        let root = self.look_at(key, kind, |record, reply| {
            reply.array(wanted.clone().count());
            if let Some(root) = record.and_then(Record::root) {
                return Some(root);
            }
            let payload = record.map_or(&[][..], |record| record.payload);
            wanted.clone().for_each(|member| f(find(kind, payload, member), reply));
            None
        })?;
        let Some(root) = root else { return Ok(()) };
        let Self { shared, session, reply, pending, .. } = self;
        for member in wanted {
            let key = root.key(root.segment_of(member));
            super::context::raw(shared, pending.as_ref(), session.db, &key, |record| {
                f(find(kind, items_of_segment(record), member), reply);
            });
        }
        Ok(())
    }

    /// Returns how many members there are.
    pub(super) fn count(&mut self, key: &[u8], kind: Kind) -> Result<usize, Fail> {
        self.look_at(key, kind, |record, _| match record {
            None => 0,
            Some(record) => match record.root() {
                Some(root) => root.members as usize,
                None => members(kind, record.payload).count(),
            },
        })
    }

    /// Visits all members.
    pub(super) fn visit(
        &mut self,
        key: &[u8],
        kind: Kind,
        mut f: impl FnMut(Step<'_>, &mut Reply<'_>),
    ) -> Done {
        let root = self.look_at(key, kind, |record, reply| {
            if let Some(root) = record.and_then(Record::root) {
                return Some(root);
            }
            let payload = record.map_or(&[][..], |record| record.payload);
            f(Step::Count(members(kind, payload).count()), reply);
            f(Step::Items(payload), reply);
            None
        })?;
        let Some(root) = root else { return Ok(()) };
        // Collected and counted first: in a damaged file segments may be missing, and a client waits for as many as it
        // was told.
        let payload = self.items_of(&root);
        f(Step::Count(members(kind, &payload).count()), &mut self.reply);
        f(Step::Items(&payload), &mut self.reply);
        Ok(())
    }

    /// Returns a set to look members up in; `None` if it is absent.
    pub(super) fn source(&mut self, key: &[u8]) -> Result<Option<Source>, Fail> {
        self.view(key, |record, _, _| {
            check(record, Kind::Set)?;
            Ok(record.map(|record| match record.root() {
                Some(root) => Source::InSegments(root),
                None => Source::Inline {
                    payload: record.payload.to_vec(),
                    members: members(Kind::Set, record.payload).map(|it| it.0.to_vec()).collect(),
                },
            }))
        })
    }

    /// Whether a set has a member.
    pub(super) fn has(&self, source: &Source, member: &[u8]) -> bool {
        match source {
            Source::Inline { members, .. } => members.contains(member),
            Source::InSegments(root) => {
                let key = root.key(root.segment_of(member));
                self.raw(self.session.db, &key, |record| {
                    find(Kind::Set, items_of_segment(record), member).is_some()
                })
            }
        }
    }

    /// Copies the members of a set.
    pub(super) fn members_of(&self, source: &Source) -> Vec<Vec<u8>> {
        let copy = |payload: &[u8]| {
            members(Kind::Set, payload).map(|(member, _)| member.to_vec()).collect()
        };
        match source {
            Source::Inline { payload, .. } => copy(payload),
            Source::InSegments(root) => copy(&self.items_of(root)),
        }
    }

    /// Chooses members at random: one without a count, otherwise as [`choose`].
    pub(super) fn random_members(
        &mut self,
        key: &[u8],
        kind: Kind,
        count: Option<i64>,
    ) -> Result<Vec<Member>, Fail> {
        let copy = |(member, value): (&[u8], &[u8])| (member.to_vec(), value.to_vec());
        let count = count.unwrap_or(1);
        let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let root = self.look_at(key, kind, |record, _| record.and_then(Record::root))?;
        let are_few = |root: Root| count < 0 || most < root.members as usize / 2;
        // Few of many are drawn one by one. Otherwise all are read.
        if !root.is_some_and(are_few) {
            let whole = self.whole(key);
            let payload = whole.as_ref().map_or(&[][..], |whole| &whole.payload);
            let all: Vec<_> = members(kind, payload).collect();
            return Ok(choose(all.len(), count).map(|at| copy(all[at])).collect());
        }
        let mut draft = self.draft(key, kind)?;
        let (mut chosen, mut once) = (Vec::new(), HashSet::new());
        let mut load = self.loader();
        let wanted = most.min(MOST_REPEATED);
        // Half of them at most are chosen, so each draw is a new one at least every other time: unless members are
        // missing, in a damaged file, or since the value goes meanwhile. (Then the command runs again.)
        for _ in 0..wanted.saturating_mul(DRAWS).saturating_add(FEW_DRAWS) {
            if chosen.len() == wanted {
                break;
            }
            let Some(member) = draft.random(&mut load) else { break };
            if count < 0 || once.insert(member.0.clone()) {
                chosen.push(member);
            }
        }
        Ok(chosen)
    }

    /// `SSCAN` and `HSCAN`.
    pub(super) fn scan_members(&mut self, args: Args<'_>, kind: Kind) -> Done {
        let Some(mut cursor) = parse_u64(args.at(2)) else { return fail!("ERR invalid cursor") };
        let found = self.look_at(args.at(1), kind, |record, _| {
            record.map(|record| match record.root() {
                Some(root) => Err(root),
                None => Ok(record.payload.to_vec()),
            })
        })?;
        // A key that is not there has no members, whatever is asked for.
        let Some(found) = found else {
            self.reply.array(2);
            self.reply.text("0");
            self.reply.array(0);
            return Ok(());
        };
        let options = ScanOptions::read(args, 3, false)?;
        let mut chosen: Vec<Member> = Vec::new();
        let mut choose = |payload: &[u8]| {
            let all = members(kind, payload);
            let matching = all.clone().filter(|(member, _)| options.matches(member));
            chosen.extend(matching.map(|(member, value)| (member.to_vec(), value.to_vec())));
            all.count()
        };
        match found {
            // All at once: they are one record.
            Ok(payload) => {
                choose(&payload);
                cursor = 0;
            }
            Err(root) => {
                let mut seen = 0;
                loop {
                    let (segment, next) = root.at_cursor(cursor);
                    seen += self.raw(self.session.db, &root.key(segment), |record| {
                        choose(items_of_segment(record))
                    });
                    cursor = next;
                    if next == 0 || seen >= options.count {
                        break;
                    }
                }
            }
        }
        let reply = &mut self.reply;
        reply.array(2);
        reply.text(&cursor.to_string());
        reply.array(if kind == Kind::Hash { 2 * chosen.len() } else { chosen.len() });
        for (member, value) in &chosen {
            reply.bulk(member);
            if kind == Kind::Hash {
                reply.bulk(value);
            }
        }
        Ok(())
    }
}
