//! [`LentMemory`]: memory of batches that nobody holds any longer, for the next ones.

use std::collections::VecDeque;

use arrow_buffer::{Buffer, ScalarBuffer};

/// Most batches whose memory is waited for.
const LENT_MAX: usize = 4;

/// Memory of batches that nobody holds any longer, for the next ones.
#[derive(Debug, Default)]
pub(super) struct LentMemory {
    lent: VecDeque<Buffer>,
}

impl LentMemory {
    /// Returns no components, in memory that came back if there is any.
    pub(super) fn take(&mut self) -> Vec<f32> {
        for _ in 0..self.lent.len() {
            let oldest = self.lent.pop_front().map(Buffer::into_vec);
            match oldest {
                Some(Ok(mut memory)) => {
                    memory.clear();
                    return memory;
                }
                // Somebody holds it.
                Some(Err(buffer)) => self.lent.push_back(buffer),
                None => {}
            }
        }
        Vec::new()
    }

    /// Lends components, whose memory comes back when whoever took them drops them.
    pub(super) fn lend(&mut self, components: Vec<f32>) -> ScalarBuffer<f32> {
        let buffer = Buffer::from_vec(components);
        if self.lent.len() == LENT_MAX {
            self.lent.pop_front();
        }
        self.lent.push_back(buffer.clone());
        buffer.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_when_nobody_holds_it() {
        let mut memory = LentMemory::default();
        let lend = |memory: &mut LentMemory, value: f32| {
            let mut components = memory.take();
            assert!(components.is_empty());
            components.extend([value; 100]);
            memory.lend(components)
        };
        let first = lend(&mut memory, 1.0);
        let second = lend(&mut memory, 2.0);
        assert_ne!(first.as_ptr(), second.as_ptr());
        let (address, slice) = (first.as_ptr(), first.slice(90, 5));
        drop(first);
        let third = lend(&mut memory, 3.0);
        assert!(third.as_ptr() != address, "a slice still holds it");
        assert_eq!(
            (&slice[..], &second[..], &third[..]),
            (&[1.0; 5][..], &[2.0; 100][..], &[3.0; 100][..])
        );
        drop(slice);
        assert_eq!(lend(&mut memory, 4.0).as_ptr(), address);
    }

    #[test]
    fn no_more_than_some_batches_are_waited_for() {
        let mut memory = LentMemory::default();
        let held: Vec<_> = (0..9).map(|i| memory.lend(vec![i as f32])).collect();
        assert_eq!(memory.lent.len(), LENT_MAX);
        drop(held);
        assert!((0..LENT_MAX).all(|_| memory.take().capacity() > 0));
        assert_eq!(memory.take().capacity(), 0);
    }
}
