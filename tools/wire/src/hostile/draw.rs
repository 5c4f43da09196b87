// SPDX-License-Identifier: GPL-2.0
//! Draws packets: structured, and weighted towards the edges.
//!
//! A burst depends on the seed and its number alone, so that a run can be cut into
//! pieces and its bursts written down.

use fastrand::Rng;

use super::script::{Field, Order, Packet, Step};
use super::value::{Name, Term, Value};
use crate::header::op;

/// The names of the connections that bursts are about. A script serves them; the
/// last two are a SEQPACKET one and one that nobody has.
const NAMES: [&str; 3] = ["a", "b", "s"];

/// The port of the guest on which a program of the script may listen.
const LISTENER: u64 = 7000;

/// Most packets of a burst.
const MOST: u64 = 64;

/// The steps of a burst.
pub fn burst(seed: u64, number: u64) -> Vec<Step> {
    // Neighbours must not be alike; this is what splitmix does to its counter.
    let mut rng = Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let count = match rng.u8(..4) {
        0 => rng.u64(1..=4),
        _ => rng.u64(1..=MOST),
    };
    // Packets of one flow follow one another for a while, or there is no batch.
    let flow = flow(&mut rng);
    let steadiness = *pick(&mut rng, &[0u8, 2, 8, 32]);
    let packet = |rng: &mut Rng| {
        let own = match rng.u8(..=steadiness) {
            0 => self::flow(rng),
            _ => flow,
        };
        Step::Send(packet(rng, own))
    };
    let packets: Vec<Step> = (0..count).map(|_| packet(&mut rng)).collect();
    match rng.u8(..16) {
        0 => packets,
        1 => vec![Step::Batch(Order::Reversed, packets)],
        2 => vec![Step::Batch(Order::Shuffled, packets)],
        3 => vec![
            Step::Notify {
                tx: rng.bool(),
                times: rng.u64(1..4),
            },
            Step::Batch(Order::Posted, packets),
        ],
        _ => vec![Step::Batch(Order::Posted, packets)],
    }
}

fn flow(rng: &mut Rng) -> Option<&'static str> {
    match rng.u8(..8) {
        0 => None,
        n => Some(NAMES[usize::from(n) % NAMES.len()]),
    }
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.usize(..from.len())]
}

/// A number near one of the edges that 32 bits have, or any.
fn edge(rng: &mut Rng) -> Value {
    const EDGES: [u64; 12] = [
        0,
        1,
        2,
        43,
        44,
        45,
        4096,
        65_535,
        65_536,
        1 << 31,
        (1 << 32) - 1,
        1 << 32,
    ];
    match rng.u8(..5) {
        0 => Value::Number(rng.u32(..).into()),
        _ => Value::Number(*pick(rng, &EDGES)),
    }
}

/// What is right, or a little more or less.
fn near(rng: &mut Rng) -> Value {
    Value::right_and(rng.i64(-2..=2))
}

fn near_or_edge(rng: &mut Rng) -> Value {
    match rng.bool() {
        true => near(rng),
        false => edge(rng),
    }
}

fn packet(rng: &mut Rng, flow: Option<&str>) -> Packet {
    let size = match rng.u8(..8) {
        0 => 0,
        1 => *pick(rng, &[127, 128, 129, 3000, 3700, 4096]),
        _ => rng.u64(1..=64),
    };
    let mut packet = Packet {
        connection: flow.map(str::to_owned),
        fields: Vec::new(),
    };
    let mut set = |field, value| packet.fields.push((field, value));
    if size > 0 {
        set(Field::Payload, Value::Number(size));
    }
    match rng.u8(..100) {
        // Most are honest, or batches would never be.
        0..50 => {}
        50..60 => {
            let posted = Value::Sum(vec![
                (false, Term::Name(Name::Posted)),
                (false, Term::Number(rng.u64(..3))),
            ]);
            let used = [Value::Number(rng.u64(..46)), edge(rng), near(rng), posted];
            set(Field::Used, pick(rng, &used).clone());
        }
        60..70 => set(Field::Len, near_or_edge(rng)),
        70..73 => set(Field::Src, near_or_edge(rng)),
        73..75 => set(Field::Dst, near_or_edge(rng)),
        75..78 => set(Field::SrcPort, near_or_edge(rng)),
        78..80 => set(Field::DstPort, near_or_edge(rng)),
        80..83 => set(Field::Type, Value::Number(rng.u64(..4))),
        83..84 => set(Field::Type, edge(rng)),
        84..87 => set(Field::Op, Value::Number(rng.u64(..9))),
        87..88 => set(Field::Op, edge(rng)),
        88..91 => set(Field::Flags, Value::Number(rng.u64(..8))),
        91..92 => set(Field::Flags, edge(rng)),
        92..95 => set(Field::BufAlloc, edge(rng)),
        95..97 => set(Field::FwdCnt, near_or_edge(rng)),
        97..98 => {
            set(Field::Op, Value::Number(op::SHUTDOWN.into()));
            set(Field::Flags, Value::Number(rng.u64(..4)));
        }
        98..99 => {
            set(Field::Op, Value::Number(op::REQUEST.into()));
            set(Field::SrcPort, Value::Number(rng.u64(6000..6100)));
            set(Field::DstPort, Value::Number(LISTENER));
        }
        _ => {
            set(Field::Op, Value::Number(op::CREDIT_REQUEST.into()));
            set(Field::BufAlloc, edge(rng));
            set(Field::FwdCnt, edge(rng));
        }
    }
    packet.fields.sort_by_key(|(field, _)| *field);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::script::Script;

    #[test]
    fn a_burst_is_its_seed_and_its_number() {
        assert_eq!(burst(1, 5), burst(1, 5));
        assert_ne!(burst(1, 5), burst(1, 6));
        assert_ne!(burst(1, 5), burst(2, 5));
    }

    #[test]
    fn bursts_can_be_written_down_and_read_again() {
        for number in 0..200 {
            let script = Script {
                steps: burst(3, number),
                ..Script::default()
            };
            assert_eq!(script.to_string().parse(), Ok(script.clone()), "{script}");
        }
    }

    #[test]
    fn every_field_is_drawn_and_about_half_of_the_packets_are_honest() {
        let mut seen = Vec::new();
        let (mut packets, mut honest) = (0, 0);
        for number in 0..2000 {
            for step in burst(9, number) {
                let Step::Batch(_, steps) = step else {
                    continue;
                };
                for step in steps {
                    let Step::Send(packet) = step else {
                        panic!("{step}")
                    };
                    packets += 1;
                    let wrong = |(field, _): &(Field, Value)| *field != Field::Payload;
                    honest += u64::from(!packet.fields.iter().any(wrong));
                    seen.extend(packet.fields.iter().map(|(field, _)| field.name()));
                    seen.sort_unstable();
                    seen.dedup();
                }
            }
        }
        assert_eq!(seen.len(), Field::NAMES.len() - 1, "{seen:?}");
        assert!(packets > 30_000, "{packets}");
        assert!(
            (packets * 2 / 5..packets * 3 / 5).contains(&honest),
            "{honest} of {packets}"
        );
    }
}
