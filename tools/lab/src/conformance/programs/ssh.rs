// SPDX-License-Identifier: GPL-2.0
//! OpenSSH over vsock: a server that `socat` starts for each connection, and clients that reach it by
//! `socat` or by systemd's proxy.

use anyhow::{Context as _, Result, ensure};
use rig::Job;

use super::ways;
use crate::case::Case;
use crate::conformance::debian::Debian;

const PORT: u32 = 22;
const BYTES: u64 = (3 << 20) + 77;
const GOT: &str = "/tmp/scp-got";

/// Keys of both sides, and settings without which an account with no password is not let in.
const SETTINGS: &str = "
    mkdir -p /run/sshd /tmp/ssh
    chmod 700 /tmp/ssh
    cd /tmp/ssh
    for key in host user; do
        test -e $key || ssh-keygen -q -t ed25519 -N '' -f $key
    done
    cat > sshd_config <<END
HostKey /tmp/ssh/host
AuthorizedKeysFile /tmp/ssh/authorized
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
Subsystem sftp /usr/lib/openssh/sftp-server
END
    cat user.pub";

const OPTIONS: &str = "-F none -i /tmp/ssh/user -o BatchMode=yes -o StrictHostKeyChecking=no \
    -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR";

/// How a client gets to a server.
#[derive(Clone, Copy)]
enum Proxy {
    Socat,
    Systemd,
}

impl Proxy {
    fn options(self, cid: u32) -> String {
        match self {
            Self::Socat => {
                format!("{OPTIONS} -o 'ProxyCommand=socat - VSOCK-CONNECT:{cid}:{PORT}'")
            }
            Self::Systemd => format!(
                "{OPTIONS} -o 'ProxyCommand=/usr/lib/systemd/systemd-ssh-proxy vsock/{cid} {PORT}' \
                 -o ProxyUseFdpass=yes -o CheckHostIP=no"
            ),
        }
    }
}

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let proxies = [
        ("socat", Proxy::Socat),
        ("systemd-ssh-proxy", Proxy::Systemd),
    ];
    let cases = proxies.map(|(name, proxy)| {
        Case::new(
            format!("ssh runs commands and scp copies both ways, through {name}"),
            move |fixture| {
                for (way, client, server) in ways(fixture)? {
                    visit(&client, &server, proxy).context(way)?;
                }
                Ok(())
            },
        )
    });
    cases.into()
}

/// Lets a client in by its key.
fn serve(client: &Debian<'_>, server: &Debian<'_>) -> Result<Job> {
    let key = client.sh(SETTINGS).context("the client's key")?;
    server.sh(SETTINGS).context("the server's key")?;
    server.sh(&format!("echo '{}' > /tmp/ssh/authorized", key.trim()))?;
    let sshd = "/usr/sbin/sshd -i -f /tmp/ssh/sshd_config";
    let job = server.start(&format!(
        "exec socat VSOCK-LISTEN:{PORT},fork 'EXEC:{sshd}'"
    ))?;
    server.await_listener(&job, PORT)?;
    Ok(job)
}

fn visit(client: &Debian<'_>, server: &Debian<'_>, proxy: Proxy) -> Result<()> {
    let job = serve(client, server)?;
    let options = proxy.options(server.machine().cid());
    let visited = commands_and_copies(client, server, &options);
    let said = job.tail();
    job.kill()?;
    visited.with_context(|| format!("the server said: {said}"))
}

fn commands_and_copies(client: &Debian<'_>, server: &Debian<'_>, options: &str) -> Result<()> {
    let script = format!("ssh {options} root@vsock 'read word; echo \"$word\" back; exit 7'");
    let output = client.attempt(&format!("echo forth | {script}"))?;
    let (text, exit) = (output.text(), output.exit);
    ensure!(
        text == "forth back\n" && exit.to_string().ends_with(" 7"),
        "ssh printed {text:?} and ended with {exit}, not with the command's status 7: {}",
        output.errors()
    );
    let mine = client.random("scp-mine", BYTES)?;
    client.sh(&format!("scp {options} {} root@vsock:{GOT}", mine.path))?;
    server.same(GOT, &mine).context("copied there")?;
    let theirs = server.random("scp-theirs", BYTES)?;
    client.sh(&format!("scp {options} root@vsock:{} {GOT}", theirs.path))?;
    client.same(GOT, &theirs).context("copied here")
}
