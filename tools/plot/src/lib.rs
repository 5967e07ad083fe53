//! Plots of measurements as SVG: dark text on white, numbers written beside what they measure.
//!
//! | plot | what it shows |
//! |---|---|
//! | [`bars`] | one number for each of several things |
//! | [`curves`] | what two things have in common, on even axes |
//! | [`histogram`] | how often something took how long |
//! | [`lines`] | growth, on two logarithmic axes |
//! | [`operating_curve`] | precision, recall and F1 over a threshold |
//!
//! A plot is a function of its data: equal data give equal bytes. It stands alone, so that the command line and the chores can both draw.

mod svg;
mod bars;
mod curves;
mod histogram;
mod lines;
mod operating;

pub use bars::{Bar, bars};
pub use curves::{Axis, Curve, curves};
pub use histogram::{Distribution, histogram, percentile};
pub use lines::{Series, lines};
pub use operating::{OperatingPoint, operating_curve};
pub use svg::Caption;
