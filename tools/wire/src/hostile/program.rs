// SPDX-License-Identifier: GPL-2.0
//! A script's steps in a row, with jumps instead of blocks.

use std::sync::Arc;

use super::script::{Order, Step};
use super::value::Value;

/// One instruction.
#[derive(Debug)]
pub(super) enum Op {
    /// A step that holds no others.
    Do(Step),
    /// Begin to repeat what follows, or jump behind its [`Op::Again`].
    Repeat(Value, usize),
    /// Jump back to the instruction behind the [`Op::Repeat`], unless that was
    /// often enough.
    Again(usize),
    /// From here on collect packets, to be shown in this order.
    Batch(Order),
    /// Show them.
    Publish,
}

/// Instructions.
pub(super) type Program = Arc<[Op]>;

/// The instructions for these steps.
pub(super) fn compile(steps: Vec<Step>) -> Program {
    let mut ops = Vec::new();
    add(&mut ops, steps);
    ops.into()
}

fn add(ops: &mut Vec<Op>, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Repeat(times, steps) => {
                let at = ops.len();
                ops.push(Op::Repeat(times.clone(), 0));
                add(ops, steps);
                ops.push(Op::Again(at + 1));
                ops[at] = Op::Repeat(times, ops.len());
            }
            Step::Batch(order, steps) => {
                ops.push(Op::Batch(order));
                add(ops, steps);
                ops.push(Op::Publish);
            }
            step => ops.push(Op::Do(step)),
        }
    }
}
