//! Sums of numbers with a fraction are those of Redis, to the last digit.

use crate::common::{Local, Redis, encode};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

fn digits(random: &mut SmallRng, count: usize) -> String {
    (0..count).map(|_| char::from(b'0' + random.random_range(0..10))).collect()
}

/// Returns a number: of few digits or many, some with an exponent, seldom none.
fn number(random: &mut SmallRng) -> String {
    let sign = ["", "", "-", "+"][random.random_range(0..4)];
    let (whole, fraction) = (random.random_range(0..24), random.random_range(0..24));
    let mut text = format!("{sign}{}", digits(random, whole));
    match random.random_range(0..6) {
        0 => text = format!("{sign}{}.{}", digits(random, 1), "9".repeat(fraction)),
        1 => text = format!("{sign}0x{:x}.{:x}", random.random::<u64>(), random.random::<u32>()),
        2..=4 => text = format!("{text}.{}", digits(random, fraction)),
        _ => {}
    }
    let exponent = match random.random_range(0..40) {
        0 => 4970,
        1..8 => 25,
        _ => return text,
    };
    let letter = if text.contains('x') { 'p' } else { 'e' };
    text + &format!("{letter}{}", random.random_range(-exponent..exponent))
}

#[test]
fn sums_of_fractions_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let local = Local::start(&["--threads=1"]);
    let (mut here, mut there) = (local.client(), redis.client());
    let effort: f64 =
        std::env::var("NUNATAK_EFFORT").map_or(1.0, |it| it.parse().expect("a number"));
    let mut random = SmallRng::seed_from_u64(4);
    for round in 0..(200.0 * effort.max(0.2)) as usize {
        let mut commands = Vec::new();
        for _ in 0..100 {
            let (value, by) = (number(&mut random), number(&mut random));
            commands.push(vec!["SET".to_string(), "key".into(), value.clone()]);
            commands.push(vec!["INCRBYFLOAT".into(), "key".into(), by.clone()]);
            // The sum that was stored is a number again.
            commands.push(vec!["INCRBYFLOAT".into(), "key".into(), value.clone()]);
            commands.push(vec!["HSET".into(), "hash".into(), "field".into(), by]);
            commands.push(vec!["HINCRBYFLOAT".into(), "hash".into(), "field".into(), value]);
        }
        let bytes: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
        here.send(&bytes);
        there.send(&bytes);
        for command in commands.chunks(5).flatten() {
            assert_eq!(here.read(), there.read(), "round {round}: {command:?} of {commands:?}");
        }
    }
}
