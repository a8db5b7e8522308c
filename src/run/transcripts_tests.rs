//! Tests of how recognisers are asked. The stage as a whole is tested through the binary.

use super::*;
use crate::config::{Loaded, load_text};

fn cascade(more: &str) -> CascadeConfig {
    let text = format!(
        "[model]\nkind = \"cascade\"\n[model.asr]\nkind = \"transcription\"\nmodel = \"w\"\n[model.llm]\nkind = \"openai\"\n\
         model = \"l\"\n[model.transcripts]\n{more}\n[[benchmark]]\nname = \"2m-belebele\"\ndata = \"d\"\n"
    );
    let loaded: Loaded = load_text(Path::new("c.toml"), &text, &[]).unwrap();
    *loaded.config.model.cascade.unwrap()
}

fn clip(name: &str) -> AudioRef {
    AudioRef { name: name.to_owned(), window: Window::Whole }
}

fn asr(more: &str, alone: bool) -> Asr {
    Asr::new(&cascade(more), &ModelIdentity::default(), alone)
}

#[test]
fn the_language_is_told_where_the_recogniser_has_a_name_for_it() {
    let told = |asr: &Asr, language: &str| asr.prompt(&clip("a.wav"), language).1;
    let forced = asr("", true);
    assert_eq!(told(&forced, "deu_Latn").as_deref(), Some("de"));
    assert_eq!(told(&forced, "cmn").as_deref(), Some("zh"));
    assert_eq!(told(&forced, "wol_Latn"), None);
    assert_eq!(told(&asr("language = \"auto\"", true), "deu_Latn"), None);
    let (prompt, _) = forced.prompt(&clip("a.wav"), "deu_Latn");
    let Prompt::Raw { text, audio } = prompt else { panic!("{prompt:?}") };
    assert_eq!(text, "<|startoftranscript|><|de|><|transcribe|><|notimestamps|>");
    assert_eq!(audio, [clip("a.wav")]);
    // Who chats is told in words, whatever tokens Whisper has.
    let chat = asr("prompt = \"Write {language}.\"", false);
    let (prompt, told) = chat.prompt(&clip("a.wav"), "wol_Latn");
    let Prompt::Chat(messages) = prompt else { panic!("{prompt:?}") };
    assert_eq!(messages[0].parts[1], Part::Text("Write Wolof.".to_owned()));
    assert_eq!(told.as_deref(), Some("Wolof"));
    let silent = asr("prompt = \"Write it down.\"", false);
    assert_eq!(silent.prompt(&clip("a.wav"), "wol_Latn").1, None);
}

#[test]
fn clips_are_taken_apart_by_sentence_and_settings_have_journals_of_their_own() {
    let joined = AudioRef::joined(&["a.wav", "b.wav"], 0, Window::Whole);
    assert_eq!(asr("", true).pieces(&joined), [clip("a.wav"), clip("b.wav")]);
    assert_eq!(asr("by = \"clip\"", true).pieces(&joined), [joined]);
    assert_eq!(asr("", true).digest(), asr("", true).digest());
    assert_ne!(asr("", true).digest(), asr("max_new_tokens = 9", true).digest());
}

#[test]
fn texts_next_to_each_other_are_one() {
    let text = |text: &str| Part::Text(text.to_owned());
    let audio = || Part::Audio(clip("a.wav"));
    assert_eq!(
        merged(vec![text("a"), text("b"), audio(), text("c"), text("d")]),
        [text("ab"), audio(), text("cd")]
    );
}

#[test]
fn what_a_transcript_took_depends_on_when_it_was_written_and_for_whom() {
    let begun = "2026-01-02T03:04:05Z";
    let usage = Usage { prompt_tokens: 3, audio_tokens: 2, completion_tokens: 1 };
    let written = |time: &str| Response { usage, time: time.to_owned(), ..Response::stand_in() };
    let took = |time: &str| Took::of(&written(time), begun).unwrap();
    assert_eq!(took("2026-01-02T03:04:05.5Z"), Took { tokens: usage, audio_seconds: None, earlier: false });
    assert!(took("2026-01-02T03:04:04.999Z").earlier);
    // A time that cannot be read is no proof of another run.
    assert!(!took("").earlier);
    let again = Response { reused_from: Some(Digest::default()), ..written(begun) };
    assert_eq!(Took::of(&again, begun), None);

    let dir = tempfile::tempdir().unwrap();
    assert_eq!(spent(dir.path()).unwrap(), Usage::default());
    let line = |took: &str| {
        format!(
            "{{\"benchmark\":\"b\",\"clip\":\"a\",\"language\":\"eng\",\"outcome\":\"ok\",\"text\":\"\"{took},\"key\":\"{}\"}}\n",
            Digest::default()
        )
    };
    let took = |more: &str| {
        let tokens = serde_json::to_string(&usage).unwrap();
        line(&format!(",\"took\":{{\"tokens\":{tokens}{more}}}"))
    };
    // A line of an earlier version has no such part.
    let lines = [line(""), took(""), took(",\"earlier\":true")].concat();
    std::fs::write(path(dir.path()), format!("{{\"format\":\"{FORMAT}\",\"version\":1}}\n{lines}")).unwrap();
    assert_eq!(spent(dir.path()).unwrap(), usage);
}

#[test]
fn a_file_of_another_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(read(dir.path()).unwrap().is_none());
    for (text, expected) in [
        ("{\"format\":\"harness-transcripts\",\"version\":9}\n", "is of version 9"),
        ("{}\n", "no file of transcripts"),
        ("{\"format\":\"harness-transcripts\",\"version\":1}\n{}\n", "line 2 is no transcript"),
    ] {
        std::fs::write(path(dir.path()), text).unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
