//! How a run or a judge differs from the one that a folder holds: two must not be mixed.

use crate::types::Generation;

/// Sentences on what was and is.
#[derive(Debug, Default)]
pub struct Differences(Vec<String>);

impl Differences {
    /// One thing, then and now.
    pub fn compare<T: ToString + ?Sized>(&mut self, what: &str, then: &T, now: &T) {
        let (then, now) = (then.to_string(), now.to_string());
        if then != now {
            self.0.push(format!("{what} was {then} and is now {now}"));
        }
    }

    /// How answers are generated.
    pub fn generation(&mut self, then: &Generation, now: &Generation) {
        self.compare("temperature", &then.temperature_in_words(), &now.temperature_in_words());
        self.compare("top_p", &then.top_p, &now.top_p);
        self.compare("top_k", &then.top_k, &now.top_k);
        self.compare("repetition_penalty", &then.repetition_penalty, &now.repetition_penalty);
        self.compare("max_new_tokens", &then.max_new_tokens, &now.max_new_tokens);
        self.compare("stop", &format!("{:?}", then.stop), &format!("{:?}", now.stop));
    }

    /// Something that is told in its own words.
    pub fn add(&mut self, sentence: String) {
        self.0.push(sentence);
    }

    /// All of them, in the order in which they were found.
    pub fn finish(self) -> Vec<String> {
        self.0
    }
}
