// SPDX-License-Identifier: GPL-2.0
//! A BPF map of sockets, with no program that would do anything with them.

use std::fmt;
use std::os::fd::{AsFd as _, AsRawFd as _};

use aya::maps::{Map, MapData, MapError, SockMap};
use aya_obj::generated::bpf_map_type::BPF_MAP_TYPE_SOCKMAP;
use aya_obj::maps::{LegacyMap, bpf_map_def};

use crate::socket::Socket;

/// A map with one socket in it, which is taken out when the map is gone.
pub struct Sockmap {
    _map: SockMap<MapData>,
}

impl Sockmap {
    /// Makes a map and puts a socket into it.
    pub fn with(socket: &Socket) -> Result<Self, MapError> {
        let number = size_of::<u32>() as u32;
        let definition = aya_obj::Map::Legacy(LegacyMap {
            section_index: 0,
            section_kind: aya_obj::EbpfSectionKind::Maps,
            symbol_index: None,
            def: bpf_map_def {
                map_type: BPF_MAP_TYPE_SOCKMAP as u32,
                key_size: number,
                value_size: number,
                max_entries: 1,
                ..Default::default()
            },
            data: Vec::new(),
        });
        let data = MapData::create(definition, "vsock_peer", None)?;
        let mut map = SockMap::try_from(Map::SockMap(data))?;
        map.set(0, &socket.as_fd().as_raw_fd(), 0)?;
        Ok(Self { _map: map })
    }
}

impl fmt::Debug for Sockmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockmap").finish_non_exhaustive()
    }
}
