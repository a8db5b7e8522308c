//! An answer without what surrounds it: thoughts, control tokens, mathematical dress, a question of the model's own.

use super::is_letter;

/// What is said outside of thoughts; `None` where one was never ended.
pub(super) fn without_thoughts(output: &str) -> Option<String> {
    let (open, close) = ("<think>", "</think>");
    // The same places: only ASCII is changed.
    let lower = output.to_ascii_lowercase();
    let (mut spoken, mut from) = (String::with_capacity(output.len()), 0);
    while let Some(start) = lower.get(from..).and_then(|rest| rest.find(open)).map(|at| from + at) {
        let end = start + lower.get(start..)?.find(close)? + close.len();
        spoken.push_str(output.get(from..start)?);
        from = end;
    }
    spoken.push_str(output.get(from..)?);
    Some(spoken)
}

/// Deletes the tokens by which models end their turns.
pub(super) fn without_control_tokens(text: String) -> String {
    const TOKENS: [&str; 12] = [
        "<s>",
        "</s>",
        "<eot_id>",
        "<|eot_id|>",
        "<im_end>",
        "<|im_end|>",
        "<end>",
        "<|end|>",
        "<endoftext>",
        "<|endoftext|>",
        "<end_of_turn>",
        "<|end_of_turn|>",
    ];
    if !text.contains('<') {
        return text;
    }
    let lower = text.to_ascii_lowercase();
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    while let Some(at) = lower.get(from..).and_then(|rest| rest.find('<')).map(|at| from + at) {
        let rest = lower.get(at..).unwrap_or_default();
        let length = TOKENS.iter().find(|token| rest.starts_with(**token)).map_or(0, |token| token.len());
        out.push_str(text.get(from..if length > 0 { at } else { at + 1 }).unwrap_or_default());
        from = if length > 0 { at + length } else { at + 1 };
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// A letter out of its mathematical dress, and no signs of mathematics.
pub(super) fn without_math(mut text: String) -> String {
    const DRESSES: [&str; 5] = ["\\boxed{", "\\text{", "\\mathbf{", "\\mathrm{", "\\textbf{"];
    // One in another: each pass takes off a layer, and makes the text shorter.
    loop {
        let undressed = DRESSES.iter().fold(text.clone(), |text, dress| undress(&text, dress));
        if undressed.len() == text.len() {
            break;
        }
        text = undressed;
    }
    for sign in ["\\(", "\\)", "\\[", "\\]", "$"] {
        text = text.replace(sign, "");
    }
    text
}

fn undress(text: &str, dress: &str) -> String {
    let mut parts = text.split(dress);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut chars = part.chars();
        match (chars.next(), chars.next()) {
            (Some(letter), Some('}')) if is_letter(letter) => {
                out.push(letter);
                out.push_str(chars.as_str());
            }
            _ => {
                out.push_str(dress);
                out.push_str(part);
            }
        }
    }
    out
}

/// What stands before a line that begins another question, where a base model went on to ask one.
pub(super) fn before_the_next_question(text: &str) -> &str {
    const HEADS: [&str; 6] = ["Passage:", "Query:", "Question:", "Choices:", "P:", "Q:"];
    let begins = |at: &usize| {
        let rest = text.get(at + 1..).unwrap_or_default();
        let rest = rest.trim_start_matches(|c: char| c == '#' || c.is_whitespace());
        HEADS.iter().any(|head| rest.starts_with(head))
    };
    let cut = text.match_indices('\n').map(|(at, _)| at).find(begins);
    match cut.and_then(|at| text.get(..at)) {
        Some(before) if !before.trim().is_empty() => before,
        _ => text,
    }
}
