//! The conditions of a benchmark by name, as configs, plans and tables have them. This module must not know what any of
//! them asks.

use super::build::{BuildError, check_names};
use crate::types::Planned;

/// The conditions of a benchmark.
pub(super) trait Conditions: Copy + PartialEq + 'static {
    /// All of them, in the order of tables.
    const ALL: &'static [Self];

    /// Those that run where none are named.
    const DEFAULT: &'static [Self];

    /// The name.
    fn name(self) -> &'static str;

    /// What it asks, for `harness list`.
    fn about(self) -> &'static str;

    /// The condition of a name.
    fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|condition| condition.name() == name)
    }

    /// The condition that a planned request is asked under.
    fn of(planned: &Planned) -> Option<Self> {
        planned.conditions.iter().find_map(|name| Self::parse(name))
    }

    /// The conditions of these names, in the order of tables; the default ones of none.
    fn parse_all(names: &[String]) -> Result<Vec<Self>, BuildError> {
        if names.is_empty() {
            return Ok(Self::DEFAULT.to_vec());
        }
        check_names("condition", names, &names_of(Self::ALL))?;
        Ok(named(names))
    }

    /// All of them, each with what it asks.
    fn listed() -> Vec<(&'static str, &'static str)> {
        Self::ALL.iter().map(|condition| (condition.name(), condition.about())).collect()
    }
}

/// Those of all conditions that are named, in the order of tables.
pub(super) fn named<C: Conditions>(names: &[String]) -> Vec<C> {
    C::ALL.iter().copied().filter(|condition| names.iter().any(|name| name == condition.name())).collect()
}

/// The names of conditions.
pub(super) fn names_of<C: Conditions>(conditions: &[C]) -> Vec<&'static str> {
    conditions.iter().map(|condition| condition.name()).collect()
}
