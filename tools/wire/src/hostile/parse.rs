// SPDX-License-Identifier: GPL-2.0
//! Reads scripts.

use std::str::{FromStr, SplitWhitespace};

use super::script::{Event, Field, GuestProgram, Order, Packet, Script, Step, Wait};
use super::value::{CONSTANTS, Value, number};
use crate::header::{TYPE_SEQPACKET, TYPE_STREAM};

/// Milliseconds that a script waits for something of the guest, unless it says
/// otherwise.
const PATIENCE: u64 = 20_000;

/// `VIRTIO_VSOCK_EVENT_TRANSPORT_RESET`, and the bytes of `struct virtio_vsock_event`.
const TRANSPORT_RESET: u64 = 0;
const EVENT_LEN: u64 = 4;

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut script = Script::default();
        // The steps of the blocks that are open, and what opened each.
        let mut open: Vec<(Block, Vec<Step>)> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let result = read_line(line, &mut script, &mut open);
            result.map_err(|why| format!("line {}: {why}", at + 1))?;
        }
        match open.last() {
            None => Ok(script),
            Some((block, _)) => Err(format!("'{}' has no end", block.verb())),
        }
    }
}

/// What steps stand in.
enum Block {
    Repeat(Value),
    Batch(Order),
}

impl Block {
    fn verb(&self) -> &'static str {
        match self {
            Block::Repeat(_) => "repeat",
            Block::Batch(_) => "batch",
        }
    }

    fn close(self, steps: Vec<Step>) -> Step {
        match self {
            Block::Repeat(times) => Step::Repeat(times, steps),
            Block::Batch(order) => Step::Batch(order, steps),
        }
    }
}

fn read_line(
    line: &str,
    script: &mut Script,
    open: &mut Vec<(Block, Vec<Step>)>,
) -> Result<(), String> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if verb == "message" {
        script.provokes.push(rest.trim().to_owned());
        return Ok(());
    }
    let mut words = Words::of(rest)?;
    let in_batch = open
        .iter()
        .any(|(block, _)| matches!(block, Block::Batch(_)));
    match verb {
        "" => return Ok(()),
        "seed" => script.seed = words.bare_number("a seed")?,
        "timing" => script.timing = true,
        "reload" => script.reload = true,
        "grows" => script.grows.push(words.name()?),
        "answers" => {
            let connection = words.name()?;
            let op = words.bare().ok_or("say which operation")?;
            let number = words.bare_number("how often it answers so")?;
            script.answers.push((connection, op.to_owned(), number));
        }
        "counts" => {
            let counter = words.bare().ok_or("give a counter of the driver")?;
            let number = words.bare_number("what it grows by")?;
            script.counts.push((counter.to_owned(), number));
        }
        "guest" => script.guests.push(guest_program(&mut words)?),
        "repeat" => {
            let times = words.bare().ok_or("say how often")?.parse()?;
            open.push((Block::Repeat(times), Vec::new()));
        }
        "batch" if in_batch => return Err("a batch cannot stand in a batch".into()),
        "batch" => {
            let order = match words.bare() {
                None => Order::Posted,
                Some("reversed") => Order::Reversed,
                Some("shuffled") => Order::Shuffled,
                Some(other) => {
                    return Err(format!(
                        "'{other}' is no order; there are reversed and shuffled"
                    ));
                }
            };
            open.push((Block::Batch(order), Vec::new()));
        }
        "end" => {
            let (block, steps) = open.pop().ok_or("there is nothing to end here")?;
            let step = block.close(steps);
            steps_of(script, open).push(step);
        }
        _ => {
            let step = step(verb, &mut words)?;
            if in_batch && !matches!(step, Step::Send(_)) {
                return Err(format!(
                    "'{verb}' cannot stand in a batch; send and repeat can"
                ));
            }
            steps_of(script, open).push(step);
        }
    }
    words.finish(verb)
}

fn steps_of<'a>(script: &'a mut Script, open: &'a mut [(Block, Vec<Step>)]) -> &'a mut Vec<Step> {
    match open.last_mut() {
        Some((_, steps)) => steps,
        None => &mut script.steps,
    }
}

