// SPDX-License-Identifier: GPL-2.0
//! The fields of a header, as a script names them.

use super::script::Field;
use super::value::Value;
use crate::header::Header;

/// Which part of a header a field is.
pub(super) fn set(header: &mut Header, field: Field, value: u64) {
    match field {
        Field::Src => header.src_cid = value.into(),
        Field::Dst => header.dst_cid = value.into(),
        Field::SrcPort => header.src_port = (value as u32).into(),
        Field::DstPort => header.dst_port = (value as u32).into(),
        Field::Len => header.len = (value as u32).into(),
        Field::Type => header.kind = (value as u16).into(),
        Field::Op => header.op = (value as u16).into(),
        Field::Flags => header.flags = (value as u32).into(),
        Field::BufAlloc => header.buf_alloc = (value as u32).into(),
        Field::FwdCnt => header.fwd_cnt = (value as u32).into(),
        Field::Payload | Field::Used | Field::Id => {}
    }
}

/// What a field is now.
pub(super) fn get(header: &Header, field: Field) -> u64 {
    match field {
        Field::Src => header.src_cid.get(),
        Field::Dst => header.dst_cid.get(),
        Field::SrcPort => header.src_port.get().into(),
        Field::DstPort => header.dst_port.get().into(),
        Field::Len => header.len.get().into(),
        Field::Type => header.kind.get().into(),
        Field::Op => header.op.get().into(),
        Field::Flags => header.flags.get().into(),
        Field::BufAlloc => header.buf_alloc.get().into(),
        Field::FwdCnt => header.fwd_cnt.get().into(),
        Field::Payload | Field::Used | Field::Id => 0,
    }
}

pub(super) fn value_of(fields: &[(Field, Value)], field: Field) -> Option<&Value> {
    let found = fields.iter().find(|(other, _)| *other == field);
    found.map(|(_, value)| value)
}
