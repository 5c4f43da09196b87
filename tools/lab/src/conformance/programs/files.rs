// SPDX-License-Identifier: GPL-2.0
//! Files of random bytes through programs that connect one side to the other.

use anyhow::{Context as _, Result};

use super::ways;
use crate::case::fixture::Fixture;
use crate::conformance::debian::Debian;

/// Not a multiple of anything.
const BYTES: u64 = (5 << 20) + 77;
const FEW_BYTES: u64 = (1 << 20) + 77;

const PORT: u32 = 4711;
const GOT: &str = "/tmp/got";

/// The shell lines of a program: one that listens and writes what comes into a file, and one that
/// connects and sends a file. `@PORT@`, `@CID@`, `@FROM@` and `@TO@` stand for what they are called.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    receive: &'static str,
    send: &'static str,
}

/// <http://www.dest-unreach.org/socat/>
pub(super) const SOCAT: Lines = Lines {
    receive: "exec socat -u VSOCK-LISTEN:@PORT@ CREATE:@TO@",
    send: "exec socat -u OPEN:@FROM@ VSOCK-CONNECT:@CID@:@PORT@",
};

/// <https://nmap.org/ncat/>
pub(super) const NCAT: Lines = Lines {
    receive: "exec ncat --vsock --listen --recv-only -p @PORT@ > @TO@",
    send: "exec ncat --vsock --send-only @CID@ @PORT@ < @FROM@",
};

/// Python's standard library.
pub(super) const PYTHON: Lines = Lines {
    receive: "exec python3 -c '
import socket
listener = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
listener.bind((socket.VMADDR_CID_ANY, @PORT@))
listener.listen()
connection, (cid, port) = listener.accept()
with connection, open(\"@TO@\", \"wb\") as file:
    while piece := connection.recv(100000):
        file.write(piece)
'",
    send: "exec python3 -c '
import socket
with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as connection, open(\"@FROM@\", \"rb\") as file:
    connection.connect((@CID@, @PORT@))
    connection.sendfile(file)
'",
};

impl Lines {
    /// Sends a file.
    fn send(&self, from: &Debian<'_>, to: &Debian<'_>, bytes: u64) -> Result<()> {
        let file = from.random("file", bytes)?;
        let fill = |line: &str| {
            line.replace("@PORT@", &PORT.to_string())
                .replace("@CID@", &to.machine().cid().to_string())
                .replace("@FROM@", &file.path)
                .replace("@TO@", GOT)
        };
        to.sh(&format!("rm -f {GOT}"))?;
        let receiver = to.start(&fill(self.receive))?;
        to.await_listener(&receiver, PORT)?;
        from.sh(&fill(self.send)).context("the sender")?;
        to.finish(receiver).context("the receiver")?;
        to.same(GOT, &file)
    }
}

/// Sends a file each way; each has to arrive as it was.
pub(super) fn both_ways(fixture: &Fixture<'_>, lines: Lines) -> Result<()> {
    let bytes = fixture.rounds(FEW_BYTES, BYTES, 20 * BYTES);
    for (way, from, to) in ways(fixture)? {
        lines.send(&from, &to, bytes).context(way)?;
    }
    Ok(())
}

/// Sends a file to somebody who sends it back on the same connection while it comes.
pub(super) fn echoed(fixture: &Fixture<'_>) -> Result<()> {
    for (way, from, to) in ways(fixture)? {
        let file = from.random("file", BYTES)?;
        let echo = to.start(&format!("exec socat VSOCK-LISTEN:{PORT} EXEC:cat"))?;
        to.await_listener(&echo, PORT)?;
        let (cid, path) = (to.machine().cid(), &file.path);
        let line = format!("socat -t 60 - VSOCK-CONNECT:{cid}:{PORT} < {path} > {GOT}");
        from.sh(&line).context(way)?;
        to.finish(echo).context(way)?;
        from.same(GOT, &file).context(way)?;
    }
    Ok(())
}
