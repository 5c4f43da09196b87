// SPDX-License-Identifier: GPL-2.0

//! Files of a machine.

use super::Machine;
use crate::error::{Error, IoContext as _, Result};
use proto::{Answer, CHUNK, Call, WriteHow};
use std::path::Path;

impl Machine {
    /// Reads a whole file.
    pub fn read(&self, path: &str) -> Result<Vec<u8>> {
        let mut whole = Vec::new();
        loop {
            let call = Call::Read {
                path: path.into(),
                offset: whole.len() as u64,
            };
            match self.link.call(format!("read {path}"), call)? {
                Answer::Data { data, end } => {
                    whole.extend(data);
                    if end {
                        return Ok(whole);
                    }
                }
                Answer::Done => return Ok(whole),
            }
        }
    }

    /// Reads a whole file of text.
    pub fn read_text(&self, path: &str) -> Result<String> {
        String::from_utf8(self.read(path)?).map_err(|error| Error::Refused {
            machine: self.name().into(),
            what: format!("read {path} as text"),
            errno: None,
            message: error.to_string(),
        })
    }

    /// Writes into a file that is there, in one piece: the way for files of the kernel.
    pub fn write(&self, path: &str, data: impl AsRef<[u8]>) -> Result<()> {
        let call = Call::Write {
            path: path.into(),
            data: data.as_ref().into(),
            how: WriteHow::InPlace,
        };
        self.link.call(format!("write {path}"), call).map(drop)
    }

    /// Makes a file, or replaces its contents.
    pub fn create(&self, path: &str, mode: u32, data: impl AsRef<[u8]>) -> Result<()> {
        let mut how = WriteHow::Create { mode };
        let mut rest = data.as_ref();
        loop {
            let (piece, more) = rest.split_at(rest.len().min(CHUNK));
            let call = Call::Write {
                path: path.into(),
                data: piece.into(),
                how,
            };
            self.link.call(format!("create {path}"), call)?;
            how = WriteHow::Append;
            rest = more;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Copies a file of this machine there, with these permissions.
    pub fn put(&self, local: &Path, path: &str, mode: u32) -> Result<()> {
        let data = std::fs::read(local).context(|| format!("read {}", local.display()))?;
        self.create(path, mode, data)
    }
}
