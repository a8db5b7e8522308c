//! The supervisor: starts a server, waits until it is ready, starts it again when it dies, ends it.
//!
//! It is a thread with a clock of its own, so that it works while others compute or wait.

use std::io::{self, PipeReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::log::Log;
use super::{Event, NOT_FOUND, NOT_RUNNABLE, Ready, ServerError, ServerSpec};

/// How often the process is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often it is asked whether it is ready.
const ASK: Duration = Duration::from_millis(500);
/// How long it may take to say so.
const ANSWER: Duration = Duration::from_secs(3);
/// How often those who wait hear of it.
const TELL: Duration = Duration::from_secs(1);
/// The wait before it is started again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a guard may take beyond the server's grace.
const BEYOND: Duration = Duration::from_secs(15);

/// A server that is started, and ended with this value.
#[derive(Debug)]
pub struct Supervisor {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Supervisor {
    /// Starts a server. `on` is told what happens, from a thread of the supervisor's own; it must return quickly.
    pub fn start(spec: ServerSpec, ready: Ready, on: Box<dyn Fn(Event) + Send>) -> Result<Self, ServerError> {
        let log = Log::open(&spec.log, &spec.secrets)
            .map_err(|e| ServerError::Log { path: spec.log.clone(), reason: e.to_string() })?;
        let failed = |e: io::Error| ServerError::Start(e.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let first = launch(&spec, &log).map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("server".to_owned())
            .spawn(move || {
                let mut watcher = Watcher { spec, log, ready, on, stopped };
                runtime.block_on(watcher.watch(first));
            })
            .map_err(failed)?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends the server, and waits until it is gone.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.end();
    }
}

/// A guard with its server.
struct Guarded {
    guard: Child,
    reader: Option<JoinHandle<()>>,
}

impl Guarded {
    /// Asks the guard to end the server, and waits until it has.
    async fn end(mut self, grace: Duration) {
        drop(self.guard.stdin.take());
        let until = Instant::now() + grace + BEYOND;
        while Instant::now() < until && matches!(self.guard.try_wait(), Ok(None)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.read_out().await;
    }

    /// Waits for the last lines, which come before the end of the pipe.
    async fn read_out(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until && self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn launch(spec: &ServerSpec, log: &Log) -> io::Result<Guarded> {
    log.forget();
    let words: Vec<String> = spec.command.iter().map(|word| shown(word)).collect();
    log.mark(&format!("starting: {}", words.join(" ")));
    let (output, input): (PipeReader, _) = io::pipe()?;
    let Some((program, role)) = spec.guard.split_first() else {
        return Err(io::Error::other("there is no program that guards it"));
    };
    let mut command = Command::new(program);
    command
        .args(role)
        .arg(spec.grace.as_secs_f64().to_string())
        .arg("--")
        .args(&spec.command)
        .envs(spec.env.iter().map(|(name, value)| (name, value.expose())))
        .stdin(Stdio::piped())
        .stdout(input.try_clone()?)
        .stderr(input)
        // Ctrl-C at a terminal is for the harness, which then ends its server.
        .process_group(0);
    if let Some(folder) = &spec.folder {
        command.current_dir(folder);
    }
    let guard = command.spawn().map_err(|e| match &spec.folder {
        Some(folder) if !folder.is_dir() => {
            io::Error::other(format!("its working folder {} is not there", folder.display()))
        }
        _ => e,
    })?;
    // The command holds the writing end of the pipe, whose end would else never come.
    drop(command);
    let log = log.clone();
    let reader = std::thread::Builder::new().name("server-log".to_owned()).spawn(move || log.take(output))?;
    Ok(Guarded { guard, reader: Some(reader) })
}

/// A word of a command as a shell takes it.
fn shown(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// How one process of the server ended.
enum Ended {
    /// It was asked to.
    Stopped,
    /// By itself.
    Died(ExitStatus),
    /// It was ended since it never got ready.
    NeverReady(String),
}

struct Watcher {
    spec: ServerSpec,
    log: Log,
    ready: Ready,
    on: Box<dyn Fn(Event) + Send>,
    stopped: watch::Receiver<bool>,
}

impl Watcher {
    async fn watch(&mut self, first: Guarded) {
        let mut server = first;
        let mut restarts = 0;
        loop {
            let ended = self.one(&mut server, restarts > 0).await;
            let status = match ended {
                Ended::Stopped => {
                    self.log.mark("stopping");
                    server.end(self.spec.grace).await;
                    self.log.mark("stopped");
                    return;
                }
                Ended::NeverReady(why) => {
                    self.log.mark("not ready in time; stopping");
                    server.end(self.spec.grace).await;
                    return self.fail(ServerError::NeverReady {
                        within: self.spec.ready_within,
                        why,
                        last: self.log.last_lines(),
                        log: self.spec.log.clone(),
                    });
                }
                Ended::Died(status) => status,
            };
            server.read_out().await;
            let how = in_words(status);
            let last = self.log.last_lines();
            self.log.mark(&format!("the server {how}"));
            let hopeless = [NOT_FOUND, NOT_RUNNABLE].map(|code| Some(i32::from(code)));
            if hopeless.contains(&status.code()) && last.len() <= 1 {
                let why = last.into_iter().next().unwrap_or(how);
                return self.fail(ServerError::Start(why));
            }
            if restarts >= self.spec.restarts {
                let log = self.spec.log.clone();
                return self.fail(ServerError::Died { how, starts: restarts + 1, last, log });
            }
            restarts += 1;
            (self.on)(Event::Died { how, last, restart: restarts, of: self.spec.restarts });
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                _ = self.stopped.wait_for(|stopped| *stopped) => return,
            }
            server = match launch(&self.spec, &self.log) {
                Ok(server) => server,
                Err(e) => return self.fail(ServerError::Start(e.to_string())),
            };
        }
    }

    fn fail(&self, error: ServerError) {
        (self.on)(Event::Failed(error));
    }

    /// Watches one process to its end.
    async fn one(&mut self, server: &mut Guarded, again: bool) -> Ended {
        let begun = Instant::now();
        let mut ready = false;
        let (mut asked, mut told) = (None::<Instant>, begun);
        let mut why = String::new();
        loop {
            if let Ok(Some(status)) = server.guard.try_wait() {
                return Ended::Died(status);
            }
            if !ready && asked.is_none_or(|asked| asked.elapsed() >= ASK) {
                let answer = tokio::select! {
                    answer = (self.ready)() => answer,
                    () = tokio::time::sleep(ANSWER) => Err(format!("no answer within {} s", ANSWER.as_secs())),
                    _ = self.stopped.wait_for(|stopped| *stopped) => return Ended::Stopped,
                };
                match answer {
                    // Somebody else's answer is none of a server that has died meanwhile.
                    Ok(()) if matches!(server.guard.try_wait(), Ok(None)) => {
                        ready = true;
                        self.log.mark("ready");
                        (self.on)(Event::Ready { after: begun.elapsed() });
                    }
                    Ok(()) => continue,
                    Err(missing) => why = missing,
                }
                asked = Some(Instant::now());
            }
            if !ready && begun.elapsed() >= self.spec.ready_within {
                return Ended::NeverReady(why);
            }
            if !ready && told.elapsed() >= TELL {
                told = Instant::now();
                (self.on)(Event::Waiting { since: begun.elapsed(), last: self.log.last_line(), again });
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                // The sender is gone only with the supervisor, which sends first.
                _ = self.stopped.wait_for(|stopped| *stopped) => return Ended::Stopped,
            }
        }
    }
}

/// How a server ended, by its guard's exit code.
fn in_words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) if code > 128 => format!("was ended by signal {}", code - 128),
        Some(code) => format!("ended with exit code {code}"),
        None => "was lost with its guard".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_a_shell_takes_them() {
        assert_eq!(shown("--port=8000"), "--port=8000");
        assert_eq!(shown("it's"), "'it'\\''s'");
        assert_eq!(shown(""), "''");
    }
}
