// SPDX-License-Identifier: GPL-2.0
//! The wire's own services, which run natively at the host's address, while its guests are emulated.

/// The host's address.
pub(crate) const HOST_CID: u32 = 2;

/// The port of the service that sends everything back.
pub(crate) const ECHO: u32 = 1001;

/// The port of the one that sends packets of [`SMALL`] bytes, as many as the reader takes.
pub(crate) const SOURCE: u32 = 1002;

/// Bytes of a small packet.
pub(crate) const SMALL: usize = 64;

/// The options that make the wire offer them.
pub(crate) fn options() -> [String; 4] {
    let service = || "--service".to_owned();
    [
        service(),
        format!("echo={ECHO}"),
        service(),
        format!("source={SOURCE},size={SMALL}"),
    ]
}
