//! Metrics for Prometheus, in the text format of OpenMetrics.

use crate::histogram::Histogram;
use crate::info::resident;
use crate::pubsub::Class;
use crate::shared::{Shared, now};
use crate::stats::{BUCKETS, FIRST_BUCKET, bucket_bound};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The type of the text, for the header `Content-Type`.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Makes metrics of what the threads have counted, when they are asked for.
#[derive(Debug)]
struct Metrics(Arc<Shared>);

/// Returns the registry of a server's metrics.
pub(crate) fn registry(shared: Arc<Shared>) -> Registry {
    let mut registry = Registry::with_prefix("nunatak");
    registry.register_collector(Box::new(Metrics(shared)));
    registry
}

/// Writes the metrics.
pub(crate) fn write(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(shared) = self;
        gauges(shared, &mut encoder)?;
        counters(shared, &mut encoder)?;
        by_database(shared, &mut encoder)?;
        by_command(shared, &mut encoder)?;
        latency(shared, &mut encoder)
    }
}

fn gauges(shared: &Shared, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let uptime = now().as_secs().saturating_sub(shared.started);
    let max_memory = shared.settings.max_memory.load(Relaxed);
    let channels = shared.subscriptions.count(Class::Channel);
    let patterns = shared.subscriptions.count(Class::Pattern);
    for (name, unit, help, value) in [
        ("connected_clients", None, "Open connections", shared.clients.load(Relaxed) as u64),
        ("uptime", Some(Unit::Seconds), "Time since the start", uptime),
        ("memory_used", Some(Unit::Bytes), "Memory of the maps", shared.store.memory() as u64),
        ("memory_resident", Some(Unit::Bytes), "Memory of the process", resident() as u64),
        ("memory_max", Some(Unit::Bytes), "Limit of the data, 0 if none", max_memory as u64),
        ("pubsub_channels", None, "Channels with subscribers", channels as u64),
        ("pubsub_patterns", None, "Patterns with subscribers", patterns as u64),
        ("slowlog_entries", None, "Commands in the slow log", shared.slow_log.len() as u64),
    ] {
        let of = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        ConstGauge::new(value).encode(of)?;
    }
    Ok(())
}

fn counters(shared: &Shared, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let (counters, totals) = (&shared.counters, shared.stats.totals());
    for (name, unit, help, value) in [
        ("connections", None, "Connections accepted", counters.connections.load(Relaxed)),
        ("connections_rejected", None, "Connections refused", counters.rejected.load(Relaxed)),
        ("commands_processed", None, "Commands run", counters.commands.load(Relaxed)),
        ("errors", None, "Errors answered", totals.errors),
        ("keyspace_hits", None, "Keys found by reads", counters.hits.load(Relaxed)),
        ("keyspace_misses", None, "Keys not found by reads", counters.misses.load(Relaxed)),
        ("expired_keys", None, "Keys removed as expired", shared.store.expired.load(Relaxed)),
        ("evicted_keys", None, "Keys removed to make room", counters.evicted.load(Relaxed)),
        ("network_received", Some(Unit::Bytes), "Bytes read from clients", totals.bytes_read),
        ("network_sent", Some(Unit::Bytes), "Bytes written to clients", totals.bytes_written),
    ] {
        let of = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        ConstCounter::new(value).encode(of)?;
    }
    Ok(())
}

fn by_database(shared: &Shared, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Keys of a database";
    let mut of = encoder.encode_descriptor("keys", help, None, MetricType::Gauge)?;
    for db in 0..shared.store.spaces().len() {
        let label = [("db", db.to_string())];
        ConstGauge::new(shared.store.keys(db) as u64).encode(of.encode_family(&label)?)?;
    }
    let help = "Keys of a database with a time to live, at the last walk over all keys";
    let mut of = encoder.encode_descriptor("expiring_keys", help, None, MetricType::Gauge)?;
    for db in 0..shared.store.spaces().len() {
        let label = [("db", db.to_string())];
        ConstGauge::new(shared.store.expiring(db).0).encode(of.encode_family(&label)?)?;
    }
    Ok(())
}

fn by_command(shared: &Shared, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let commands = shared.stats.commands();
    let mut of = encoder.encode_descriptor("command_calls", "Calls", None, MetricType::Counter)?;
    for (name, counts) in &commands {
        let label = [("command", name.as_str())];
        ConstCounter::new(counts.calls).encode(of.encode_family(&label)?)?;
    }
    let help = "Calls that were answered with an error";
    let mut of = encoder.encode_descriptor("command_failures", help, None, MetricType::Counter)?;
    for (name, counts) in &commands {
        let label = [("command", name.as_str())];
        ConstCounter::new(counts.failed + counts.rejected).encode(of.encode_family(&label)?)?;
    }
    let (help, unit) = ("Time of calls", Unit::Seconds);
    let mut of =
        encoder.encode_descriptor("command_duration", help, Some(&unit), MetricType::Histogram)?;
    for (name, times) in shared.stats.times_by_name() {
        let counts = commands.iter().find(|it| it.0 == name).map(|it| it.1).unwrap_or_default();
        let sum = counts.nanos.saturating_sub(counts.untracked) as f64 * 1e-9;
        let label = [("command", name.as_str())];
        let bounded = bounded(&times);
        let count = times.calls();
        of.encode_family(&label)?.encode_histogram::<NoLabelSet>(sum, count, &bounded, None)?;
    }
    Ok(())
}

/// Returns the bounds of times in seconds, and how many calls each has that the one before has not. They
/// are the bounds of batches. (A time of exactly a bound is above it, by a nanosecond.)
fn bounded(times: &Histogram) -> Vec<(f64, u64)> {
    let mut below = 0;
    let mut since_last = |calls: u64| calls - std::mem::replace(&mut below, calls);
    let of_bucket =
        |at| (bucket_bound(at), since_last(times.calls_below(FIRST_BUCKET + at as u32)));
    let mut all: Vec<(f64, u64)> = (0..BUCKETS).map(of_bucket).collect();
    all.push((f64::INFINITY, since_last(times.calls())));
    all
}

fn latency(shared: &Shared, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let (buckets, above, sum) = shared.stats.latency();
    let mut bounded: Vec<(f64, u64)> =
        buckets.iter().enumerate().map(|(at, &count)| (bucket_bound(at), count)).collect();
    bounded.push((f64::INFINITY, above));
    let count = bounded.iter().map(|(_, count)| count).sum();
    let (help, unit) = ("Time of batches, with the sync that makes them durable", Unit::Seconds);
    let mut of =
        encoder.encode_descriptor("batch_duration", help, Some(&unit), MetricType::Histogram)?;
    of.encode_histogram::<NoLabelSet>(sum, count, &bounded, None)
}
