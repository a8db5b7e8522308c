//! Tests of letter extraction: the vectors of the protocol where they are at hand, our own, and properties.

use proptest::prelude::*;

use super::*;

fn check(output: &str, letter: Option<char>, rule: &str) {
    let found = recipe(output);
    assert_eq!((found.letter, found.rule), (letter, rule), "{output:?}");
}

/// The 38 agreed cases.
#[test]
fn agreed_cases() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/protocols/2m-belebele/extract_cases.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return;
    };
    let mut count = 0;
    for line in text.lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let letter = case["letter"].as_str().and_then(|letter| letter.chars().next());
        check(case["output"].as_str().unwrap(), letter, case["rule"].as_str().unwrap());
        count += 1;
    }
    assert_eq!(count, 38);
}

#[test]
fn every_rule_by_vectors_of_our_own() {
    for (output, letter, rule) in [
        // R0: nothing is said.
        ("", None, "R0"),
        (" \u{200b}\n", None, "R0"),
        ("<think>it must be B", None, "R0"),
        ("<THINK>x</THINK>", None, "R0"),
        ("<|im_end|></s>", None, "R0"),
        ("**", None, "R0"),
        // R1: a letter and no more.
        ("d.", Some('D'), "R1"),
        ("“C”", Some('C'), "R1"),
        ("B\nBecause it says so", Some('B'), "R1"),
        ("\\boxed{\\text{c}}", Some('C'), "R1"),
        ("\\( B \\)", Some('B'), "R1"),
        ("D<|eot_id|>", Some('D'), "R1"),
        ("\u{2581}B</s>", Some('B'), "R1"),
        ("\u{410}", Some('A'), "R1"),
        ("\u{392}", Some('B'), "R1"),
        ("B\n\n### Passage:\nA new one. Answer: D", Some('B'), "R1"),
        ("A\nQ: And now?\nAnswer: C", Some('A'), "R1"),
        ("E", None, "R7"),
        ("Б", None, "R7"),
        // R2: a cue.
        ("The answer to the question is: (b)", Some('B'), "R2"),
        ("The most likely answer would be option C, because of the rain", Some('C'), "R2"),
        ("I'd go with D - it is the only one", Some('D'), "R2"),
        ("I’d pick 'A'", Some('A'), "R2"),
        ("The answer is A because it says so", Some('A'), "R2"),
        ("The answer is A nice place", None, "R7"),
        ("The answer is A\nIt is said in the text", Some('A'), "R2"),
        ("ОТВЕТ: В", Some('B'), "R2"),
        ("Die Antwort lautet C.", Some('C'), "R2"),
        ("La bonne réponse est D.", Some('D'), "R2"),
        ("정답은 B입니다", Some('B'), "R2"),
        ("我选择B", Some('B'), "R2"),
        ("Đáp án là C.", Some('C'), "R2"),
        ("Jibu ni D.", Some('D'), "R2"),
        // The danda is no sign that ends a letter; the answer is short, so it is read as such.
        ("सही उत्तर है B।", Some('B'), "R5"),
        ("The answer is not A.", None, "R7"),
        ("The answer is certainly not option A.", None, "R7"),
        ("It was answered d", None, "R7"),
        ("reoption B and so on and on", None, "R7"),
        // R2x: several.
        ("The answer is A, B.", None, "R2x"),
        ("The answer is (A) or (B).", None, "R2x"),
        ("The answer is C, and not D", Some('C'), "R2"),
        // R3: a label.
        ("C - it is said in the last line of the text", Some('C'), "R3"),
        ("[D] It is said in the last line of the text", Some('D'), "R3"),
        ("B, since it is said in the last line of the text", Some('B'), "R3"),
        ("a, well, it is said in the last line of the text", None, "R7"),
        ("A, B", None, "R3x"),
        ("A) and B)", None, "R3x"),
        ("B. C. Smith said so in the last line", None, "R3x"),
        ("(A) one\n(B) two", None, "R3x"),
        // R4: brackets.
        ("It has to be what stands in ( c ), and what is said in 【C】", Some('C'), "R4"),
        ("Either what stands in (B), or else what stands in [D]", None, "R4x"),
        // R5: few words.
        ("Surely it is B", Some('B'), "R5"),
        ("Definitely A", Some('A'), "R5"),
        ("A dog", None, "R7"),
        ("It isn't B", None, "R7"),
        ("nicht B", None, "R7"),
        ("B or C", None, "R7"),
        ("plan B-52", None, "R7"),
        ("vitamin C's use", None, "R7"),
    ] {
        check(output, letter, rule);
    }
}

#[test]
fn options_that_are_written_out() {
    let options = ["Strong smells", "A distance", "a distance of ten metres", "None"];
    for (output, letter, rule) in [
        ("It attracts them by strong, smells!", Some('A'), "R6"),
        ("They keep A DISTANCE, I would say so", Some('B'), "R6"),
        ("They keep a distance of ten metres, I would say so", Some('C'), "R6"),
        ("strong smells and none of the others here", None, "R7"),
        ("nothing of this kind is said in the text", None, "R7"),
        ("<think>strong smells</think> I would say that nothing is said", None, "R7"),
        ("The answer is (A) or (B).", None, "R2x"),
        ("B", Some('B'), "R1"),
    ] {
        let found = lenient(output, &options);
        assert_eq!((found.letter, found.rule), (letter, rule), "{output:?}");
    }
    // Two options that read the same are one option too many.
    assert_eq!(lenient("it was strong smells, I would say", &["strong smells", "Strong smells!"]).rule, "R7");
}

