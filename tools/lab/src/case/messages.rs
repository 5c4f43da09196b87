// SPDX-License-Identifier: GPL-2.0
//! What the two kernels may say, and that they say no more.

use anyhow::Result;
use rig::{Expected, Machine, Mark};

use super::fixture::Fixture;

/// A place in the logs of both machines, from which on they are held against what is expected.
pub(crate) struct Watch<'a> {
    machines: [(&'a Machine, Mark); 2],
}

impl<'a> Watch<'a> {
    /// From now on.
    pub(crate) fn begin(fixture: &Fixture<'a>) -> Result<Self> {
        let mark = |machine: &'a Machine| -> Result<_> { Ok((machine, machine.mark()?)) };
        Ok(Self {
            machines: [mark(fixture.guest())?, mark(fixture.far())?],
        })
    }

    /// Fails if either kernel has said anything above notice level that is not in `provoked`.
    pub(crate) fn end(&self, provoked: &[&str]) -> Result<()> {
        let expected = Expected::out_of_tree_module().and(&Expected::new(provoked)?);
        for (machine, mark) in &self.machines {
            machine.check_quiet(*mark, &expected)?;
        }
        Ok(())
    }
}
