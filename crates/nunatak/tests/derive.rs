//! Derived types are stored and come back, and damaged words are refused.

use nunatak::entry::{Inline, InlineKey};
use nunatak::{DlhtMap, DlhtSet, IcebergMap};
use std::fmt::Debug;
use std::num::NonZero;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Inline, InlineKey)]
struct Cell {
    x: i16,
    y: i16,
    layer: u8,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Inline, InlineKey)]
enum Kind {
    Ice = 7,
    Rock = -3,
    Snow = 1 << 20,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Inline, InlineKey)]
struct UserId(NonZero<u64>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Inline, InlineKey)]
struct Unit;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Inline, InlineKey)]
struct Tuple(u8, (u8, bool), [u8; 3], Unit, char2::Letter);

mod char2 {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Inline, InlineKey)]
    pub(crate) enum Letter {
        A,
        B,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Inline)]
struct Reading {
    celsius: f32,
    humidity: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Inline, InlineKey)]
struct Tagged<T> {
    tag: u8,
    of: T,
}

fn comes_back<T: Inline + PartialEq + Debug>(value: T) {
    let word = value.to_word();
    assert_eq!(T::from_word(word), value);
    assert!(T::is_word(word));
    assert_eq!(word.checked_shr(T::BITS).unwrap_or(0), 0);
}

#[test]
fn values_come_back() {
    for kind in [Kind::Ice, Kind::Rock, Kind::Snow] {
        comes_back(kind);
        for (x, y, layer) in [(i16::MIN, i16::MAX, 0), (-1, 0, 255), (7, -9, 1)] {
            comes_back(Cell { x, y, layer, kind });
        }
    }
    comes_back(UserId(NonZero::new(u64::MAX).unwrap()));
    comes_back(Unit);
    comes_back(Tuple(1, (2, true), [3, 4, 255], Unit, char2::Letter::B));
    comes_back(Tuple(255, (0, false), [0; 3], Unit, char2::Letter::A));
    comes_back(Reading { celsius: -3.5, humidity: 80 });
    comes_back(Tagged { tag: 9, of: -7_i32 });
    comes_back(Tagged { tag: 9, of: Kind::Rock });
    assert_eq!((Cell::BITS, Unit::BITS, Kind::BITS, Tuple::BITS), (48, 0, 8, 56));
    assert_eq!([Cell::EVERY_WORD, UserId::EVERY_WORD, Reading::EVERY_WORD], [false; 3]);
}

/// A damaged file may hold any words.
#[test]
fn words_of_no_value_are_refused() {
    assert!(!Kind::is_word(3) && !Kind::is_word(256));
    assert!(!Cell::is_word(3 << 40) && !Cell::is_word(1 << 48));
    assert!(!UserId::is_word(0));
    assert!(!Unit::is_word(1));
}

#[test]
fn maps_hold_derived_types() {
    let map: DlhtMap<Cell, Reading> = DlhtMap::new();
    let cell = |n: i16| Cell { x: n, y: -n, layer: n as u8, kind: Kind::Ice };
    for n in -500..500 {
        map.insert(cell(n), Reading { celsius: n.into(), humidity: 1 });
    }
    assert_eq!(map.len(), 1000);
    assert!((-500..500).all(|n| map.get(&cell(n)).is_some_and(|found| found.celsius == n.into())));
    assert_eq!(map.get(&Cell { kind: Kind::Snow, ..cell(1) }), None);
    let seen: DlhtSet<Tagged<u32>> = [Tagged { tag: 1, of: 2 }].into();
    assert!(seen.contains(&Tagged { tag: 1, of: 2 }) && !seen.contains(&Tagged { tag: 2, of: 2 }));
    let tuples = IcebergMap::new();
    tuples.insert((1_u8, 2_u16, 3_u32), (4_i8, -5_i8, 6_i8, -7_i8));
    assert_eq!(tuples.get(&(1, 2, 3)), Some((4, -5, 6, -7)));
}

/// More variants than a byte has values.
#[test]
fn many_variants_take_two_bytes() {
    macro_rules! many {
        ($($tens:ident: $($name:ident)*;)*) => {
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Inline, InlineKey)]
            enum Many { $($($name,)*)* }
            const ALL: &[Many] = &[$($(Many::$name,)*)*];
        };
    }
    many! {
        a: A0 A1 A2 A3 A4 A5 A6 A7 A8 A9 AA AB AC AD AE AF AG AH AI AJ AK AL AM AN AO AP AQ AR AS AT;
        b: B0 B1 B2 B3 B4 B5 B6 B7 B8 B9 BA BB BC BD BE BF BG BH BI BJ BK BL BM BN BO BP BQ BR BS BT;
        c: C0 C1 C2 C3 C4 C5 C6 C7 C8 C9 CA CB CC CD CE CF CG CH CI CJ CK CL CM CN CO CP CQ CR CS CT;
        d: D0 D1 D2 D3 D4 D5 D6 D7 D8 D9 DA DB DC DD DE DF DG DH DI DJ DK DL DM DN DO DP DQ DR DS DT;
        e: E0 E1 E2 E3 E4 E5 E6 E7 E8 E9 EA EB EC ED EE EF EG EH EI EJ EK EL EM EN EO EP EQ ER ES ET;
        f: F0 F1 F2 F3 F4 F5 F6 F7 F8 F9 FA FB FC FD FE FF FG FH FI FJ FK FL FM FN FO FP FQ FR FS FT;
        g: G0 G1 G2 G3 G4 G5 G6 G7 G8 G9 GA GB GC GD GE GF GG GH GI GJ GK GL GM GN GO GP GQ GR GS GT;
        h: H0 H1 H2 H3 H4 H5 H6 H7 H8 H9 HA HB HC HD HE HF HG HH HI HJ HK HL HM HN HO HP HQ HR HS HT;
        i: I0 I1 I2 I3 I4 I5 I6 I7 I8 I9 IA IB IC ID IE IF IG IH II IJ IK IL IM IN IO IP IQ IR IS IT;
    }
    assert_eq!((ALL.len(), Many::BITS), (270, 16));
    ALL.iter().for_each(|&value| comes_back(value));
    assert!(!Many::is_word(270));
}