#[test]
fn official_rule() {
    for (output, plain, stripped) in [
        ("B", Some('B'), Some('B')),
        ("(C)", Some('C'), Some('C')),
        ("Answer: D", Some('A'), Some('A')),
        ("B\n\nQ: x", Some('B'), Some('B')),
        ("[D]", None, None),
        ("b", None, None),
        ("**A**", None, None),
        (" A", None, None),
        ("", None, None),
        ("()", None, None),
        ("The correct answer is (D).", None, Some('D')),
        ("Certainly: The correct answer is D", Some('C'), Some('C')),
    ] {
        assert_eq!(official(output, false).letter, plain, "{output:?}");
        assert_eq!(official(output, true).letter, stripped, "{output:?}");
    }
    assert_eq!(official("", false).rule, "official:empty");
    assert_eq!(official("B", false).rule, "official:bare");
    assert_eq!(official("B.", false).rule, "official:first_character");
}

#[test]
fn refusals_are_told_from_other_answers() {
    for output in ["I'm sorry, I can't hear the recording.", "There is no audio.", "As an AI model, I cannot"]
    {
        assert!(is_refusal(output), "{output}");
    }
    for output in ["B", "", "None of the above"] {
        assert!(!is_refusal(output), "{output}");
    }
}

const RULES: [&str; 11] = ["R0", "R1", "R2", "R2x", "R3", "R3x", "R4", "R4x", "R5", "R6", "R7"];

/// Words and signs that the rules look at, in any order.
fn scraps() -> impl Strategy<Value = String> {
    let scrap = prop::sample::select(vec![
        "A",
        "B",
        "c",
        "d",
        "The",
        "answer",
        "is",
        "option",
        ":",
        "(",
        ")",
        "[",
        "]",
        " ",
        " ",
        "\n",
        ".",
        ",",
        "or",
        "and",
        "not",
        "答案",
        "是",
        "<think>",
        "</think>",
        "\\boxed{",
        "}",
        "#",
        "*",
        "Passage:",
        "passage",
        "-",
        "İ",
        "ﬁ",
        "คำตอบ",
        "to the",
        "<|",
        "|>",
        "<",
        "end",
        "Ｂ",
        "'",
    ]);
    prop::collection::vec(scrap, 0..14).prop_map(|scraps| scraps.concat())
}

proptest! {
    #[test]
    fn any_output_has_a_known_rule(output in prop_oneof![any::<String>(), scraps()], option: String) {
        for found in [recipe(&output), lenient(&output, &[option.as_str(), "b", "c", "d"])] {
            prop_assert!(RULES.contains(&found.rule));
            prop_assert!(found.letter.is_none_or(is_capital));
            let none = matches!(found.rule, "R0" | "R2x" | "R3x" | "R4x" | "R7");
            prop_assert_eq!(found.letter.is_none(), none);
        }
        // What the recipe finds, the lenient reading finds by the same rule.
        let (strict, loose) = (recipe(&output), lenient(&output, &[option.as_str()]));
        prop_assert!(strict == loose || (strict.rule == "R7" && loose.rule == "R6"));
        prop_assert_eq!(recipe(&output), strict);
        for strip in [false, true] {
            let found = official(&output, strip);
            prop_assert!(found.rule.starts_with("official:"));
            prop_assert_eq!(found.letter.is_some(), matches!(found.rule, "official:bare" | "official:first_character"));
        }
        let _ = is_refusal(&output);
    }

    /// An `A` before a word is an article, wherever it stands.
    #[test]
    fn an_article_never_counts(
        before in prop::sample::select(vec!["", "The answer is ", "I think it is ", "answer: ", "Option "]),
        article in prop::sample::select(vec!["A", "a"]),
        word in "[e-z]{3,9}",
        rest in "( [e-z]{2,8}){0,6}",
    ) {
        prop_assume!(!REASONS.contains(&word.as_str()));
        let output = format!("{before}{article} {word}{rest}.");
        prop_assert_eq!(recipe(&output).letter, None, "{}", output);
    }

    /// Wrapping a letter does not change it.
    #[test]
    fn dress_does_not_matter(
        letter in prop::sample::select(vec!['A', 'B', 'C', 'D']),
        dress in prop::sample::select(vec![
            "{}", "({})", "[{}]", "**{}**", "`{}`", "\\boxed{{}}", "$\\text{{}}$", "{}.", "\n{}\n", "「{}」", "<think>A or B</think>{}",
            "The answer is {}.", "Answer: {}", "answer:\n\n({})", "{}<|im_end|>", "### Answer:\n{}", "答案是{}。", "Ответ: {}",
        ]),
    ) {
        let output = dress.replace("{}", &letter.to_string());
        prop_assert_eq!(recipe(&output).letter, Some(letter), "{}", output);
    }
}
