// SPDX-License-Identifier: GPL-2.0
//! Reads what a line says is to be done.

use super::words::{Words, as_port};
use crate::header::{TYPE_SEQPACKET, TYPE_STREAM};
use crate::hostile::script::{Event, Field, GuestProgram, Packet, Step, Wait};
use crate::hostile::value::{CONSTANTS, Value, number};

/// Milliseconds that a script waits for something of the guest, unless it says
/// otherwise.
const PATIENCE: u64 = 20_000;

/// `VIRTIO_VSOCK_EVENT_TRANSPORT_RESET`, and the bytes of `struct virtio_vsock_event`.
const TRANSPORT_RESET: u64 = 0;
const EVENT_LEN: u64 = 4;

/// A step, by its first word and the others.
pub(super) fn step(verb: &str, words: &mut Words<'_>) -> Result<Step, String> {
    Ok(match verb {
        "accept" => Step::Accept {
            name: words.name()?,
            port: words.port("at")?,
            answer: words.switch("answer", true)?,
            within: words.number("within")?.unwrap_or(PATIENCE),
        },
        "serve" => Step::Serve {
            name: words.name()?,
            port: words.port("at")?,
        },
        "connect" => Step::Connect {
            name: words.name()?,
            from: words.port("from")?,
            to: words.port("to")?,
            kind: match words.seqpacket()? {
                true => TYPE_SEQPACKET,
                false => TYPE_STREAM,
            },
            within: words.number("within")?.unwrap_or(PATIENCE),
        },
        "send" => Step::Send(Packet {
            connection: words.bare().map(str::to_owned),
            fields: words.fields(|_| true)?,
        }),
        "wait" => Step::Wait(wait(words)?),
        "sync" => Step::Sync,
        "notify" => Step::Notify {
            tx: match words.bare() {
                Some("rx") => false,
                Some("tx") => true,
                _ => return Err("say which queue: rx or tx".into()),
            },
            times: words.number("times")?.unwrap_or(1),
        },
        "change" => Step::Change {
            microseconds: words.number("us")?.unwrap_or(1000),
            fields: words.fields(Field::is_of_header)?,
        },
        "event" => Step::Event(Event {
            id: words.value("id")?.unwrap_or(Value::Number(TRANSPORT_RESET)),
            used: words.value("used")?.unwrap_or(Value::Number(EVENT_LEN)),
            cid: words.value("cid")?,
        }),
        "hold" => Step::Hold(true),
        "release" => Step::Hold(false),
        "deaf" => Step::Deaf(true),
        "listen" => Step::Deaf(false),
        "fuzz" => Step::Fuzz {
            first: words.number("first")?.unwrap_or(0),
            count: words.number("bursts")?.ok_or("say how many: bursts=N")?,
        },
        _ => {
            return Err(format!(
                "'{verb}' is no step; there are accept, serve, connect, send, batch, repeat, end, wait, \
                 sync, notify, change, event, hold, release, deaf, listen, fuzz, seed, guest, message, answers, counts, grows, timing and \
                 reload"
            ));
        }
    })
}

fn wait(words: &mut Words<'_>) -> Result<Wait, String> {
    if let Some(milliseconds) = words.number("ms")? {
        return Ok(Wait::Time(milliseconds));
    }
    let within = words.number("within")?.unwrap_or(PATIENCE);
    let connection = words.bare();
    if connection == Some("reset") {
        return Ok(Wait::Reset { within });
    }
    let op = words.take("op").map(|text| {
        let named = CONSTANTS.iter().find(|(name, _)| *name == text);
        let number = named.map(|(_, number)| *number).or_else(|| number(text));
        number
            .and_then(|number| u16::try_from(number).ok())
            .ok_or(format!("'{text}' is no operation"))
    });
    Ok(Wait::Packets {
        connection: connection.map(str::to_owned),
        op: op.transpose()?,
        port: words.number("at")?.map(as_port).transpose()?,
        count: words.number("count")?.unwrap_or(1),
        within,
    })
}

/// A program that the guest is to have.
pub(super) fn guest_program(words: &mut Words<'_>) -> Result<GuestProgram, String> {
    let (connect, listen) = (words.number("connect")?, words.number("listen")?);
    let (port, listens) = match (connect, listen) {
        (Some(port), None) => (port, false),
        (None, Some(port)) => (port, true),
        _ => return Err("say either connect=PORT or listen=PORT".into()),
    };
    Ok(GuestProgram {
        port: as_port(port)?,
        listens,
        seqpacket: words.seqpacket()?,
        count: words.number("count")?.map_or(Ok(1), as_port)?,
        reads: words.switch("read", false)?,
        again: words.switch("again", false)?,
        writes: words.number("write")?.unwrap_or(0),
        buffer: words.number("buffer")?,
    })
}