fn step(verb: &str, words: &mut Words<'_>) -> Result<Step, String> {
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

fn guest_program(words: &mut Words<'_>) -> Result<GuestProgram, String> {
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

fn as_port(number: u64) -> Result<u32, String> {
    u32::try_from(number).map_err(|_| format!("{number} is not below 2^32"))
}

/// The words of a line after its first, not used yet.
struct Words<'a> {
    bare: SplitWhitespaceWithout<'a>,
    pairs: Vec<(&'a str, &'a str)>,
}

type SplitWhitespaceWithout<'a> = std::vec::IntoIter<&'a str>;

impl<'a> Words<'a> {
    fn of(rest: &'a str) -> Result<Self, String> {
        let words: SplitWhitespace<'a> = rest.split_whitespace();
        let (mut bare, mut pairs) = (Vec::new(), Vec::new());
        for word in words {
            match word.split_once('=') {
                None => bare.push(word),
                Some((key, _)) if pairs.iter().any(|(other, _)| *other == key) => {
                    return Err(format!("{key}= stands twice"));
                }
                Some(pair) => pairs.push(pair),
            }
        }
        Ok(Words {
            bare: bare.into_iter(),
            pairs,
        })
    }

    fn bare(&mut self) -> Option<&'a str> {
        self.bare.next()
    }

    fn name(&mut self) -> Result<String, String> {
        let name = self.bare().ok_or("give the connection a name")?;
        Ok(name.to_owned())
    }

    fn bare_number(&mut self, what: &str) -> Result<u64, String> {
        let number = self.bare().and_then(number);
        number.ok_or(format!("give {what}, a number"))
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.pairs.iter().position(|(other, _)| *other == key)?;
        Some(self.pairs.remove(at).1)
    }

    fn number(&mut self, key: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.take(key) else {
            return Ok(None);
        };
        let number = number(text).ok_or(format!("{key}={text}: '{text}' is no number"));
        number.map(Some)
    }

    fn value(&mut self, key: &str) -> Result<Option<Value>, String> {
        let value = self.take(key).map(|text| {
            let value = text.parse();
            value.map_err(|why| format!("{key}={text}: {why}"))
        });
        value.transpose()
    }

    fn port(&mut self, key: &str) -> Result<u32, String> {
        let number = self.number(key)?.ok_or(format!("{key}=PORT is missing"))?;
        as_port(number)
    }

    fn switch(&mut self, key: &str, usual: bool) -> Result<bool, String> {
        match self.take(key) {
            None => Ok(usual),
            Some("yes") => Ok(true),
            Some("no") => Ok(false),
            Some(other) => Err(format!("{key}={other}: say yes or no")),
        }
    }

    fn seqpacket(&mut self) -> Result<bool, String> {
        match self.take("type") {
            None | Some("stream") => Ok(false),
            Some("seqpacket") => Ok(true),
            Some(other) => Err(format!("type={other}: say stream or seqpacket")),
        }
    }

    fn fields(&mut self, may: impl Fn(Field) -> bool) -> Result<Vec<(Field, Value)>, String> {
        let mut fields = Vec::new();
        for (field, name) in Field::NAMES {
            if !may(field) {
                continue;
            }
            if let Some(value) = self.value(name)? {
                fields.push((field, value));
            }
        }
        Ok(fields)
    }

    /// Nothing may be left over.
    fn finish(mut self, verb: &str) -> Result<(), String> {
        let pair = self
            .pairs
            .first()
            .map(|(key, value)| format!("{key}={value}"));
        match pair.or_else(|| self.bare().map(str::to_owned)) {
            None => Ok(()),
            Some(word) => Err(format!("'{word}' is not understood after '{verb}'")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_whole() {
        let text = "
            # What it shows.
            seed 7
            message is not a head!
            reload
            timing
            grows replies_stalled
            answers a rst 1
            counts rx_drop_long 6
            guest connect=5000 type=seqpacket count=3 read=yes buffer=4K
            accept a at=5000
            repeat 3
              batch reversed
                send a payload=10   # right
                repeat 2
                  send a used=posted+1
                end
              end
              change us=5 len=0
            end
            wait a op=rst within=5
            wait ms=3
            wait reset
            notify tx times=4
            event
            event id=max used=one(3|5) cid=7
            hold
        ";
        let script: Script = text.parse().unwrap();
        assert_eq!((script.seed, script.reload), (7, true));
        assert_eq!(script.provokes, ["is not a head!"]);
        assert!(script.guests[0].seqpacket && script.guests[0].reads && !script.guests[0].listens);
        assert_eq!(script.guests[0].buffer, Some(4096));
        assert_eq!(script.counts, [("rx_drop_long".into(), 6)]);
        assert_eq!(script.steps.len(), 9);
        let Step::Repeat(Value::Number(3), steps) = &script.steps[1] else {
            panic!("{:?}", script.steps)
        };
        assert!(matches!(&steps[0], Step::Batch(Order::Reversed, inner) if inner.len() == 2));
        assert_eq!(script.to_string().parse(), Ok(script.clone()), "{script}");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, why) in [
            ("\nsned a", "line 2: 'sned' is no step"),
            ("send a len=much", "len=much: 'much' is no value"),
            (
                "send a length=5",
                "'length=5' is not understood after 'send'",
            ),
            ("send a b", "'b' is not understood"),
            ("send a len=1 len=2", "len= stands twice"),
            ("accept a", "at=PORT is missing"),
            ("accept at=5", "give the connection a name"),
            ("repeat 5", "'repeat' has no end"),
            ("repeat often", "'often' is no value"),
            ("end", "nothing to end"),
            ("batch\nbatch", "line 2: a batch cannot stand in a batch"),
            ("batch\nsync", "'sync' cannot stand in a batch"),
            ("batch sorted", "'sorted' is no order"),
            ("change payload=1", "'payload=1' is not understood"),
            ("guest count=2", "connect=PORT or listen=PORT"),
            ("wait op=much", "'much' is no operation"),
            ("notify", "rx or tx"),
            ("accept a at=4294967296", "not below 2^32"),
        ] {
            let error = text.parse::<Script>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
