// SPDX-License-Identifier: GPL-2.0
//! The command line.

use std::collections::HashSet;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, ValueEnum};

use crate::service::spec::ServiceSpec;

/// A wire between virtual machines: a vhost-user vsock device that passes the
/// packets of each guest to the guest they are addressed to.
///
/// Each --port waits on its socket for a QEMU with
/// `-chardev socket,id=c0,path=PATH -device vhost-user-vsock-pci,chardev=c0`
/// and shared guest memory. The line `ready` on the standard output says that
/// all sockets listen. SIGUSR1 writes the counters, SIGTERM and SIGINT write
/// them and end the program.
#[derive(Debug, Parser)]
#[command(name = "vsock-wire", version)]
pub struct Args {
    /// A guest's end of the wire, as cid=CID,socket=PATH; give one for each guest
    #[arg(long = "port", value_name = "cid=CID,socket=PATH", required = true)]
    pub ports: Vec<PortSpec>,

    /// Write counters as JSON into FILE at the end and at each SIGUSR1
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,

    /// Offer SOCK_SEQPACKET to the guests
    #[arg(long, value_name = "on|off", default_value = "on")]
    pub seqpacket: OnOff,

    /// The largest ring a guest may set up, a power of two
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = queue_size)]
    pub queue_size: u16,

    /// A service of the host at CID 2, for each guest: KIND is sink, source, echo or
    /// ping-pong, and the options are size=BYTES (of a packet), bytes=BYTES (in all;
    /// the last two for sources and ping-pongs), buffer=BYTES (announced to the
    /// guest), used-batch=on|off|N (as --used-batch, for this service's packets). BYTES take
    /// K, M and G, powers of 1024
    #[arg(long = "service", value_name = "KIND=PORT[,OPTION=VALUE…]")]
    pub services: Vec<ServiceSpec>,

    /// Do to the guest of the first --port what the script in FILE says, and print
    /// what came of it; the language is described in src/hostile.rs
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,

    /// Take scripts, and questions for the counters, at a socket at PATH
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,

    /// How many used entries of an RX queue are published at once: all of a
    /// round's (on), each by itself (off), or at most N
    #[arg(long, value_name = "on|off|N", default_value = "on")]
    pub used_batch: UsedBatch,
}

/// Something that can be switched on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    /// Have it.
    On,
    /// Do without.
    Off,
}

/// How many used entries of an RX queue become visible to the guest at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedBatch {
    /// All that one round of work filled.
    On,
    /// One by one.
    Off,
    /// At most this many.
    Limit(u16),
}

impl UsedBatch {
    /// The number of entries after which to publish, in a ring of `ring` entries.
    pub fn limit(self, ring: u16) -> usize {
        match self {
            UsedBatch::On => usize::from(ring),
            UsedBatch::Off => 1,
            UsedBatch::Limit(n) => usize::from(n.min(ring)),
        }
    }
}

impl FromStr for UsedBatch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(UsedBatch::On),
            "off" => Ok(UsedBatch::Off),
            _ => match text.parse() {
                Ok(n) if n > 0 => Ok(UsedBatch::Limit(n)),
                _ => Err("give on, off, or a number from 1 to 65535".into()),
            },
        }
    }
}

/// One end of the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// The guest's context identifier.
    pub cid: u32,
    /// Where QEMU connects.
    pub socket: PathBuf,
}

impl FromStr for PortSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut cid, mut socket) = (None, None);
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("cid", value)) if cid.is_none() => cid = Some(guest_cid(value)?),
                Some(("socket", "")) => return Err("socket= needs a path".into()),
                Some(("socket", value)) if socket.is_none() => socket = Some(value.into()),
                Some((key @ ("cid" | "socket"), _)) => return Err(format!("{key}= stands twice")),
                _ => {
                    return Err(format!(
                        "'{part}' is not understood; give cid=CID,socket=PATH"
                    ));
                }
            }
        }
        Ok(PortSpec {
            cid: cid.ok_or("cid=CID is missing")?,
            socket: socket.ok_or("socket=PATH is missing")?,
        })
    }
}

