//! `harness list` and `harness schema`.

use std::fmt::Write as _;

use super::exit::{DONE, Failure};
use super::print;
use crate::benchmark::catalogue;
use crate::model::KINDS;

/// `harness list`
pub(super) fn list() -> Result<u8, Failure> {
    let mut out = String::from("Benchmarks\n");
    for entry in catalogue() {
        let _ = writeln!(out, "\n  {:<12} {}", entry.name, entry.about);
        if !entry.paper.is_empty() {
            let _ = writeln!(out, "  {:<12} {}", "", entry.paper);
        }
        let _ = writeln!(out, "    conditions");
        for (name, about) in &entry.conditions {
            let default = if entry.default_conditions.contains(name) { " (default)" } else { "" };
            let _ = writeln!(out, "      {name:<10} {about}{default}");
        }
        let _ = writeln!(out, "    metrics      {}", entry.metrics.join(", "));
        if !entry.data.is_empty() {
            let _ = writeln!(out, "    data         {}", entry.data);
        }
    }
    let _ = writeln!(out, "\nModel kinds");
    for kind in KINDS {
        let missing = if kind.built { "" } else { " (not in this build)" };
        let _ = writeln!(out, "\n  {:<12} {}{missing}", kind.name, kind.about);
        for (architecture, about) in kind.architectures {
            let _ = writeln!(out, "    {architecture:<12} {about}");
        }
    }
    print(&out)?;
    Ok(DONE)
}

/// `harness schema`
pub(super) fn schema() -> Result<u8, Failure> {
    let schema = serde_json::to_string_pretty(&crate::config::schema()).unwrap_or_default();
    print(&format!("{schema}\n"))?;
    Ok(DONE)
}
