// SPDX-License-Identifier: GPL-2.0
//! A service as the command line describes it.

use std::str::FromStr;

use serde::Serialize;

use crate::args::UsedBatch;
use crate::header::MAX_PAYLOAD;

/// What a service does with its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Takes all that comes.
    Sink,
    /// Sends.
    Source,
    /// Sends back what comes.
    Echo,
    /// Sends one packet, waits for as many bytes, and so on.
    PingPong,
}

/// A service at a port of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServiceSpec {
    /// What it does.
    pub kind: Kind,
    /// The port it listens on.
    pub port: u32,
    /// Payload of the packets that it makes.
    pub size: usize,
    /// Payload that it makes for one connection in all; None for no end.
    pub bytes: Option<u64>,
    /// The receive buffer that it announces.
    pub buffer: u32,
    /// How the used entries of its packets are published, if not as the
    /// device's.
    #[serde(skip)]
    pub used_batch: Option<UsedBatch>,
}

impl FromStr for ServiceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let (kind, port) = parts
            .next()
            .and_then(|first| first.split_once('='))
            .ok_or("give KIND=PORT, such as sink=1000")?;
        let kind = match kind {
            "sink" => Kind::Sink,
            "source" => Kind::Source,
            "echo" => Kind::Echo,
            "ping-pong" => Kind::PingPong,
            _ => {
                return Err(format!(
                    "'{kind}' is no service; there are sink, source, echo and ping-pong"
                ));
            }
        };
        let mut spec = ServiceSpec {
            kind,
            port: port
                .parse()
                .map_err(|_| format!("'{port}' is no port; give a number below 2^32"))?,
            size: 4096,
            bytes: None,
            buffer: 256 * 1024,
            used_batch: None,
        };
        for part in parts {
            spec.set(part)?;
        }
        Ok(spec)
    }
}

impl ServiceSpec {
    fn set(&mut self, option: &str) -> Result<(), String> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let makes_packets = matches!(self.kind, Kind::Source | Kind::PingPong);
        match key {
            "size" if makes_packets => match parse_bytes(value)? {
                size @ 1.. if size <= MAX_PAYLOAD as u64 => self.size = size as usize,
                _ => {
                    return Err(format!(
                        "size={value}: a packet has 1 to {MAX_PAYLOAD} bytes"
                    ));
                }
            },
            "bytes" if makes_packets => self.bytes = Some(parse_bytes(value)?),
            "buffer" => match parse_bytes(value)? {
                size @ 1.. if size <= u64::from(u32::MAX / 2) => self.buffer = size as u32,
                _ => return Err(format!("buffer={value}: give 1 byte to 2 GiB")),
            },
            "used-batch" => self.used_batch = Some(value.parse()?),
            _ => {
                let options = if makes_packets {
                    "size, bytes, buffer and used-batch"
                } else {
                    "buffer and used-batch"
                };
                return Err(format!("'{option}' is not understood; there are {options}"));
            }
        }
        Ok(())
    }
}

/// A number of bytes, with K, M or G for powers of 1024.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits
        .parse()
        .ok()
        .and_then(|n: u64| n.checked_mul(1 << shift))
        .ok_or(format!(
            "'{text}' is no number of bytes; give such as 4096, 64K, 1G"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_and_their_options() {
        let spec: ServiceSpec = "source=1001,size=64,bytes=1G,buffer=64K,used-batch=off"
            .parse()
            .unwrap();
        assert_eq!(
            spec,
            ServiceSpec {
                kind: Kind::Source,
                port: 1001,
                size: 64,
                bytes: Some(1 << 30),
                buffer: 65536,
                used_batch: Some(UsedBatch::Off),
            }
        );
        let spec: ServiceSpec = "sink=0".parse().unwrap();
        assert_eq!((spec.kind, spec.port), (Kind::Sink, 0));
        assert_eq!(spec.buffer, 256 * 1024);
    }

    #[test]
    fn bad_services_are_named() {
        for (text, why) in [
            ("sink", "KIND=PORT"),
            ("drain=1", "'drain' is no service"),
            ("sink=x", "'x' is no port"),
            ("sink=4294967296", "is no port"),
            ("sink=1,size=5", "'size=5' is not understood"),
            ("source=1,size=0", "1 to 65536"),
            ("source=1,size=65537", "1 to 65536"),
            ("source=1,size=", "no number of bytes"),
            ("source=1,bytes=99999999999G", "no number of bytes"),
            ("source=1,buffer=0", "buffer=0"),
            ("source=1,speed=5", "'speed=5'"),
            ("source=1,used-batch=0", "on, off"),
        ] {
            let error = text.parse::<ServiceSpec>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