/// A CID that a guest can have: not the hypervisor's, the local one, the
/// host's, or the wildcard.
fn guest_cid(text: &str) -> Result<u32, String> {
    let cid = text
        .parse()
        .map_err(|_| format!("'{text}' is not a CID; give a number from 3 to 4294967294"))?;
    match cid {
        0..=2 | u32::MAX => Err(format!(
            "CID {cid} is reserved; give a guest one from 3 to 4294967294"
        )),
        _ => Ok(cid),
    }
}

fn queue_size(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(n) if n.is_power_of_two() && n <= 32768 => Ok(n),
        _ => Err("give a power of two from 1 to 32768".into()),
    }
}

impl Args {
    /// What clap cannot see: whether the ports agree with one another.
    pub fn check(&self) -> anyhow::Result<()> {
        let (mut cids, mut sockets) = (HashSet::new(), HashSet::new());
        for port in &self.ports {
            anyhow::ensure!(
                cids.insert(port.cid),
                "CID {} is given to two ports; each guest needs its own",
                port.cid
            );
            anyhow::ensure!(
                sockets.insert(&port.socket),
                "socket {} is given to two ports; each guest needs its own",
                port.socket.display()
            );
        }
        let mut service_ports = HashSet::new();
        for service in &self.services {
            anyhow::ensure!(
                service_ports.insert(service.port),
                "port {} is given to two services; each needs its own",
                service.port
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Args, String> {
        let words = ["vsock-wire"].iter().chain(words);
        let args = Args::try_parse_from(words).map_err(|e| e.to_string())?;
        args.check().map_err(|e| e.to_string())?;
        Ok(args)
    }

    #[track_caller]
    fn refused(words: &[&str], why: &str) {
        let error = parse(words).unwrap_err();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn two_ports_and_the_defaults() {
        let args = parse(&[
            "--port",
            "cid=3,socket=/a",
            "--port",
            "socket=/b,cid=4294967294",
        ])
        .unwrap();
        assert_eq!(args.ports[0].cid, 3);
        assert_eq!(args.ports[1].socket, PathBuf::from("/b"));
        assert_eq!(args.ports[1].cid, u32::MAX - 1);
        assert_eq!(args.seqpacket, OnOff::On);
        assert_eq!(args.used_batch, UsedBatch::On);
    }

    #[test]
    fn ports_are_checked() {
        refused(&[], "--port");
        for cid in ["0", "1", "2", "4294967295"] {
            refused(&["--port", &format!("cid={cid},socket=/a")], "reserved");
        }
        refused(
            &["--port", "cid=4294967296,socket=/a"],
            "from 3 to 4294967294",
        );
        refused(&["--port", "cid=x,socket=/a"], "from 3 to 4294967294");
        refused(&["--port", "cid=3"], "socket=PATH is missing");
        refused(&["--port", "socket=/a"], "cid=CID is missing");
        refused(&["--port", "cid=3,socket="], "needs a path");
        refused(&["--port", "cid=3,cid=4,socket=/a"], "cid= stands twice");
        refused(&["--port", "cid=3,socket=/a,mtu=5"], "'mtu=5'");
        refused(
            &["--port", "cid=3,socket=/a", "--port", "cid=3,socket=/b"],
            "CID 3",
        );
        refused(
            &["--port", "cid=3,socket=/a", "--port", "cid=4,socket=/a"],
            "socket /a",
        );
    }

    #[test]
    fn services_have_ports_of_their_own() {
        let port = ["--port", "cid=3,socket=/a"];
        let both = [&port[..], &["--service", "sink=7", "--service", "echo=7"]].concat();
        refused(&both, "port 7");
    }

    #[test]
    fn sizes_are_checked() {
        for size in ["0", "3", "65536", "-1", "many"] {
            let size = format!("--queue-size={size}");
            refused(&["--port", "cid=3,socket=/a", &size], "power of two");
        }
        for batch in ["0", "65536", "yes"] {
            let batch = format!("--used-batch={batch}");
            refused(&["--port", "cid=3,socket=/a", &batch], "on, off");
        }
    }

    #[test]
    fn a_batch_is_never_larger_than_the_ring() {
        assert_eq!(UsedBatch::On.limit(128), 128);
        assert_eq!(UsedBatch::Off.limit(128), 1);
        assert_eq!("8".parse::<UsedBatch>().unwrap().limit(128), 8);
        assert_eq!("500".parse::<UsedBatch>().unwrap().limit(128), 128);
    }
}
