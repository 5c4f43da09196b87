// SPDX-License-Identifier: GPL-2.0

//! One JSON value a line.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, Write};

/// Writes `value` as one line, in one call of `write_all`.
pub fn write_line<T: Serialize>(out: &mut impl Write, value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Reads the next line's value, or `None` at the end of the input.
pub fn read_line<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(serde_json::from_slice(&line)?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Note, Request, Stream, WriteHow};

    #[test]
    fn bytes_survive_the_way() {
        let data: Vec<u8> = (0..=255).collect();
        let sent = Request {
            id: 7,
            call: Call::Write {
                path: "/tmp/x".into(),
                data,
                how: WriteHow::Create { mode: 0o644 },
            },
        };
        let mut wire = Vec::new();
        write_line(&mut wire, &sent).unwrap();
        assert_eq!(wire.iter().filter(|&&byte| byte == b'\n').count(), 1);
        let mut input = wire.as_slice();
        assert_eq!(read_line(&mut input).unwrap(), Some(sent));
        assert_eq!(read_line::<Request>(&mut input).unwrap(), None);
    }

    #[test]
    fn empty_lines_are_passed_over() {
        let note = Note::Output {
            job: crate::JobId(1),
            stream: Stream::Err,
            data: b"\n\n".to_vec(),
        };
        let mut wire = b"\n \n".to_vec();
        write_line(&mut wire, &note).unwrap();
        assert_eq!(read_line(&mut wire.as_slice()).unwrap(), Some(note));
    }

    #[test]
    fn rubbish_is_an_error() {
        assert!(read_line::<Request>(&mut &b"{\"id\":}\n"[..]).is_err());
    }
}
