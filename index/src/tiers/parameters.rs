//! What a file says of how it was built.

use crate::graph::{self, GraphOptions};
use crate::slab;
use crate::transform::{FINE_CODES, PREFIX_CODES};

/// Parameters of the slab, and of the graph where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) graph: Option<GraphOptions>,
}

const SLAB_WORDS: [u32; 3] = [slab::BUILDER, PREFIX_CODES as u32, FINE_CODES as u32];

impl Parameters {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut words = SLAB_WORDS.to_vec();
        if let Some(GraphOptions { degree, candidates, probes }) = self.graph {
            // Each is at most 1,024.
            words.extend([graph::BUILDER, degree as u32, candidates as u32, probes as u32]);
        }
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    /// Reads them back; `None`: of something else, or of another version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<4>() else { return None };
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let graph = match words.strip_prefix(&SLAB_WORDS)? {
            [] => None,
            [graph::BUILDER, degree, candidates, probes] => {
                let [degree, candidates, probes] =
                    [degree, candidates, probes].map(|&n| n as usize);
                Some(GraphOptions { degree, candidates, probes }.validated()?)
            }
            _ => return None,
        };
        Some(Self { graph })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_back() {
        for graph in [None, Some(GraphOptions::default())] {
            let parameters = Parameters { graph };
            let bytes = parameters.to_bytes();
            assert_eq!(Parameters::from_bytes(&bytes), Some(parameters));
            assert_eq!(Parameters::from_bytes(&bytes[1..]), None);
            assert_eq!(Parameters::from_bytes(&[&bytes[..], &[0; 4]].concat()), None);
        }
        let mut other = Parameters { graph: None }.to_bytes();
        other[0] += 1;
        assert_eq!(Parameters::from_bytes(&other), None, "another version of the builder");
    }
}
