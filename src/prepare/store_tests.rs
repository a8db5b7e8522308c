//! Tests of what becomes of media, and of how a row asks for them.

use super::*;
use crate::dataset::Dataset;

fn want(name: &str, stem: &str) -> Want {
    Want { name: name.to_owned(), stem: stem.to_owned() }
}

#[test]
fn a_row_asks_first_and_gets_answers_in_the_same_order() {
    let mut asking = Store::asking();
    for name in ["a", "b"] {
        assert_eq!(asking.keep(name, "s").unwrap(), None);
    }
    let wants = asking.wants();
    assert_eq!(wants, [want("a", "s"), want("b", "s")]);
    let broken = |may_pass| Kept::Broken { problem: "p".to_owned(), may_pass };
    let made = |second| vec![(wants[0].clone(), Kept::Absent), (wants[1].clone(), second)];
    for may_pass in [true, false] {
        let mut answering = Store::answering(made(broken(may_pass)));
        assert_eq!((answering.keep("a", "s").unwrap(), answering.keep("b", "s").unwrap()), (None, None));
        assert_eq!((answering.absent, answering.problems.len()), (1, 1));
        assert_eq!(answering.faults, u64::from(may_pass));
        assert!(answering.keep("c", "s").is_err(), "it was not asked for");
    }
    assert!(Store::answering(made(Kept::Absent)).keep("b", "s").is_err(), "another was asked for first");
}

#[test]
fn what_may_pass_is_told_from_what_stays() {
    let dir = tempfile::tempdir().unwrap();
    let rubbish = "no base64, ".repeat(100);
    let row = serde_json::json!({"image": rubbish});
    std::fs::write(dir.path().join("test.jsonl"), row.to_string()).unwrap();
    std::fs::write(dir.path().join("odd.png"), "no image at all").unwrap();
    let data = Dataset::open(dir.path(), None).unwrap();
    let files = Files::default();
    let target = Target { to: dir.path(), set: "test", in_place: true, files: &files };
    let check = |name: &str, passes: bool, says: &str| {
        let (sources, _) = data.read_ahead(std::iter::once(name));
        let Kept::Broken { problem, may_pass } = make(&sources[0], &want(name, "s"), target).unwrap() else {
            panic!("{name}")
        };
        assert_eq!(may_pass, passes, "{problem}");
        let then = if passes { AGAIN } else { STAYS };
        assert!(problem.starts_with(name) && problem.contains(says) && problem.ends_with(then), "{problem}");
    };
    check("test.jsonl#0.image", false, "neither base64 nor a path");
    check("../out.png", false, "nothing outside it is read");
    check("none.png", true, "cannot be read");
    // Another file may be put there, and the record of the rows would not show it.
    check("odd.png", true, "no clip and no image");
    // A text that is no name, as recordings in base64 are where their names should be.
    let long = "x".repeat(3000);
    let (sources, _) = data.read_ahead(std::iter::once(long.as_str()));
    let Kept::Broken { problem, may_pass } = make(&sources[0], &want(&long, "s"), target).unwrap() else {
        panic!("there is such a file")
    };
    assert!(
        !may_pass && problem.ends_with(STAYS) && problem.contains("(3000 characters): cannot"),
        "{problem}"
    );
    assert!(problem.len() < 300, "{problem}");
}
