//! Panels as plain numbers, and plain numbers as panels: how one lies in a mapped file.
#![expect(unsafe_code, reason = "numbers are seen as arrays of numbers where they lie")]

use crate::panel::{GroupBiases, GroupStep};

/// Returns codes as steps of groups; `None` where they are not a whole number of steps or begin
/// between two lines of the cache.
pub(crate) fn steps(codes: &[i8]) -> Option<&[GroupStep]> {
    // SAFETY: a step is an array of i8, for which all bits are valid.
    let (before, steps, after) = unsafe { codes.align_to() };
    whole([before, after], steps)
}

/// Returns numbers as biases of groups, on the same terms.
pub(crate) fn group_biases(biases: &[i32]) -> Option<&[GroupBiases]> {
    // SAFETY: biases of a group are two arrays of i32 without padding, for which all bits are valid.
    let (before, groups, after) = unsafe { biases.align_to() };
    whole([before, after], groups)
}

/// Returns steps as codes.
pub(crate) fn codes(steps: &[GroupStep]) -> &[i8] {
    // SAFETY: a step is an array of i8 without padding.
    unsafe { steps.align_to() }.1
}

/// Returns biases of groups as numbers.
pub(crate) fn biases(biases: &[GroupBiases]) -> &[i32] {
    // SAFETY: biases of a group are two arrays of i32 without padding.
    unsafe { biases.align_to() }.1
}

/// Returns the middle part of an `align_to` result if the other two are empty.
fn whole<'a, T, U>([before, after]: [&'a [T]; 2], between: &'a [U]) -> Option<&'a [U]> {
    (before.is_empty() && after.is_empty()).then_some(between)
}

#[cfg(test)]
mod tests {
    use crate::{ColumnPanel, Columns};

    #[test]
    fn a_stored_panel_is_the_panel() {
        let mut panel = ColumnPanel::default();
        let codes: Vec<i8> = (0..40 * 8).map(|at| (at % 251) as i8).collect();
        panel.pack(&codes, &(0..40).collect::<Vec<_>>(), 8);
        let (codes, biases) = panel.as_packed();
        assert_eq!((codes.len(), biases.len()), (64 * 8, 2 * 64));
        let columns = Columns::from_packed(codes, biases, 8).unwrap();
        assert_eq!(format!("{columns:?}"), format!("{:?}", panel.columns()));
        assert_eq!((columns.group_count(), columns.group_range(1..2).group_count()), (2, 1));
    }

    #[test]
    fn what_is_no_panel_is_refused() {
        let mut panel = ColumnPanel::default();
        panel.pack(&[1; 64 * 4], &[0; 64], 4);
        let (codes, biases) = panel.as_packed();
        assert!(Columns::from_packed(codes, biases, 4).is_some());
        for dim in [0, 3, 8, 1 << 20] {
            assert!(Columns::from_packed(codes, biases, dim).is_none());
        }
        assert!(Columns::from_packed(&codes[1..129], &biases[..64], 4).is_none());
        assert!(Columns::from_packed(&codes[..128], &biases[1..65], 4).is_none());
        assert!(Columns::from_packed(&codes[..100], biases, 4).is_none());
        assert!(Columns::from_packed(&[], &[], 4).is_some_and(|none| none.is_empty()));
    }
}
