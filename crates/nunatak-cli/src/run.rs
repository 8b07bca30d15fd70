//! A run: repetitions, and in each of them all numbers of threads, interleaved between the probe and the maps
//! (probe, A, B, C, probe, A, B, C, …), so that a disturbance of the machine affects all of them.

use crate::backing::{back_free_memory, quiet_disk};
use crate::clock::Clock;
use crate::keys::Popularity;
use crate::machine::Machine;
use crate::named::Named as _;
use crate::probe::Probe;
use crate::process::Request as _;
use crate::report::{Params, Report, Row, terminal};
use crate::results::Results;
use crate::settings::{Bench, KeyOrder, Settings};
use crate::targets::{MapName, Target, WordTarget, with_target};
use crate::text::Text;
use crate::threads::CheckFailed;
use crate::workloads::mixed::{Mix, mixed};
use crate::workloads::space;
use crate::workloads::{Mixed, Operation, Variant, Workload};
use crate::workloads::{
    delete, fill, insdel, inserting, latency, latest, lookup, populate, recovery, synced, words,
};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write as _};

/// One measurement of the probe takes a fifth of the time of a map's.
const PROBE_TIME: u32 = 5;

/// Measures what the settings ask for.
pub(crate) fn run(settings: &Settings, text: Option<&Text>) -> io::Result<Report> {
    let mut run = Run {
        settings,
        bench: Bench::new(settings),
        clock: Clock::calibrated(),
        results: Results::default(),
        progress: progress_bar(settings),
    };
    let mut probe = Probe::new(settings.probe_size())?;
    for repetition in 0..settings.repetitions {
        run.bench.start_repetition(repetition);
        for (nth, &threads) in settings.threads.iter().enumerate() {
            run.progress.set_message(format!("limit of memory · threads {threads}"));
            if let Err(error) = probe.measure(threads, settings.time / PROBE_TIME) {
                run.results.note_failure(format!("limit of memory: {error}"));
            }
            run.step("limit of memory", threads);
            for &name in &settings.maps {
                let place = Place { map: name, threads };
                with_target!(name, Map, Words => {
                    run.numbers::<Map>(place);
                    if let Some(text) = text.filter(|_| !name.is_durable() && name.library().is_none()) {
                        run.words::<Words>(place, text);
                    }
                });
                if (repetition, nth) == (0, 0) {
                    run.space(name);
                    run.space_of_steps(name);
                }
                run.step(&name.name(), threads);
            }
            if repetition == 0 && settings.repetitions > 1 {
                let rows = run.results.clone().into_rows(&probe.limits(), &run.clock).0;
                run.show_early(&rows, threads);
            }
        }
    }
    run.progress.finish_and_clear();
    let limit = probe.limits();
    let (rows, failures) = run.results.into_rows(&limit, &run.clock);
    Ok(Report {
        experiment: "concurrent hash maps, u64 to u64 and words to counters".to_owned(),
        machine: Machine::this(),
        params: params(settings, text),
        rows,
        limit,
        figures: Vec::new(),
        failures,
        commands: Vec::new(),
    })
}

fn params(settings: &Settings, text: Option<&Text>) -> Params {
    let about = |text: &Text| {
        let (words, distinct) = (text.words().len(), text.counts().len());
        format!("{words} words, {distinct} of them distinct")
    };
    Params {
        items: settings.items,
        threads: settings.threads.clone(),
        repetitions: settings.repetitions,
        batch: settings.batch,
        seed: settings.seed,
        keys: settings.keys,
        hasher: hasher(settings),
        milliseconds: settings.time.as_millis() as u64,
        probe_mib: settings.probe_size() >> 20,
        text: text.map(about),
        files: Vec::new(),
    }
}

fn hasher(settings: &Settings) -> String {
    let rust = "foldhash::fast::RandomState for every map; Nunatak permutes words with it";
    match settings.maps.iter().any(|map| map.library().is_some()) {
        true => format!("{rust}; but a map of C++ has the hasher of its library"),
        false => rust.to_owned(),
    }
}

fn progress_bar(settings: &Settings) -> ProgressBar {
    let steps = settings.repetitions * settings.threads.len() * (1 + settings.maps.len());
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} {msg}")
        .expect("the template is valid");
    ProgressBar::new(steps as u64).with_style(style)
}

