// SPDX-License-Identifier: GPL-2.0

//! Files that the lab reads and writes.

use proto::{Answer, CHUNK, WriteHow};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

/// Reads up to a chunk. Files of the kernel are told as they are at one moment, so as much as possible
/// is read from one opening.
pub(crate) fn read(path: &str, offset: u64) -> io::Result<Answer> {
    let mut file = File::open(path)?;
    if offset > 0 {
        file.seek(SeekFrom::Start(offset))?;
    }
    let mut data = Vec::new();
    file.take(CHUNK as u64).read_to_end(&mut data)?;
    let end = data.len() < CHUNK;
    Ok(Answer::Data { data, end })
}

/// Writes the data in one call, because files of the kernel take each call for a whole.
pub(crate) fn write(path: &str, data: &[u8], how: WriteHow) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match how {
        WriteHow::Create { mode } => options.write(true).create(true).truncate(true).mode(mode),
        WriteHow::Append => options.append(true),
        WriteHow::InPlace => options.write(true),
    };
    options.open(path)?.write_all(data)
}
