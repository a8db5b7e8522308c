//! As much HTTP/1.1 as the server needs.

use std::io::BufRead;

/// A request without its body, of which there is none.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    headers: Vec<(String, String)>,
}

impl Request {
    /// The next request of a connection; `None` at its end.
    pub(crate) fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
                None => return Some(Self { method, target, headers }),
            }
        }
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        let pairs = self.target.split_once('?')?.1.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// A path with its `%XX` as what they stand for.
pub(crate) fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let code = more.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        if let (b'%', Some(code)) = (first, code) {
            bytes.push(code);
            rest = &more[2..];
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    String::from_utf8(bytes).expect("a path is UTF-8")
}