struct Run<'a> {
    settings: &'a Settings,
    bench: Bench<'a>,
    clock: Clock,
    results: Results,
    progress: ProgressBar,
}

impl Run<'_> {
    /// Shows that a step is done: on a line of its own where there is no terminal for a bar.
    fn step(&self, name: &str, threads: usize) {
        self.progress.inc(1);
        if self.progress.is_hidden() {
            let (done, all) = (self.progress.position(), self.progress.length().unwrap_or(0));
            let _ =
                writeln!(io::stderr(), "nunatak: step {done} of {all}: {name}, threads {threads}");
        }
    }

    /// Shows what the first repetition has measured on a number of threads: the whole run takes minutes.
    fn show_early(&self, rows: &[Row], threads: usize) {
        let Some(table) = terminal::early(rows, threads) else { return };
        let all = self.settings.repetitions;
        self.progress.suspend(|| {
            let _ = writeln!(
                io::stderr(),
                "After the first of {all} repetitions: millions of operations a second\n{table}"
            );
        });
    }

    fn wants(&self, workload: Workload) -> bool {
        self.settings.workloads.contains(&workload)
    }

    /// Runs one repetition of all workloads on numbers. A populated map serves all workloads that
    /// leave its keys as they are.
    fn numbers<T: Target>(&mut self, place: Place) {
        let Place { map, threads } = place;
        if map.is_durable() {
            quiet_disk();
        }
        if self.modes::<T>().contains(&true)
            && (self.wants(Workload::Insert) || self.wants(Workload::Delete))
            && let Some(filled) = self.fill::<T>(place, true)
        {
            self.delete(place, &filled, true);
        }
        if self.settings.workloads.iter().any(|&workload| needs_items(workload))
            && let Some(filled) = self.fill::<T>(place, false)
        {
            self.levels(place, Operation::new(Workload::Levels, Variant::Only), &filled);
            self.on_items(place, &filled);
            for (workload, transaction) in [(Workload::Synced, 1000), (Workload::Commit, 1)] {
                if self.wants(workload) && map.is_durable() {
                    let operation = Operation::new(workload, Variant::Only);
                    self.throughput(place, operation, |bench| {
                        synced::insert(&filled, bench, threads, transaction)
                    });
                }
            }
            self.delete(place, &filled, false);
        }
        if self.wants(Workload::Fill) {
            self.fill_in_steps::<T>(place);
        }
        if self.wants(Workload::YcsbLoad) {
            self.load::<T>(place);
        }
        self.on_maps_of_their_own::<T>(place);
        self.mixed_inserts::<T>(place);
        if self.wants(Workload::Insdel) {
            self.insert_and_delete_in_empty::<T>(place);
        }
        if self.wants(Workload::Grow) {
            for &batched in self.modes::<T>() {
                let operation = Operation::new(Workload::Grow, Variant::Only).batched(batched);
                back_free_memory(self.settings.items);
                self.throughput(place, operation, |bench| {
                    populate::fill(&T::empty(map), bench, threads, batched)
                });
            }
        }
        if self.wants(Workload::Recovery) && map.is_durable() {
            self.recovery::<T>(place);
        }
        self.latencies::<T>(place);
        self.grown::<T>(place);
    }

    /// Makes a map with all items; doing so is the workload `insert`.
    fn fill<T: Target>(&mut self, place: Place, batched: bool) -> Option<T> {
        let operation = Operation::new(Workload::Insert, Variant::Only).batched(batched);
        self.announce(place, &operation.to_string());
        back_free_memory(self.settings.items);
        let map = T::with_capacity(place.map, self.settings.items as usize);
        match populate::fill(&map, &self.bench, place.threads, batched) {
            Ok(mops) => {
                if self.wants(Workload::Insert) {
                    self.results.add_mops(operation, place.map, place.threads, mops);
                }
                Some(map)
            }
            Err(error) => {
                self.fail(place, operation, &error);
                None
            }
        }
    }

    /// Inserts and deletes in an empty map with room for all items (figure 5 of the DLHT paper).
    fn insert_and_delete_in_empty<T: Target>(&mut self, place: Place) {
        back_free_memory(self.settings.items);
        let map = T::with_capacity(place.map, self.settings.items as usize);
        for &batched in self.modes::<T>() {
            let operation = Operation::new(Workload::Insdel, Variant::Empty).batched(batched);
            self.throughput(place, operation, |bench| {
                insdel::insert_and_delete(&map, bench, place.threads, batched)
            });
        }
    }

    /// Runs what changes the keys of a map: deletes of a half, and YCSB D. Each run has a new map.
    fn on_maps_of_their_own<T: Target>(&mut self, place: Place) {
        type Measure<T> = fn(&T, &Bench<'_>, usize, bool) -> Result<f64, CheckFailed>;
        let all: [(Workload, Measure<T>); 2] =
            [(Workload::DeleteHalf, delete::to_half), (Workload::YcsbD, latest::reads)];
        for (workload, measure) in all {
            for &batched in self.modes::<T>() {
                if !self.wants(workload) {
                    continue;
                }
                let operation = Operation::new(workload, Variant::Only).batched(batched);
                back_free_memory(self.settings.items);
                let map = T::with_capacity(place.map, self.settings.items as usize);
                self.throughput(place, operation, |bench| {
                    populate::fill(&map, bench, place.threads, batched)?;
                    measure(&map, bench, place.threads, batched)
                });
            }
        }
    }

    fn latencies<T: Target>(&mut self, place: Place) {
        let Place { map, threads } = place;
        for workload in [Workload::Latency, Workload::LatencyA] {
            if !self.wants(workload) || T::WHOLE_LOOPS {
                continue;
            }
            self.announce(place, &workload.to_string());
            back_free_memory(self.settings.items);
            let measured = if workload == Workload::Latency {
                latency::while_growing::<T>(map, &self.bench, &self.clock, threads)
            } else {
                let loaded = T::with_capacity(map, self.settings.items as usize);
                populate::fill(&loaded, &self.bench, threads, false)
                    .and_then(|_| latency::of_ycsb_a(&loaded, &self.bench, &self.clock, threads))
            };
            match measured {
                Ok(latencies) => self.results.add_latencies(workload, map, threads, &latencies),
                Err(error) => {
                    for variant in [Variant::OfInsert, Variant::OfGet, Variant::OfMiss] {
                        self.fail(place, Operation::new(workload, variant), &error);
                    }
                }
            }
        }
    }

    /// Grows a map to twenty times its items, and runs lookups and deletes in it, as in figures 5 and 6
    /// of the Pea Hash paper.
    fn grown<T: Target>(&mut self, place: Place) {
        if !self.wants(Workload::Grown) {
            return;
        }
        type Measure<T> = fn(&T, &Bench<'_>, usize, bool) -> Result<f64, CheckFailed>;
        let all: [(Variant, Measure<T>); 4] = [
            (Variant::OfInsert, |map, bench, threads, _| {
                inserting::the_others(map, bench, threads)
            }),
            (Variant::OfGet, lookup::hits),
            (Variant::OfMiss, lookup::misses),
            (Variant::OfDelete, delete::empty),
        ];
        back_free_memory(self.settings.items);
        let map = T::empty(place.map);
        inserting::load_a_few(&map, &self.bench);
        for (variant, measure) in all {
            let operation = Operation::new(Workload::Grown, variant);
            self.throughput(place, operation, |bench| measure(&map, bench, place.threads, false));
        }
    }

    /// Runs inserts and gets in one stream, as in figure 5 of the Pea Hash paper.
    fn mixed_inserts<T: Target>(&mut self, place: Place) {
        if !self.wants(Workload::MixedInserts) {
            return;
        }
        for percent in inserting::MIXES {
            back_free_memory(self.settings.items);
            let operation = Operation::new(Workload::MixedInserts, Variant::Inserts(percent));
            self.throughput(place, operation, |bench| {
                inserting::from_a_few(&T::empty(place.map), bench, place.threads, percent)
            });
        }
    }

    fn recovery<T: Target>(&mut self, place: Place) {
        let operation = |items| Operation::new(Workload::Recovery, Variant::Items(items));
        self.announce(place, "recovery");
        match recovery::by_size::<T>(place.map, &self.bench, place.threads) {
            Ok(times) => {
                for (items, time) in times {
                    let milliseconds = time.as_secs_f64() * 1e3;
                    self.results.add_time(operation(items), place.map, place.threads, milliseconds);
                }
            }
            Err(error) => self.fail(place, operation(self.settings.items), &error),
        }
    }

    /// Empties a map that has all items, if the workload `delete` was chosen.
    fn delete<T: Target>(&mut self, place: Place, map: &T, batched: bool) {
        if self.wants(Workload::Delete) {
            let operation = Operation::new(Workload::Delete, Variant::Only).batched(batched);
            self.throughput(place, operation, |bench| {
                delete::empty(map, bench, place.threads, batched)
            });
        }
    }

    fn levels<T: Target>(&mut self, place: Place, operation: Operation, map: &T) {
        if self.wants(Workload::Levels)
            && let Some(levels) = map.levels()
        {
            self.results.add_levels(operation, place.map, place.threads, levels);
        }
    }

    fn fill_in_steps<T: Target>(&mut self, place: Place) {
        let operation = |percent| Operation::new(Workload::Fill, Variant::Filled(percent));
        self.announce(place, "fill");
        back_free_memory(self.settings.items);
        match fill::in_steps::<T>(place.map, &self.bench, place.threads) {
            Ok(steps) => {
                for (percent, mops) in steps {
                    self.results.add_mops(operation(percent), place.map, place.threads, mops);
                }
            }
            Err(error) => self.fail(place, operation(95), &error),
        }
    }

    /// Measures the memory at the steps of `fill`. It does not depend on the number of threads.
    fn space_of_steps(&mut self, map: MapName) {
        if !self.wants(Workload::Fill) {
            return;
        }
        let operation = |percent| Operation::new(Workload::Fill, Variant::Filled(percent));
        self.announce(Place { map, threads: 1 }, "fill/space");
        let request = space::Request { steps: true, ..self.space_request(map) };
        match request.in_new_process() {
            Ok(spaces) => {
                for (percent, space) in fill::steps().zip(spaces) {
                    for &threads in &self.settings.threads {
                        self.results.add_space(operation(percent), map, threads, space);
                    }
                }
            }
            Err(error) => self.fail(Place { map, threads: 1 }, operation(95), &error),
        }
    }

    fn space_request(&self, map: MapName) -> space::Request {
        space::Request {
            map,
            items: self.settings.items,
            seed: self.settings.seed,
            sequential: self.settings.keys == KeyOrder::Sequential,
            grown: false,
            steps: false,
        }
    }

    /// Runs YCSB as the IcebergHT paper does (figures 4 and 5, table 4): loads a map that has room for
    /// a little more than a quarter of all items, so that it grows to four times its size. Then the
    /// gets of C, or gets with as many inserts as were loaded, of A and B.
    fn load<T: Target>(&mut self, place: Place) {
        let threads = place.threads;
        let operation = |variant| Operation::new(Workload::YcsbLoad, variant);
        let quarter = (self.settings.items as f64 / 4.0 * 1.003) as usize;
        for (mixture, percent_gets) in [(Mixed::A, 50), (Mixed::B, 95)] {
            back_free_memory(self.settings.items);
            let map = T::with_capacity(place.map, quarter);
            self.throughput(place, operation(Variant::Only), |bench| {
                populate::fill(&map, bench, threads, false)
            });
            self.levels(place, operation(Variant::Only), &map);
            if mixture == Mixed::A {
                let mix = Mix { percent_gets: 100, modify: false };
                self.throughput(place, operation(Variant::Loaded(Mixed::C)), |bench| {
                    mixed(&map, bench, threads, false, Popularity::Uniform, mix)
                });
            }
            let operation = operation(Variant::Loaded(mixture));
            self.throughput(place, operation, |bench| {
                inserting::with_gets(&map, bench, threads, percent_gets)
            });
            self.levels(place, operation, &map);
        }
    }

    fn on_items<T: Target>(&mut self, place: Place, map: &T) {
        let threads = place.threads;
        for batched in [false, true] {
            if batched && !(self.measures_batches() && map.gets_batches()) {
                continue;
            }
            let simple = |workload| Operation::new(workload, Variant::Only).batched(batched);
            if self.wants(Workload::GetHit) {
                self.throughput(place, simple(Workload::GetHit), |bench| {
                    lookup::hits(map, bench, threads, batched)
                });
            }
            if self.wants(Workload::GetMiss) {
                self.throughput(place, simple(Workload::GetMiss), |bench| {
                    lookup::misses(map, bench, threads, batched)
                });
            }
            // Of some maps only gets have batches.
            if batched && !T::BATCHED {
                continue;
            }
            if self.wants(Workload::Insdel) {
                self.throughput(place, simple(Workload::Insdel), |bench| {
                    insdel::insert_and_delete(map, bench, threads, batched)
                });
            }
            for workload in [
                Workload::PutHeavy,
                Workload::UpdateOnly,
                Workload::YcsbA,
                Workload::YcsbB,
                Workload::YcsbC,
                Workload::YcsbF,
            ] {
                let (mix, variants) = self.mix_of(workload);
                // A batch has no atomic read-modify-write.
                if !self.wants(workload) || (mix.modify && batched) {
                    continue;
                }
                for &(variant, popularity) in &variants {
                    let operation = Operation::new(workload, variant).batched(batched);
                    self.throughput(place, operation, |bench| {
                        mixed(map, bench, threads, batched, popularity, mix)
                    });
                }
            }
        }
    }

    /// Returns the mix of a workload, and its variants by the popularity of keys.
    fn mix_of(&self, workload: Workload) -> (Mix, Vec<(Variant, Popularity)>) {
        let (percent_gets, modify) = match workload {
            Workload::YcsbB => (95, false),
            Workload::YcsbC => (100, false),
            Workload::YcsbF => (50, true),
            Workload::UpdateOnly => (0, false),
            _ => (50, false),
        };
        let variants = if matches!(workload, Workload::PutHeavy | Workload::UpdateOnly) {
            vec![(Variant::Only, self.settings.popularity())]
        } else {
            let both = [Popularity::Uniform, Popularity::Zipf];
            both.map(|popularity| (Variant::Keys(popularity), popularity)).to_vec()
        };
        let mix = Mix { percent_gets, modify };
        (mix, variants)
    }

    fn throughput(
        &mut self,
        place: Place,
        operation: Operation,
        measure: impl FnOnce(&Bench<'_>) -> Result<f64, CheckFailed>,
    ) {
        self.announce(place, &operation.to_string());
        match measure(&self.bench) {
            Ok(mops) => self.results.add_mops(operation, place.map, place.threads, mops),
            Err(error) => self.fail(place, operation, &error),
        }
    }

    fn words<W: WordTarget>(&mut self, place: Place, text: &Text) {
        let operation = Operation::new(Workload::Words, Variant::Only);
        self.throughput(place, operation, |_| words::count::<W>(text, place.threads));
    }

    fn space(&mut self, map: MapName) {
        if !self.wants(Workload::Space) {
            return;
        }
        let place = Place { map, threads: 1 };
        for (grown, variant) in [(false, Variant::Presized), (true, Variant::Grown)] {
            let operation = Operation::new(Workload::Space, variant);
            self.announce(place, &operation.to_string());
            let request = space::Request { grown, ..self.space_request(map) };
            match request.in_new_process() {
                Ok(spaces) => {
                    for space in spaces {
                        self.results.add_space(operation, map, 1, space);
                    }
                }
                Err(error) => self.fail(place, operation, &error),
            }
        }
    }

    /// How the reads of a batch would overlap on an emulated device is not known.
    fn measures_batches(&self) -> bool {
        self.settings.medium.device_latency.is_none()
    }

    /// Returns the modes of a map: unbatched, and batched if the map has batches.
    fn modes<T: Target>(&self) -> &'static [bool] {
        if T::BATCHED && self.measures_batches() { &[false, true] } else { &[false] }
    }

    fn announce(&self, place: Place, what: &str) {
        let Place { map, threads } = place;
        self.progress.set_message(format!("{map} · {what} · threads {threads}"));
    }

    fn fail(&mut self, place: Place, operation: Operation, error: &CheckFailed) {
        self.results.fail(operation, place.map, place.threads, &error.0);
    }
}

/// The map and the number of threads of a measurement.
#[derive(Debug, Clone, Copy)]
struct Place {
    map: MapName,
    threads: usize,
}

fn needs_items(workload: Workload) -> bool {
    use Workload as W;
    !matches!(
        workload,
        W::Grow
            | W::Fill
            | W::YcsbLoad
            | W::YcsbD
            | W::DeleteHalf
            | W::MixedInserts
            | W::Grown
            | W::LatencyA
            | W::Latency
            | W::Space
            | W::Recovery
            | W::Words
    )
}
