//! The text of `INFO`, with the names that dashboards read.

use crate::protocol::request::Args;
use crate::pubsub::Class;
use crate::replica::Stage;
use crate::shared::Shared;
use crate::stats::CommandCounts;
use crate::store::space::Space;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

fn human(bytes: usize) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "K", "M", "G", "T"] {
        if value < 1024.0 || unit == "T" {
            return if unit == "B" { format!("{bytes}B") } else { format!("{value:.2}{unit}") };
        }
        value /= 1024.0;
    }
    unreachable!("the last unit returns")
}

/// Returns the resident bytes of the process, as the system tells.
pub(crate) fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * rustix::param::page_size()
}

/// Writes the sections that are asked for: all, if none is.
pub(crate) fn text(shared: &Shared, now: u64, args: Args<'_>) -> String {
    let everything = ["all", "everything", "default"];
    let is_asked = |name: &str| {
        args.len() == 1
            || (1..args.len())
                .any(|at| args.is(at, name) || everything.iter().any(|word| args.is(at, word)))
    };
    let mut text = String::new();
    let mut section = |name: &str, fields: &dyn Fn() -> Vec<(&'static str, String)>| {
        if is_asked(name) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing to a string does not fail.
            let _ = write!(text, "# {name}\r\n");
            for (field, value) in fields() {
                let _ = write!(text, "{field}:{value}\r\n");
            }
        }
    };
    let (settings, counters) = (&shared.settings, &shared.counters);
    let uptime = (now / 1000).saturating_sub(shared.started);
    let mode = if shared.cluster.is_some() { "cluster" } else { "standalone" };
    section("Server", &|| {
        vec![
            ("redis_version", crate::REDIS_VERSION.into()),
            ("nunatak_version", env!("CARGO_PKG_VERSION").into()),
            ("redis_mode", mode.into()),
            ("os", std::env::consts::OS.into()),
            ("arch_bits", "64".into()),
            ("process_id", std::process::id().to_string()),
            // As in Redis, the port of TLS if there is no other.
            (
                "tcp_port",
                if settings.port > 0 { settings.port } else { settings.tls_port }.to_string(),
            ),
            ("uptime_in_seconds", uptime.to_string()),
            ("uptime_in_days", (uptime / 86_400).to_string()),
            ("io_threads_active", settings.threads.to_string()),
        ]
    });
    section("Clients", &|| {
        vec![
            ("connected_clients", shared.clients.load(Relaxed).to_string()),
            ("maxclients", settings.max_clients.load(Relaxed).to_string()),
            ("blocked_clients", "0".into()),
        ]
    });
    section("Memory", &|| {
        let (used, most) = (shared.store.memory(), settings.max_memory.load(Relaxed));
        vec![
            ("used_memory", used.to_string()),
            ("used_memory_human", human(used)),
            ("used_memory_rss", resident().to_string()),
            ("used_memory_rss_human", human(resident())),
            ("maxmemory", most.to_string()),
            ("maxmemory_human", human(most)),
            ("maxmemory_policy", settings.policy().name().into()),
        ]
    });
    section("Persistence", &|| {
        vec![
            ("loading", u8::from(shared.replica.is_loading()).to_string()),
            ("rdb_bgsave_in_progress", u8::from(shared.is_saving()).to_string()),
            ("rdb_last_save_time", shared.last_save().to_string()),
            ("aof_enabled", u8::from(settings.file.is_some()).to_string()),
            (
                "aof_current_size",
                shared.store.spaces().iter().map(Space::log_bytes).sum::<u64>().to_string(),
            ),
        ]
    });
    section("Stats", &|| {
        let totals = shared.stats.totals();
        vec![
            ("total_connections_received", counters.connections.load(Relaxed).to_string()),
            ("total_commands_processed", counters.commands.load(Relaxed).to_string()),
            ("total_net_input_bytes", totals.bytes_read.to_string()),
            ("total_net_output_bytes", totals.bytes_written.to_string()),
            ("rejected_connections", counters.rejected.load(Relaxed).to_string()),
            ("expired_keys", shared.store.expired.load(Relaxed).to_string()),
            ("evicted_keys", counters.evicted.load(Relaxed).to_string()),
            ("keyspace_hits", counters.hits.load(Relaxed).to_string()),
            ("keyspace_misses", counters.misses.load(Relaxed).to_string()),
            ("pubsub_channels", shared.subscriptions.count(Class::Channel).to_string()),
            ("pubsub_patterns", shared.subscriptions.count(Class::Pattern).to_string()),
            ("pubsubshard_channels", shared.subscriptions.count(Class::Shard).to_string()),
            ("total_error_replies", totals.errors.to_string()),
        ]
    });
    section("Replication", &|| replication(shared, now));
    let is_cluster = u8::from(shared.cluster.is_some());
    section("Cluster", &|| vec![("cluster_enabled", is_cluster.to_string())]);
    section("Keyspace", &|| Vec::new());
    if is_asked("Keyspace") {
        let keys = (0..shared.store.spaces().len()).map(|db| (db, shared.store.keys(db)));
        for (db, keys) in keys.filter(|&(_, keys)| keys > 0) {
            let (expires, ttl) = shared.store.expiring(db);
            let _ = write!(text, "db{db}:keys={keys},expires={expires},avg_ttl={ttl}\r\n");
        }
    }
    // Not by default, as in Redis.
    let is_asked = |name: &str| {
        args.len() > 1 && (1..args.len()).any(|at| !args.is(at, "default")) && is_asked(name)
    };
    for (name, write) in [
        ("Commandstats", write_command_stats as fn(&mut String, &Shared)),
        ("Latencystats", write_latency_stats),
    ] {
        if is_asked(name) {
            text.push_str(if text.is_empty() { "" } else { "\r\n" });
            let _ = write!(text, "# {name}\r\n");
            write(&mut text, shared);
        }
    }
    text
}

