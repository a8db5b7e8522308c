//! What can go wrong on purpose, and when.
//!
//! Which requests are hit is a seeded hash of (content, attempt at this content), so a run repeats exactly
//! whatever its concurrency, and a rate of 60 % lets every content through after a few attempts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::hash::{Mixer, unit};

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// An error of this status; 429 with `Retry-After` in whole seconds.
    Status(u16),
    /// 429 with `retry-after-ms`.
    LimitMillis,
    /// 429 that says when the limit resets in the dialect's own way, without `Retry-After`.
    LimitReset,
    /// 429 with an HTTP date in `Retry-After`.
    LimitDate,
    /// 429 without a hint.
    LimitBare,
    /// The connection is reset in the middle of the response body.
    Reset,
    /// The connection is reset before any byte of the response.
    ResetEarly,
    /// No answer, ever.
    Stall,
    /// The right answer, drip by drip.
    SlowBody,
    /// HTTP 200 with the body of a passing error (503, overloaded).
    OkError,
    /// HTTP 200 with the body of an error that no retry heals (400).
    OkRefused,
    /// HTTP 200 with half of the JSON, whole as HTTP.
    Truncated,
    /// The right answer, declared as `text/plain`.
    WrongType,
    /// A proxy's error page with status 502.
    Html,
    /// A proxy's error page with status 200.
    HtmlOk,
    /// An answer without choices.
    EmptyChoices,
    /// An answer without text.
    EmptyText,
    /// An answer cut at the token limit.
    Length,
    /// An answer that the filter withheld.
    Filter,
    /// A prompt that the filter refused: HTTP 400 (Azure, `OpenAI`), `blockReason` (Gemini).
    FilterPrompt,
    /// The model refuses in the dialect's own field.
    Refusal,
}

/// The names on the command line.
const NAMES: [(&str, Fault); 30] = [
    ("400", Fault::Status(400)),
    ("401", Fault::Status(401)),
    ("403", Fault::Status(403)),
    ("404", Fault::Status(404)),
    ("408", Fault::Status(408)),
    ("409", Fault::Status(409)),
    ("413", Fault::Status(413)),
    ("422", Fault::Status(422)),
    ("429", Fault::Status(429)),
    ("429-ms", Fault::LimitMillis),
    ("429-reset", Fault::LimitReset),
    ("429-date", Fault::LimitDate),
    ("429-bare", Fault::LimitBare),
    ("500", Fault::Status(500)),
    ("503", Fault::Status(503)),
    ("529", Fault::Status(529)),
    ("reset", Fault::Reset),
    ("reset-early", Fault::ResetEarly),
    ("stall", Fault::Stall),
    ("slow-body", Fault::SlowBody),
    ("200-error", Fault::OkError),
    ("200-refused", Fault::OkRefused),
    ("truncated-json", Fault::Truncated),
    ("wrong-content-type", Fault::WrongType),
    ("html", Fault::Html),
    ("html-200", Fault::HtmlOk),
    ("empty-choices", Fault::EmptyChoices),
    ("empty-text", Fault::EmptyText),
    ("length", Fault::Length),
    ("refusal", Fault::Refusal),
];

/// The filter's faults have a second name each.
const MORE_NAMES: [(&str, Fault); 3] = [
    ("content-filter", Fault::Filter),
    ("content-filter-prompt", Fault::FilterPrompt),
    ("content-filter-400", Fault::FilterPrompt),
];

impl Fault {
    /// All names.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().chain(&MORE_NAMES).map(|(name, _)| *name)
    }

    /// Whether the response carries the right answer in the right form.
    pub(crate) fn answers(self) -> bool {
        self == Self::SlowBody
    }

    /// Whether the response is made by the model, so that it comes after the latency.
    pub(crate) fn takes_time(self) -> bool {
        !matches!(
            self,
            Self::Status(_)
                | Self::LimitMillis
                | Self::LimitReset
                | Self::LimitDate
                | Self::LimitBare
                | Self::ResetEarly
                | Self::Stall
                | Self::OkError
                | Self::OkRefused
                | Self::Html
                | Self::HtmlOk
                | Self::FilterPrompt
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            NAMES.iter().chain(&MORE_NAMES).find(|(_, fault)| fault == self).map_or("?", |(name, _)| name);
        f.write_str(name)
    }
}

/// A fault and the share of requests that it hits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    /// What happens.
    pub(crate) fault: Fault,
    /// To how many of all: 0 to 1.
    pub(crate) rate: f64,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rate) = text.split_once('=').unwrap_or((text, "1"));
        let fault =
            NAMES.iter().chain(&MORE_NAMES).find(|(known, _)| *known == name).map(|(_, fault)| *fault);
        let Some(fault) = fault else {
            let names: Vec<_> = Fault::names().collect();
            return Err(format!("`{name}` is no fault; the kinds are {}", names.join(", ")));
        };
        let parsed = match rate.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
            None => rate.parse(),
        };
        match parsed {
            Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(Self { fault, rate }),
            _ => Err(format!("`{rate}` is no rate; expected 0 to 1 or a percentage, such as {name}=0.2")),
        }
    }
}

