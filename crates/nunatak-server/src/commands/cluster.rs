//! Cluster mode: which keys are here, `CLUSTER`, and `ASKING`.

use super::context::{Context, Done, Fail, NOT_INTEGER, fail};
use crate::cluster::map::{Node, Place, SlotMap, show_range};
use crate::cluster::slot::{SLOTS, slot_of};
use crate::cluster::{Cluster, State};
use crate::protocol::numbers::parse_i64;
use crate::protocol::request::Args;
use crate::store::record::Record;
use crate::store::stripes::Stripes;
use std::ops::RangeInclusive;

/// Checks that this node serves these keys, which have one slot. The caller holds the keys' locks, or
/// repeats the command if a change has crossed it.
#[cold]
pub(super) fn check<'k>(
    context: &mut Context<'_>,
    cluster: &Cluster,
    is_asking: bool,
    keys: impl Iterator<Item = &'k [u8]> + Clone,
) -> Done {
    let mut slots = keys.clone().map(slot_of);
    let Some(slot) = slots.next() else { return Ok(()) };
    let are_one = slots.all(|other| other == slot);
    if cluster.state(slot) == State::Here && are_one {
        return Ok(());
    }
    let (state, owner, target) = cluster.place(slot);
    let is_here: Vec<bool> = match state {
        State::Leaving | State::Arriving if are_one => {
            keys.map(|key| context.exists(key)).collect()
        }
        _ => Vec::new(),
    };
    let (all, any) = (is_here.iter().all(|&it| it), is_here.iter().any(|&it| it));
    let redirect = |how: &str, node: Option<Node>| match node {
        Some(node) if are_one => Err(Fail::new(format!("{how} {slot} {}", node.address()))),
        Some(_) => fail!("CROSSSLOT Keys in request don't hash to the same slot"),
        None => fail!("CLUSTERDOWN Hash slot not served"),
    };
    if !are_one {
        return redirect("", owner);
    }
    match state {
        State::Here => Ok(()),
        State::Leaving if all => Ok(()),
        State::Leaving if !any => redirect("ASK", target),
        State::Arriving if is_asking && (all || is_here.len() == 1) => Ok(()),
        State::Leaving | State::Arriving if is_asking || state == State::Leaving => {
            fail!("TRYAGAIN Multiple keys request during rehashing of slot")
        }
        _ => redirect("MOVED", owner),
    }
}

/// As [`check`], for what a command names beside its keys; nothing without cluster mode.
#[inline]
pub(super) fn check_names<'k>(
    context: &mut Context<'_>,
    names: impl Iterator<Item = &'k [u8]> + Clone,
) -> Done {
    match &context.shared.cluster {
        None => Ok(()),
        Some(cluster) => check(context, cluster, context.session.is_asking, names),
    }
}

/// Checks that these names have a slot of this node, leaving or not: for channels, whose subscribers stay
/// until the slot has moved, and for keys that are about to leave.
pub(super) fn check_owned<'k>(
    context: &mut Context<'_>,
    names: impl Iterator<Item = &'k [u8]> + Clone,
) -> Done {
    let Some(cluster) = &context.shared.cluster else { return Ok(()) };
    let slot = names.clone().next().map_or(0, slot_of);
    match cluster.state(slot) {
        State::Leaving if names.clone().all(|name| slot_of(name) == slot) => Ok(()),
        _ => check(context, cluster, false, names),
    }
}

pub(super) fn asking(context: &mut Context<'_>, _: Args<'_>) -> Done {
    of(context)?;
    context.session.is_asking = true;
    context.reply.ok();
    Ok(())
}

/// `READONLY` and `READWRITE`: there are no replicas whose answers could be older.
pub(super) fn read_mode(context: &mut Context<'_>, _: Args<'_>) -> Done {
    of(context)?;
    context.reply.ok();
    Ok(())
}

/// Returns the cluster, if the server is in one.
fn of<'c>(context: &Context<'c>) -> Result<&'c Cluster, Fail> {
    match &context.shared.cluster {
        Some(cluster) => Ok(cluster),
        None => fail!("ERR This instance has cluster support disabled"),
    }
}

fn parse_slot(text: &[u8]) -> Result<usize, Fail> {
    match parse_i64(text).and_then(|slot| usize::try_from(slot).ok()) {
        Some(slot) if slot < SLOTS => Ok(slot),
        _ => fail!("ERR Invalid or out of range slot"),
    }
}

