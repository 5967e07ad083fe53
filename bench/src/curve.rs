//! `memfold-bench curve`: draws the operating curve of the fact guard.

use std::io::Read as _;

use memfold_bench::plot::{Caption, OperatingPoint, operating_curve};
use memfold_cli::{check_outputs, write_output};
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::Printer;
use serde_json::Value;

use crate::args::CurveArgs;

pub(crate) fn run(args: &CurveArgs, printer: Printer) -> Result<Exit, Failure> {
    let inputs = std::slice::from_ref(&args.report);
    check_outputs(&[("--output", &Some(args.output.clone()))], inputs, args.force)?;
    let report = read(args)?;
    let points = report["contradiction"]["curve"].as_array().ok_or_else(|| {
        Failure::plain(
            "no pair is labelled contradiction: there is no curve to draw",
            "give what memfold-bench guard --json prints of pairs with that label",
        )
    })?;
    let points: Vec<OperatingPoint> = points.iter().filter_map(OperatingPoint::from_json).collect();
    let details = format!(
        "{} pairs, {} of them labelled contradiction",
        report["pairs"], report["contradiction"]["labelled"]
    );
    let caption = Caption { title: "Contradictions found, by threshold", details: &details };
    let in_use = report["contradiction_threshold"].as_f64().unwrap_or_default();
    write_output(&args.output, &operating_curve(&caption, &points, in_use))?;
    printer.note(&format!("wrote {}", args.output.display()));
    Ok(Exit::Done)
}

fn read(args: &CurveArgs) -> Result<Value, Failure> {
    let name = args.report.display();
    let text = if args.report.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(&args.report)
    };
    let text = text.map_err(|error| Failure::new(&format!("read {name}"), &error, None))?;
    serde_json::from_str(&text).map_err(|error| {
        let hint = "give what memfold-bench guard --json prints".to_owned();
        Failure::new(&format!("read {name}"), &error, Some(hint))
    })
}
