//! Prompts: a layout whose places are filled with text, or with a clip in place of it.

use crate::prompt::fill;
use crate::types::{AudioRef, Message, Part, Prompt, Role};

/// What fills a place: texts and clips, one after the other.
pub(super) type Filling = Vec<Part>;

/// A text as a filling.
pub(super) fn text(text: &str) -> Filling {
    vec![Part::Text(text.to_owned())]
}

/// A clip as a filling.
pub(super) fn clip(clip: AudioRef) -> Filling {
    vec![Part::Audio(clip)]
}

/// Fills the places of a layout in one pass. Texts that come to stand next to each other are one part.
pub(super) fn render(layout: &str, values: &[(&str, Filling)]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = layout;
    // The first place that is known, again and again; what fills it is never looked at.
    while let Some((at, name, filling)) = values
        .iter()
        .filter_map(|(name, filling)| Some((rest.find(&format!("{{{name}}}"))?, name, filling)))
        .min_by_key(|(at, ..)| *at)
    {
        push(&mut parts, Part::Text(rest.get(..at).unwrap_or_default().to_owned()));
        for part in filling {
            push(&mut parts, part.clone());
        }
        rest = rest.get(at + name.len() + 2..).unwrap_or_default();
    }
    push(&mut parts, Part::Text(rest.to_owned()));
    parts
}

/// Adds a part; text goes to the text before it.
pub(super) fn push(parts: &mut Vec<Part>, part: Part) {
    match (parts.last_mut(), part) {
        (_, Part::Text(text)) if text.is_empty() => {}
        (Some(Part::Text(before)), Part::Text(text)) => before.push_str(&text),
        (_, part) => parts.push(part),
    }
}

/// An example: a block with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Example {
    /// The block, filled.
    pub(super) block: String,
    /// What the model would answer.
    pub(super) answer: String,
}

/// How questions are laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sheet<'a> {
    /// The instruction.
    pub(super) instruction: &'a str,
    /// The layout of a question without examples; it may hold the instruction.
    pub(super) alone: &'a str,
    /// The layout of an example, and of the question behind examples.
    pub(super) block: &'a str,
    /// What stands between a block and its answer.
    pub(super) before_answer: &'a str,
}

/// A passage with its question and options.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) passage: Filling,
    pub(super) query: Filling,
    pub(super) options: [Filling; 4],
}

impl Question {
    fn values(&self) -> Vec<(&'static str, Filling)> {
        let [a, b, c, d] = self.options.clone();
        vec![
            ("passage", self.passage.clone()),
            ("query", self.query.clone()),
            ("a", a),
            ("b", b),
            ("c", c),
            ("d", d),
        ]
    }
}

impl Sheet<'_> {
    /// The question alone.
    fn zero_shot(&self, question: &Question) -> Vec<Part> {
        let mut values = question.values();
        values.push(("instruction", text(self.instruction)));
        render(self.alone, &values)
    }

    /// An example of texts.
    pub(super) fn example(&self, passage: &str, query: &str, options: [&str; 4], gold: char) -> Example {
        let [a, b, c, d] = options;
        let values = [("passage", passage), ("query", query), ("a", a), ("b", b), ("c", c), ("d", d)];
        Example { block: fill(self.block, &values), answer: gold.to_string() }
    }

    /// What is asked. With `turns` each example is a message and its answer one of the model's.
    pub(super) fn prompt(&self, examples: &[Example], question: &Question, turns: bool) -> Prompt {
        if examples.is_empty() {
            return Prompt::Chat(vec![Message { role: Role::User, parts: self.zero_shot(question) }]);
        }
        let block = render(self.block, &question.values());
        let mut messages = Vec::new();
        let mut parts = Vec::new();
        push(&mut parts, Part::Text(format!("{}\n", self.instruction)));
        for Example { block, answer } in examples {
            push(&mut parts, Part::Text(block.clone()));
            if turns {
                messages.push(Message { role: Role::User, parts: std::mem::take(&mut parts) });
                messages.push(Message::text(Role::Assistant, answer));
            } else {
                push(&mut parts, Part::Text(format!("{}{answer}\n\n", self.before_answer)));
            }
        }
        for part in block {
            push(&mut parts, part);
        }
        messages.push(Message { role: Role::User, parts });
        Prompt::Chat(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Window;

    #[test]
    fn clips_part_the_text_and_nothing_that_is_put_in_is_filled() {
        let audio = AudioRef { name: "a.wav".to_owned(), window: Window::Whole };
        let parts = render("x {p}{q} {q}z", &[("p", text("{q}")), ("q", clip(audio.clone()))]);
        assert_eq!(
            parts,
            [
                Part::Text("x {q}".into()),
                Part::Audio(audio.clone()),
                Part::Text(" ".into()),
                Part::Audio(audio),
                Part::Text("z".into())
            ]
        );
        assert_eq!(render("{p}", &[("p", text(""))]), []);
    }
}
