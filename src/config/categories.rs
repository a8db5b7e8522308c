//! A file of categories: which of a paper's groups the rows belong to, where the published data do not say it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// What a file of categories says. It is kept with the run, so that scores need no file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Categories {
    /// The code of the paper's task for each name that rows give theirs.
    #[serde(default)]
    pub task: BTreeMap<String, String>,
    /// The code of the paper's domain for each name that rows give theirs.
    #[serde(default)]
    pub domain: BTreeMap<String, String>,
    /// The ids of the paper's composite questions; empty where they are not known.
    #[serde(default, deserialize_with = "ids")]
    pub cfq: Vec<String>,
}

/// Ids, as they are written in the rows (numbers) or quoted.
fn ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Number(i64),
        Text(String),
    }
    let ids = Vec::<Id>::deserialize(from)?.into_iter().map(|id| match id {
        Id::Number(id) => id.to_string(),
        Id::Text(id) => id,
    });
    Ok(ids.collect())
}

impl Categories {
    /// The categories of a file's text. An error is a sentence that reads well after the file's name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let found: Self = toml::from_str(text).map_err(|error| {
            format!(
                "is no file of categories: {}; expected [task] and [domain] with lines such as \"name in the rows\" = \
                 \"LS\", and cfq = [\"12\", …]",
                error.message()
            )
        })?;
        if found == Self::default() {
            return Err("holds no categories: expected [task], [domain] or cfq = [\"12\", …]".to_owned());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hold_two_maps_and_ids() {
        let found =
            Categories::parse("cfq = ['12', 13]\n[task]\n'a b' = 'LS'\n[domain]\nx = 'AR'\n").unwrap();
        assert_eq!(
            (found.task["a b"].as_str(), found.domain["x"].as_str(), found.cfq.len()),
            ("LS", "AR", 2)
        );
        assert!(Categories::parse("").unwrap_err().contains("holds no categories"));
        assert!(Categories::parse("[tasks]\na = 'b'").unwrap_err().contains("unknown field `tasks`"));
        assert!(Categories::parse("[task]\na = 1").is_err());
    }
}