fn parse_slots(first: &[u8], last: &[u8]) -> Result<RangeInclusive<usize>, Fail> {
    let (first, last) = (parse_slot(first)?, parse_slot(last)?);
    if first > last {
        return Err(Fail::new(format!(
            "ERR start slot number {first} is greater than end slot number {last}"
        )));
    }
    Ok(first..=last)
}

/// Passes the living keys of these slots to `found`, part by part, from a part on, until it returns that it
/// has enough. Returns the next part, or zero at the end.
fn scan_slots(
    context: &mut Context<'_>,
    slots: &RangeInclusive<usize>,
    mut part: usize,
    mut found: impl FnMut(&[u8]),
    mut has_enough: impl FnMut() -> bool,
) -> Result<usize, Fail> {
    let now = context.now;
    let space = context.whole_space()?;
    loop {
        let are_more = space.read(|guard| {
            guard.read_part(part, &mut |_, key, record| {
                if slots.contains(&usize::from(slot_of(key))) && Record::read(record, now).is_some()
                {
                    found(key);
                }
            })
        });
        part += 1;
        match are_more {
            false => return Ok(0),
            true if has_enough() => return Ok(part),
            true => {}
        }
    }
}

fn count_in(context: &mut Context<'_>, slots: &RangeInclusive<usize>) -> Result<usize, Fail> {
    let mut count = 0;
    scan_slots(context, slots, 0, |_| count += 1, || false)?;
    Ok(count)
}

/// Returns up to so many keys of a slot.
fn keys_in(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let number = |at| parse_i64(args.at(at)).ok_or(NOT_INTEGER);
    let (slot, most) = (usize::try_from(number(2)?), usize::try_from(number(3)?));
    let (Ok(slot @ 0..SLOTS), Ok(most)) = (slot, most) else {
        return fail!("ERR Invalid slot or number of keys");
    };
    let keys = std::cell::RefCell::new(Vec::new());
    let add = |key: &[u8]| {
        let mut keys = keys.borrow_mut();
        if keys.len() < most {
            keys.push(key.to_vec());
        }
    };
    scan_slots(context, &(slot..=slot), 0, add, || keys.borrow().len() >= most)?;
    let keys = keys.into_inner();
    context.reply.array(keys.len());
    keys.iter().for_each(|key| context.reply.bulk(key));
    Ok(())
}

/// `SCANSLOTS FIRST LAST CURSOR [COUNT N]`: as `SCAN`, for the keys of some slots.
fn scan(context: &mut Context<'_>, args: Args<'_>) -> Done {
    let slots = parse_slots(args.at(2), args.at(3))?;
    let number = |at| parse_i64(args.at(at)).and_then(|it| usize::try_from(it).ok());
    let part = number(4).ok_or(NOT_INTEGER)?;
    let count = match args.len() {
        5 => 10,
        7 if args.is(5, "COUNT") => number(6).ok_or(NOT_INTEGER)?,
        _ => return Err(super::context::SYNTAX),
    };
    let keys = std::cell::RefCell::new(Vec::new());
    let add = |key: &[u8]| keys.borrow_mut().push(key.to_vec());
    let next = scan_slots(context, &slots, part, add, || keys.borrow().len() >= count)?;
    let keys = keys.into_inner();
    context.reply.array(2);
    context.reply.text(&next.to_string());
    context.reply.array(keys.len());
    keys.iter().for_each(|key| context.reply.bulk(key));
    Ok(())
}

/// Waits until nobody runs a command that has seen the states of slots of before.
fn wait_for_commands(context: &Context<'_>) {
    let stripes = &context.shared.store.stripes;
    for stripe in Stripes::all() {
        stripes.lock(stripe, false);
        stripes.unlock(stripe, false);
    }
}

