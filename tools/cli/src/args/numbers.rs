//! Numbers as people type them, and what they should have been.

use std::num::NonZeroUsize;

/// Returns a parser of whole numbers from `least` to `most`.
pub fn whole<T>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64>,
{
    move |typed| {
        let number = typed.trim().parse::<u64>().ok();
        let number = number.filter(|number| (least..=most).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            // A bound that no machine reaches says nothing.
            if most > u64::from(u32::MAX) {
                format!("expected a whole number, {least} or more")
            } else {
                format!("expected a whole number from {least} to {most}")
            }
        })
    }
}

/// Reads a number of threads.
pub(super) fn threads(typed: &str) -> Result<NonZeroUsize, String> {
    let expected = || "expected a whole number, 1 or more".to_owned();
    NonZeroUsize::new(whole(1, u64::MAX)(typed)?).ok_or_else(expected)
}

/// Reads a number that is neither infinite nor none.
pub(super) fn finite(typed: &str) -> Result<f64, String> {
    let number = typed.trim().parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "expected a number".to_owned())
}

/// Reads a share.
pub(super) fn share(typed: &str) -> Result<f64, String> {
    let share = finite(typed).ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

/// Reads a number above 0.
pub fn above_zero(typed: &str) -> Result<f64, String> {
    let number = finite(typed).ok().filter(|number| *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--threads 0` answered "number would be zero for non-zero type", `--degree 99` "99 is not in 2..=64".
    #[test]
    fn messages_are_for_people() {
        assert_eq!(threads("2").unwrap().get(), 2);
        for typed in ["0", "-1", "1.5", "x", "", "99999999999999999999"] {
            assert_eq!(threads(typed).unwrap_err(), "expected a whole number, 1 or more");
        }
        assert_eq!(whole::<u8>(2, 64)("99").unwrap_err(), "expected a whole number from 2 to 64");
        assert_eq!(whole::<u8>(2, 64)("64"), Ok(64));
        for typed in ["nan", "inf", "abc", ""] {
            assert_eq!(finite(typed).unwrap_err(), "expected a number");
        }
        assert_eq!(share("1.5").unwrap_err(), "expected a number from 0 to 1");
        assert_eq!(above_zero("0").unwrap_err(), "expected a number above 0");
    }
}