/// What happens to this attempt (counted from 0) at this content.
pub(crate) fn draw(
    rates: &[Rate],
    fail_first: Option<u32>,
    seed: u64,
    content: u64,
    attempt: u32,
) -> Option<Fault> {
    let total: f64 = rates.iter().map(|rate| rate.rate).sum();
    let mut at = unit(Mixer::of_numbers(&[seed, content, u64::from(attempt), 0xfa]));
    if let Some(first) = fail_first {
        if attempt >= first {
            return None;
        }
        // Certain to fail: the rates say only how.
        at *= total;
    }
    for rate in rates {
        if at < rate.rate {
            return Some(rate.fault);
        }
        at -= rate.rate;
    }
    // Rounding at the upper end.
    fail_first.and(rates.last()).map(|rate| rate.fault)
}

/// How long the model works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Latency {
    /// Always the same.
    Fixed(Duration),
    /// Log-normal: the median, and the standard deviation of the logarithm.
    LogNormal(Duration, f64),
}

impl Latency {
    /// The latency of this attempt at this content.
    pub(crate) fn draw(self, seed: u64, content: u64, attempt: u32) -> Duration {
        match self {
            Self::Fixed(fixed) => fixed,
            Self::LogNormal(median, sigma) => {
                let number = |salt| unit(Mixer::of_numbers(&[seed, content, u64::from(attempt), salt]));
                let (a, b) = (1.0 - number(0x1a), number(0x1b));
                let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
                Duration::try_from_secs_f64(median.as_secs_f64() * (sigma * normal).exp()).unwrap_or(median)
            }
        }
    }
}

impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("lognormal:") else { return duration(text).map(Self::Fixed) };
        let (median, sigma) = rest.split_once(',').unwrap_or((rest, "0.5"));
        match sigma.parse() {
            Ok(sigma) if (0.0..=5.0).contains(&sigma) => Ok(Self::LogNormal(duration(median)?, sigma)),
            _ => Err(format!("`{sigma}` is no spread; expected 0 to 5, as in lognormal:50ms,0.5")),
        }
    }
}

/// A duration such as `50ms`, `1.5s` or `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration; expected a number and ms, s or m, such as 50ms");
    let (number, unit) = if let Some(number) = text.strip_suffix("ms") {
        (number, 1e-3)
    } else if let Some(number) = text.strip_suffix('s') {
        (number, 1.0)
    } else if let Some(number) = text.strip_suffix('m') {
        (number, 60.0)
    } else {
        (text.strip_prefix('0').filter(|rest| rest.is_empty()).map(|_| text).ok_or_else(wrong)?, 1.0)
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(text: &str) -> Vec<Rate> {
        text.split(',').map(|rate| rate.parse().unwrap()).collect()
    }

    #[test]
    fn names_go_both_ways() {
        for name in Fault::names().filter(|name| *name != "content-filter-400") {
            assert_eq!(name.parse::<Rate>().unwrap().fault.to_string(), name);
        }
        assert_eq!("429=20%".parse(), Ok(Rate { fault: Fault::Status(429), rate: 0.2 }));
        for wrong in ["430=0.1", "429=1.1", "429=x", "=", "429=-1", "429=NaN"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_kept_and_independent_of_the_attempt() {
        let rates = rates("429=0.2,reset=0.4");
        for attempt in [0, 1, 5] {
            let drawn: Vec<_> = (0..10_000).map(|content| draw(&rates, None, 1, content, attempt)).collect();
            let share = |fault| drawn.iter().filter(|drawn| **drawn == fault).count() as f64 / 1e4;
            assert!((share(Some(Fault::Status(429))) - 0.2).abs() < 0.02);
            assert!((share(Some(Fault::Reset)) - 0.4).abs() < 0.02);
            assert!((share(None) - 0.4).abs() < 0.02);
        }
    }

    #[test]
    fn the_seed_changes_who_is_hit_and_nothing_else_does() {
        let rates = rates("429=0.5");
        let drawn = |seed| (0..64).map(|content| draw(&rates, None, seed, content, 0)).collect::<Vec<_>>();
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn fail_first_hits_exactly_the_first_attempts() {
        let rates = rates("429=0.1,500=0.3");
        for content in 0..200 {
            assert!(
                draw(&rates, Some(2), 1, content, 0).is_some()
                    && draw(&rates, Some(2), 1, content, 1).is_some()
            );
            assert!(draw(&rates, Some(2), 1, content, 2).is_none());
        }
    }

    #[test]
    fn durations_and_latencies_are_read() {
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "5", "-1s", "xs", "1h", "infs", "NaNs"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!("lognormal:50ms,9".parse::<Latency>().is_err());
    }

    #[test]
    fn the_distributed_latency_has_its_median() {
        let latency: Latency = "lognormal:50ms,0.5".parse().unwrap();
        let mut drawn: Vec<_> = (0..2001).map(|content| latency.draw(1, content, 0)).collect();
        drawn.sort();
        let (low, median, high) =
            (drawn[320].as_secs_f64(), drawn[1000].as_secs_f64(), drawn[1680].as_secs_f64());
        assert!((median - 0.05).abs() < 0.004, "{median}");
        // One standard deviation to both sides.
        assert!((low - 0.0303).abs() < 0.003 && (high - 0.0824).abs() < 0.008, "{low} {high}");
    }
}
