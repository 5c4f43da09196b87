// SPDX-License-Identifier: GPL-2.0
//! Writes scripts, so that they can be read again.

use std::fmt;

use super::script::{Event, Field, GuestProgram, Order, Packet, Script, Step, Wait};
use super::value::Value;
use crate::header::TYPE_SEQPACKET;

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        if self.timing {
            writeln!(f, "timing")?;
        }
        if self.reload {
            writeln!(f, "reload")?;
        }
        for message in &self.provokes {
            writeln!(f, "message {message}")?;
        }
        for (connection, op, number) in &self.answers {
            writeln!(f, "answers {connection} {op} {number}")?;
        }
        for counter in &self.grows {
            writeln!(f, "grows {counter}")?;
        }
        for (counter, number) in &self.counts {
            writeln!(f, "counts {counter} {number}")?;
        }
        for guest in &self.guests {
            writeln!(f, "{guest}")?;
        }
        show_steps(f, &self.steps, 0)
    }
}

fn show_steps(f: &mut fmt::Formatter<'_>, steps: &[Step], depth: usize) -> fmt::Result {
    for step in steps {
        let block = match step {
            Step::Batch(order, steps) => {
                let order = match order {
                    Order::Posted => "",
                    Order::Reversed => " reversed",
                    Order::Shuffled => " shuffled",
                };
                Some((format!("batch{order}"), steps))
            }
            Step::Repeat(times, steps) => Some((format!("repeat {times}"), steps)),
            _ => None,
        };
        let indent = 2 * depth;
        match block {
            None => writeln!(f, "{:indent$}{step}", "")?,
            Some((head, steps)) => {
                writeln!(f, "{:indent$}{head}", "")?;
                show_steps(f, steps, depth + 1)?;
                writeln!(f, "{:indent$}end", "")?;
            }
        }
    }
    Ok(())
}

impl fmt::Display for GuestProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.listens { "listen" } else { "connect" };
        let yes_no = |yes| if yes { "yes" } else { "no" };
        write!(
            f,
            "guest {place}={} type={} count={} read={} again={} write={}",
            self.port,
            if self.seqpacket {
                "seqpacket"
            } else {
                "stream"
            },
            self.count,
            yes_no(self.reads),
            yes_no(self.again),
            self.writes
        )?;
        match self.buffer {
            Some(buffer) => write!(f, " buffer={buffer}"),
            None => Ok(()),
        }
    }
}

/// A step that holds no others.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Accept {
                name,
                port,
                answer,
                within,
            } => {
                let answer = if *answer { "" } else { " answer=no" };
                write!(f, "accept {name} at={port}{answer} within={within}")
            }
            Step::Serve { name, port } => write!(f, "serve {name} at={port}"),
            Step::Connect {
                name,
                from,
                to,
                kind,
                within,
            } => {
                let kind = match *kind {
                    TYPE_SEQPACKET => "seqpacket",
                    _ => "stream",
                };
                write!(
                    f,
                    "connect {name} from={from} to={to} type={kind} within={within}"
                )
            }
            Step::Send(packet) => write!(f, "{packet}"),
            Step::Batch(..) => f.write_str("batch"),
            Step::Repeat(times, _) => write!(f, "repeat {times}"),
            Step::Wait(wait) => write!(f, "{wait}"),
            Step::Sync => f.write_str("sync"),
            Step::Notify { tx, times } => {
                let queue = if *tx { "tx" } else { "rx" };
                write!(f, "notify {queue} times={times}")
            }
            Step::Change {
                microseconds,
                fields,
            } => {
                write!(f, "change us={microseconds}")?;
                show_fields(f, fields)
            }
            Step::Event(event) => write!(f, "{event}"),
            Step::Hold(on) => f.write_str(if *on { "hold" } else { "release" }),
            Step::Deaf(on) => f.write_str(if *on { "deaf" } else { "listen" }),
            Step::Fuzz { first, count } => write!(f, "fuzz first={first} bursts={count}"),
        }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("send")?;
        if let Some(connection) = &self.connection {
            write!(f, " {connection}")?;
        }
        show_fields(f, &self.fields)
    }
}

fn show_fields(f: &mut fmt::Formatter<'_>, fields: &[(Field, Value)]) -> fmt::Result {
    let mut fields = fields.iter();
    fields.try_for_each(|(field, value)| write!(f, " {}={value}", field.name()))
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event id={} used={}", self.id, self.used)?;
        match &self.cid {
            Some(cid) => write!(f, " cid={cid}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Packets {
                connection,
                op,
                port,
                count,
                within,
            } => {
                f.write_str("wait")?;
                let mut show = |key: &str, value: Option<String>| match value {
                    Some(value) => write!(f, " {key}{value}"),
                    None => Ok(()),
                };
                show("", connection.clone())?;
                show("op=", op.map(|op| op.to_string()))?;
                show("at=", port.map(|port| port.to_string()))?;
                write!(f, " count={count} within={within}")
            }
            Wait::Reset { within } => write!(f, "wait reset within={within}"),
            Wait::Time(milliseconds) => write!(f, "wait ms={milliseconds}"),
        }
    }
}
