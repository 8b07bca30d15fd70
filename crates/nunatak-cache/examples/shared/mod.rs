//! Keys of the examples: the same in every run.

/// A random number generator: SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Keys of which the `i`-th most popular one is asked for in proportion to `i^-skew`.
pub(crate) struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    pub(crate) fn new(keys: usize, skew: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=keys).map(|rank| (rank as f64).powf(-skew));
        let sums = weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        Self { sums }
    }

    pub(crate) fn key(&self, random: &mut Random) -> u64 {
        let at = random.unit() * self.sums.last().expect("there are keys");
        self.sums.partition_point(|sum| *sum <= at) as u64
    }
}