/// Changes what the nodes do with slots: `IMPORTING`, `MIGRATING` and `NODE` with a node, `STABLE`.
fn set_slots(
    context: &mut Context<'_>,
    cluster: &Cluster,
    slots: RangeInclusive<usize>,
    args: Args<'_>,
    at: usize,
) -> Done {
    if context.exec.is_some() {
        return fail!("ERR slots can't change in transactions");
    }
    let map = cluster.map();
    let Some(me) = cluster.me(&map) else { return fail!("ERR this node is not in the map") };
    let node = |map: &SlotMap| {
        let name = String::from_utf8_lossy(args.at(at + 1)).into_owned();
        map.find(&name).ok_or_else(|| format!("I don't know about node {name}"))
    };
    let word = |text| args.is(at, text) && args.len() == at + 2;
    let name = map.nodes[usize::from(me)].name.clone();
    let here =
        |map: &SlotMap| map.find(&name).ok_or_else(|| "this node is not in the map".to_string());
    let all = |map: &mut SlotMap, change: &dyn Fn(usize, &mut Place) -> Result<(), String>| {
        slots.clone().try_for_each(|slot| change(slot, &mut map.places[slot]))
    };
    let changed = if args.is(at, "STABLE") && args.len() == at + 1 {
        cluster.change(|map| {
            all(map, &|_, place| {
                place.target = None;
                Ok(())
            })
        })
    } else if word("MIGRATING") {
        cluster.change(|map| {
            let me = here(map)?;
            if let Some(slot) = slots.clone().find(|&slot| map.places[slot].owner != Some(me)) {
                return Err(format!("I'm not the owner of hash slot {slot}"));
            }
            let to = node(map)?;
            all(map, &|_, place| {
                place.target = (to != me).then_some(to);
                Ok(())
            })
        })
    } else if word("IMPORTING") {
        cluster.change(|map| {
            let me = here(map)?;
            if let Some(slot) = slots.clone().find(|&slot| map.places[slot].owner == Some(me)) {
                return Err(format!("I'm already the owner of hash slot {slot}"));
            }
            let from = node(map)?;
            all(map, &|slot, place| {
                if place.owner != Some(from) {
                    return Err(format!("that node is not the owner of hash slot {slot}"));
                }
                place.target = Some(me);
                Ok(())
            })
        })
    } else if word("NODE") {
        let Ok(to) = node(&map) else {
            let name = String::from_utf8_lossy(args.at(at + 1));
            return Err(Fail::new(format!("ERR Unknown node {name}")));
        };
        let leaves = slots.clone().any(|slot| map.places[slot].owner == Some(me)) && to != me;
        if leaves && count_in(context, &slots)? > 0 {
            return Err(Fail::new(format!(
                "ERR Can't assign hashslot {} to a different node while I still hold keys for this \
                 hash slot.",
                show_range(&slots)
            )));
        }
        cluster.change(|map| {
            let to = node(map)?;
            all(map, &|_, place| {
                *place = Place { owner: Some(to), target: None };
                Ok(())
            })
        })
    } else {
        return fail!(
            "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP"
        );
    };
    changed.map_err(|error| Fail::new(format!("ERR {error}")))?;
    wait_for_commands(context);
    context.reply.ok();
    Ok(())
}

fn info(context: &mut Context<'_>, cluster: &Cluster) {
    let map = cluster.map();
    let assigned = map.places.iter().filter(|place| place.owner.is_some()).count();
    let size = (0..map.nodes.len() as u16).filter(|&node| !map.slots_of(node).is_empty()).count();
    // Relaxed: a number to show.
    let epoch = cluster.epoch.load(std::sync::atomic::Ordering::Relaxed);
    let state = if assigned == SLOTS { "ok" } else { "fail" };
    let known = map.nodes.len();
    context.reply.verbatim(&format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\n\
         cluster_slots_ok:{assigned}\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\n\
         cluster_known_nodes:{known}\r\ncluster_size:{size}\r\ncluster_current_epoch:{epoch}\r\n\
         cluster_my_epoch:{epoch}\r\ncluster_stats_messages_sent:0\r\n\
         cluster_stats_messages_received:0\r\n\
         total_cluster_links_buffer_limit_exceeded:0\r\n"
    ));
}

/// The lines of `CLUSTER NODES`. A bus, whose port each address has there, does not exist.
fn nodes(cluster: &Cluster) -> String {
    let map = cluster.map();
    let me = cluster.me(&map);
    let mut text = String::new();
    for (number, node) in map.nodes.iter().enumerate() {
        let number = number as u16;
        let (id, address, bus) = (node.id(), node.address(), u32::from(node.port) + 10_000);
        let flags = if Some(number) == me { "myself,master" } else { "master" };
        text += &format!("{id} {address}@{bus} {flags} - 0 0 {} connected", number + 1);
        for range in map.slots_of(number) {
            text += &format!(" {}", show_range(&range));
        }
        for (slot, place) in map.places.iter().enumerate() {
            let name = |node: u16| map.nodes[usize::from(node)].id();
            match (place.owner, place.target) {
                (Some(owner), Some(target)) if me == Some(number) && owner == number => {
                    text += &format!(" [{slot}->-{}]", name(target));
                }
                (Some(owner), Some(target)) if me == Some(number) && target == number => {
                    text += &format!(" [{slot}-<-{}]", name(owner));
                }
                _ => {}
            }
        }
        text.push('\n');
    }
    text
}

