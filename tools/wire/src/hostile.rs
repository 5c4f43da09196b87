// SPDX-License-Identifier: GPL-2.0
//! A device that does to a guest what a script says.
//!
//! A script is text, a step a line; `#` begins a comment. The device is honest
//! at all ports that its services have, and everything else is the script's:
//!
//! ```text
//! # A packet more than the guest has room for is answered with a reset.
//! guest connect=5000              # the guest's program: connects, does not read
//! accept a at=5000                # an honest beginning
//! send a payload=1000             # right in everything that is not said
//! send a payload=credit+1
//! wait a op=rst
//! ```
//!
//! Where there is no driver yet, the first buffers of the one that comes are used as soon
//! as they are there, before it has told of them.
//!
//! # Steps
//!
//! - `accept NAME at=PORT [answer=no] [within=MS]`: wait for a connection to the
//!   host's port and accept it, or leave it without an answer
//! - `serve NAME at=PORT`: accept all connections to the port from here on; NAME
//!   is the newest
//! - `connect NAME from=PORT to=PORT [type=seqpacket] [within=MS]`: connect to
//!   the guest, and wait until it accepts
//! - `send [NAME] [FIELD=VALUE…]`: a packet of the connection, or of none
//! - `batch [reversed|shuffled]` … `end`: all packets inside are shown at once, or
//!   as many as the guest has buffers for; used in another order than posted
//! - `repeat VALUE` … `end`
//! - `wait [NAME] [op=OP] [at=PORT] [count=N] [within=MS]`: for packets of the guest
//! - `wait ms=N`; `wait reset [within=MS]`: until the driver lets go of the device
//! - `sync`: until the guest has dealt with all that was sent; what it sent before is
//!   forgotten by later waits
//! - `notify rx|tx [times=N]`: interrupts with nothing behind them
//! - `change [us=N] FIELD=VALUE…`: for so long, or until the guest has seen them, write
//!   another header over the last packet or batch, and its own again. What the
//!   guest frees meanwhile is written to as well, so change nothing that makes it
//!   drop the packet.
//! - `event [id=N] [used=N] [cid=N]`: an event, as a rule that the transport was reset, which takes a
//!   buffer of the event queue; before it, the guest gets another CID. The guest's device has to be one
//!   whose event queue leaves QEMU, as those with rings of another size.
//! - `hold` … `release`: take the guest's packets, but keep their buffers
//! - `deaf` … `listen`: do not take them at all
//! - `fuzz bursts=N [first=N]`: bursts drawn from the seed, each by its number alone
//!
//! And what does not happen at a moment: `seed N`; `guest connect=PORT|listen=PORT
//! [type=seqpacket] [count=N] [read=yes] [again=yes] [write=BYTES] [buffer=BYTES]`, a
//! program that the guest has to run meanwhile; `message REGEX`, a kernel message
//! that the script provokes; `answers NAME OP N`, how often the guest has to have
//! answered so (`others` is the name for what belongs to no connection); `counts NAME N`, what
//! a counter of this project's driver grows by, and `grows NAME`, that it does; `timing`, if how often it answers is a
//! matter of timing; `reload`, if it breaks a queue, so that only a reset
//! of the device helps.
//!
//! # Fields and values
//!
//! A packet has the header's fields `src`, `dst`, `src_port`, `dst_port`, `len`,
//! `type`, `op` (as a rule `rw`), `flags`, `buf_alloc`, `fwd_cnt`, and `payload`, the bytes
//! written behind it, `used`, the length that the used entry tells, and `id`, which takes
//! no buffer and names one that was used, or never was.
//!
//! A value is a sum (`+`, `-`) of numbers (`100`, `64K`, `0xff`), names of operations, types
//! and flags, `max` (2^32-1), `right`, `credit` (what the guest has room for), `posted`
//! (bytes of the buffer), `last` (the last id), `i` and `j` (the rounds of the innermost
//! repetition and the one around it), `guest` and `host` (CIDs), `NAME.guest` and
//! `NAME.host` (ports), `any(LOW..HIGH)` and `one(VALUE|VALUE)`.

pub mod control;
pub mod draw;
pub mod engine;
mod fields;
mod parse;
mod partner;
mod program;
pub mod report;
pub mod script;
mod show;
pub mod value;
