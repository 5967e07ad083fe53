//! [`VectorCensus`]: a sink that counts vectors and remembers only what tells them apart.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use memfold_index::Row;

use super::facts::{Found, SpaceFacts};
use crate::{Snapshot, VectorSink};
use memfold_model::memory::{Memory, SpaceIndex, Standing, VectorSpace};

/// Counts vectors and keeps eight bytes of each.
#[derive(Debug, Clone, Default)]
pub(super) struct VectorCensus {
    spaces: Vec<VectorSpace>,
    digests: Vec<Vec<u64>>,
}

impl VectorSink for VectorCensus {
    fn open_space(&mut self, space: &VectorSpace) -> io::Result<SpaceIndex> {
        let next = u32::try_from(self.spaces.len()).map_err(io::Error::other)?;
        self.spaces.push(space.clone());
        self.digests.push(Vec::new());
        Ok(SpaceIndex(next))
    }

    fn push(&mut self, space: SpaceIndex, vector: &[f32]) -> io::Result<Row> {
        let digests = &mut self.digests[space.0 as usize];
        let next = u32::try_from(digests.len()).map_err(io::Error::other)?;
        digests.push(digest(vector));
        Ok(Row(next))
    }

    fn restart(&mut self) -> io::Result<()> {
        *self = Self::default();
        Ok(())
    }
}

impl VectorCensus {
    /// Returns the number of vectors of each space, in the order in which the spaces were opened.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.digests.iter().map(|digests| digests.len() as u64).collect()
    }

    /// Returns the spaces, the one with most vectors first.
    pub(super) fn spaces(&self) -> Vec<SpaceFacts> {
        let spaces = self.spaces.iter().zip(self.counts());
        let mut spaces: Vec<SpaceFacts> =
            spaces.map(|(space, vectors)| SpaceFacts { space: space.clone(), vectors }).collect();
        spaces.sort_by(|a, b| b.vectors.cmp(&a.vectors).then_with(|| a.space.cmp(&b.space)));
        spaces
    }

    /// Finds the vectors that stand under `texts_max` different live texts or more: an example of each, and
    /// how many memories they are.
    pub(super) fn shared(&self, snapshot: &Snapshot, texts_max: usize) -> (Found, u64) {
        let mut under: BTreeMap<(u32, u64), Vec<&Memory>> = BTreeMap::new();
        let live = snapshot.memories.iter().filter(|memory| memory.standing == Standing::Live);
        for memory in live {
            if let Some((space, row)) = memory.embedding.vector() {
                let digest = self.digests[space.0 as usize][row.0 as usize];
                under.entry((space.0, digest)).or_default().push(memory);
            }
        }
        let (mut shared, mut memories) = (Found::default(), 0);
        for sharing in under.values().filter(|sharing| sharing.len() >= texts_max) {
            let texts: BTreeSet<&str> = sharing.iter().map(|memory| &*memory.content).collect();
            if texts.len() >= texts_max {
                shared.add(sharing[0].id.as_str());
                memories += sharing.len() as u64;
            }
        }
        (shared, memories)
    }
}

fn digest(vector: &[f32]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for component in vector {
        hasher.update(&component.to_le_bytes());
    }
    let bytes = *hasher.finalize().as_bytes();
    u64::from_le_bytes([
        bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
    ])
}