/// `CLUSTER SLOTS`: ranges, each with its node.
fn slots(context: &mut Context<'_>, cluster: &Cluster) {
    let map = cluster.map();
    let owned: Vec<(RangeInclusive<usize>, u16)> = (0..map.nodes.len() as u16)
        .flat_map(|node| map.slots_of(node).into_iter().map(move |range| (range, node)))
        .collect();
    context.reply.array(owned.len());
    for (range, node) in owned {
        let node = &map.nodes[usize::from(node)];
        context.reply.array(3);
        context.reply.count(*range.start());
        context.reply.count(*range.end());
        context.reply.array(4);
        context.reply.text(&node.host);
        context.reply.integer(node.port.into());
        context.reply.text(&node.id());
        context.reply.array(0);
    }
}

fn shards(context: &mut Context<'_>, cluster: &Cluster) {
    let map = cluster.map();
    let reply = &mut context.reply;
    reply.array(map.nodes.len());
    for (number, node) in map.nodes.iter().enumerate() {
        let ranges = map.slots_of(number as u16);
        reply.map(2);
        reply.text("slots");
        reply.array(2 * ranges.len());
        for range in ranges {
            reply.count(*range.start());
            reply.count(*range.end());
        }
        reply.text("nodes");
        reply.array(1);
        reply.map(7);
        reply.text("id");
        reply.text(&node.id());
        reply.text("port");
        reply.integer(node.port.into());
        for (name, value) in [("ip", &*node.host), ("endpoint", &node.host), ("role", "master")] {
            reply.text(name);
            reply.text(value);
        }
        reply.text("replication-offset");
        reply.integer(0);
        reply.text("health");
        reply.text("online");
    }
}

const HELP: [&str; 23] = [
    "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "COUNTKEYSINSLOT <slot>",
    "    Return the number of keys in <slot>.",
    "GETKEYSINSLOT <slot> <count>",
    "    Return key names stored by current node in a slot.",
    "INFO",
    "    Return information about the cluster.",
    "KEYSLOT <key>",
    "    Return the hash slot for <key>.",
    "MYID",
    "    Return the node id.",
    "NODES",
    "    Return cluster configuration seen by node.",
    "SCANSLOTS <first> <last> <cursor> [COUNT <count>]",
    "    Iterate over the keys of some slots.",
    "SETSLOT <slot> (IMPORTING|MIGRATING|STABLE|NODE <node-id>)",
    "    Set slot state.",
    "SETSLOTRANGE <first> <last> (IMPORTING|MIGRATING|STABLE|NODE <node-id>)",
    "    Set the state of some slots.",
    "SHARDS, SLOTS",
    "    Return information about slots range mappings.",
    "HELP",
    "    Print this help.",
];

pub(super) fn cluster(context: &mut Context<'_>, args: Args<'_>) -> Done {
    if args.is(1, "HELP") && args.len() == 2 {
        context.reply.help(&HELP);
        return Ok(());
    }
    let cluster = of(context)?;
    let is = |name, len| args.is(1, name) && args.len() == len;
    if is("INFO", 2) {
        info(context, cluster);
    } else if is("MYID", 2) {
        let map = cluster.map();
        let me = cluster.me(&map).map(|me| map.nodes[usize::from(me)].id());
        context.reply.text(&me.unwrap_or_default());
    } else if is("NODES", 2) {
        context.reply.verbatim(&nodes(cluster));
    } else if is("SLOTS", 2) {
        slots(context, cluster);
    } else if is("SHARDS", 2) {
        shards(context, cluster);
    } else if is("KEYSLOT", 3) {
        context.reply.integer(slot_of(args.at(2)).into());
    } else if is("COUNTKEYSINSLOT", 3) {
        let Ok(slot @ 0..SLOTS) = usize::try_from(parse_i64(args.at(2)).ok_or(NOT_INTEGER)?) else {
            return fail!("ERR Invalid slot");
        };
        let count = count_in(context, &(slot..=slot))?;
        context.reply.count(count);
    } else if is("GETKEYSINSLOT", 4) {
        return keys_in(context, args);
    } else if args.is(1, "SCANSLOTS") && args.len() >= 5 {
        return scan(context, args);
    } else if args.is(1, "SETSLOT") && args.len() >= 4 {
        let slot = parse_slot(args.at(2))?;
        return set_slots(context, cluster, slot..=slot, args, 3);
    } else if args.is(1, "SETSLOTRANGE") && args.len() >= 5 {
        let slots = parse_slots(args.at(2), args.at(3))?;
        return set_slots(context, cluster, slots, args, 4);
    } else {
        return Err(super::unknown_subcommand(args));
    }
    Ok(())
}
