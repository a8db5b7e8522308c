//! Diagrams as SVG: text that browsers and papers show, without a library.

use std::fmt::Write as _;

/// A diagram of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The stem of its file, unique within a run.
    pub name: String,
    /// Its content.
    pub svg: String,
}

/// Answers of about one confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReliabilityBin {
    /// The confidence in percent.
    pub middle: f64,
    /// The share of right answers in percent; `None` of no answers.
    pub accuracy: Option<f64>,
    /// Answers.
    pub n: u64,
}

const SIDE: f64 = 400.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
/// The room below for counts.
const COUNTS: f64 = 60.0;

/// A reliability diagram: accuracy over confidence with the diagonal of perfect calibration, and below it how many
/// answers each bin has. Empty bins have no mark.
pub fn reliability(title: &str, bins: &[ReliabilityBin]) -> String {
    let (width, height) = (LEFT + SIDE + 20.0, TOP + SIDE + COUNTS + 60.0);
    let x = |percent: f64| LEFT + SIDE * percent / 100.0;
    let y = |percent: f64| TOP + SIDE - SIDE * percent / 100.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{LEFT}\" y=\"24\">{}</text>\n",
        escaped(title)
    );
    for tick in (0..=100).step_by(20).map(f64::from) {
        let (across, up) = (x(tick), y(tick));
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {up}H{}M{across} {TOP}V{}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{}\" \
             text-anchor=\"end\">{tick}</text><text x=\"{across}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
            LEFT + SIDE,
            TOP + SIDE,
            LEFT - 6.0,
            up + 4.0,
            TOP + SIDE + COUNTS + 18.0
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{} {}L{} {}\" stroke=\"#888\" stroke-dasharray=\"4 4\"/>",
        x(0.0),
        y(0.0),
        x(100.0),
        y(100.0)
    );
    let most = bins.iter().map(|bin| bin.n).max().unwrap_or(0).max(1) as f64;
    let below = TOP + SIDE + COUNTS;
    let mut line = String::new();
    for bin in bins.iter().filter(|bin| bin.n > 0) {
        let high = COUNTS * 0.8 * bin.n as f64 / most;
        let across = x(bin.middle);
        let answers = if bin.n == 1 { "answer" } else { "answers" };
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"14\" height=\"{high:.1}\" fill=\"#9bb7d4\"><title>{}: {} \
             {answers}</title></rect>",
            across - 7.0,
            below - high,
            bin.middle,
            bin.n
        );
        if let Some(accuracy) = bin.accuracy {
            let _ = write!(line, "{across:.1},{:.1} ", y(accuracy));
            let _ = writeln!(
                svg,
                "<circle cx=\"{across:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"#1f4e79\"><title>confidence {}, accuracy \
                 {accuracy:.1}, n {}</title></circle>",
                y(accuracy),
                bin.middle,
                bin.n
            );
        }
    }
    let _ = writeln!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f4e79\"/>", line.trim_end());
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">stated confidence (bars: answers, at most {most})</text>\n<text \
         transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">accuracy</text>\n</svg>",
        LEFT + SIDE / 2.0,
        height - 10.0,
        TOP + SIDE / 2.0
    );
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bin_with_answers_has_a_mark_and_a_bar() {
        let bins: Vec<ReliabilityBin> = (0..=100)
            .step_by(5)
            .map(|middle| {
                let n = if middle % 50 == 0 { 3 } else { 0 };
                ReliabilityBin { middle: f64::from(middle), accuracy: (n > 0).then_some(50.0), n }
            })
            .collect();
        let svg = reliability("a < b", &bins);
        assert_eq!((svg.matches("<circle").count(), svg.matches("answers</title>").count()), (3, 3));
        assert!(svg.contains("<circle cx=\"260.0\" cy=\"240.0\"") && svg.contains("a &lt; b"));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(reliability("", &[]).contains("points=\"\""));
        let one = reliability("", &[ReliabilityBin { middle: 50.0, accuracy: Some(0.0), n: 1 }]);
        assert!(one.contains("<title>50: 1 answer</title>"), "{one}");
    }
}