fn replication(shared: &Shared, now: u64) -> Vec<(&'static str, String)> {
    let (plan, offset) = (shared.replica.plan(), shared.replica.offset());
    let id = plan.position.as_ref().map_or_else(|| "0".repeat(40), |it| it.id.clone());
    let stream = [("master_replid", id), ("master_repl_offset", offset.to_string())];
    let Some(target) = &plan.target else {
        let mut fields = vec![("role", "master".into()), ("connected_slaves", "0".into())];
        fields.extend(stream);
        return fields;
    };
    let seconds = |since: Option<u64>| match since {
        Some(since) => (now / 1000).saturating_sub(since).to_string(),
        None => "-1".into(),
    };
    let is_up = plan.stage == Stage::Connected;
    let last_io = seconds(shared.replica.last_io());
    let mut fields = vec![
        ("role", "slave".into()),
        ("master_host", target.host.clone()),
        ("master_port", target.port.to_string()),
        ("master_link_status", if is_up { "up" } else { "down" }.into()),
        ("master_last_io_seconds_ago", if is_up { last_io.clone() } else { "-1".into() }),
        ("master_sync_in_progress", u8::from(plan.stage == Stage::Sync).to_string()),
        ("slave_read_repl_offset", offset.to_string()),
        ("slave_repl_offset", offset.to_string()),
    ];
    if let Some((read, whole)) = plan.transfer {
        let left = whole.map_or(0, |whole| whole.saturating_sub(read));
        fields.extend([
            ("master_sync_total_bytes", whole.unwrap_or(0).to_string()),
            ("master_sync_read_bytes", read.to_string()),
            ("master_sync_left_bytes", left.to_string()),
            ("master_sync_last_io_seconds_ago", last_io),
        ]);
    }
    if !is_up {
        fields.push(("master_link_down_since_seconds", seconds(plan.down_since)));
        // Not of Redis's: it tells this in its log only.
        let why = plan.failure.unwrap_or_default();
        fields.push(("master_link_failure", why.replace(['\r', '\n'], " ")));
    }
    let settings = &shared.settings;
    fields.extend([
        ("slave_priority", settings.replica_priority.load(Relaxed).to_string()),
        ("slave_read_only", u8::from(settings.replica_read_only.load(Relaxed)).to_string()),
        ("replica_announced", "1".into()),
        ("connected_slaves", "0".into()),
    ]);
    fields.extend(stream);
    fields
}

fn write_latency_stats(text: &mut String, shared: &Shared) {
    if !shared.settings.tracks_latency.load(Relaxed) {
        return;
    }
    let percentiles = shared.settings.latency_percentiles();
    for (name, times) in shared.stats.times_by_name() {
        // Writing to a string does not fail.
        let _ = write!(text, "latency_percentiles_usec_{name}:{}\r\n", percentiles.of(&times));
    }
}

fn write_command_stats(text: &mut String, shared: &Shared) {
    for (name, counts) in shared.stats.commands() {
        let CommandCounts { calls, nanos, rejected, failed, .. } = counts;
        let micros = nanos / 1000;
        let per_call = if calls == 0 { 0.0 } else { nanos as f64 / 1000.0 / calls as f64 };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "cmdstat_{name}:calls={calls},usec={micros},usec_per_call={per_call:.2},\
             rejected_calls={rejected},failed_calls={failed}\r\n"
        );
    }
}
