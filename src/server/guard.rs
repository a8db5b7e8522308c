//! The guard: stands between the harness and a server, and leaves nothing of the server behind.
//!
//! It is a process of its own, so that it outlives a harness that was killed. Its standard input is a pipe that the
//! harness holds open; the end of that pipe is the one sign that the server is no longer wanted, and no death of the
//! harness can keep it back. (A parent-death signal would reach the server alone and not what it has started, and
//! exists on Linux only.) The guard leads a process group of its own and so does the server: Ctrl-C at a terminal reaches
//! neither.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::{NOT_FOUND, NOT_RUNNABLE};

/// How long what was killed may take to be gone.
const GONE: Duration = Duration::from_secs(5);
/// How often is looked whether it is.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a server until it ends, or until standard input does or a signal asks for it; then ends what is left of it,
/// `SIGKILL` after `grace`. The exit code of the server, 128 and the number of the signal that ended it, or
/// [`NOT_FOUND`] and [`NOT_RUNNABLE`].
pub fn guard(command: &[OsString], grace: Duration) -> u8 {
    match run(command, grace) {
        Ok(code) => code,
        Err(error) => {
            let name = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let _ = writeln!(io::stderr(), "`{name}`: {error}");
            if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE }
        }
    }
}

fn run(command: &[OsString], grace: Duration) -> io::Result<u8> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::other("there is no command"));
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // What the server leaves without a parent becomes a child of the guard, which can find and end it.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        // Listened to before there is anything to leave behind.
        let mut ended = signal(SignalKind::child())?;
        let mut asked = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        ];
        let mut unwanted = end_of_input();
        let mut child =
            Command::new(program).args(arguments).stdin(Stdio::null()).process_group(0).spawn()?;
        let group = Pid::from_child(&child);
        let [terminate, interrupt, hangup] = &mut asked;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            bury(&orphans(group));
            tokio::select! {
                _ = ended.recv() => {}
                // In case a signal is lost.
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                _ = &mut unwanted => break None,
                _ = terminate.recv() => break None,
                _ = interrupt.recv() => break None,
                _ = hangup.recv() => break None,
            }
        };
        let found = end(group, &mut child, grace).await;
        Ok(status.or(found).map_or(0, code))
    })
}

/// Is told when standard input ends.
fn end_of_input() -> oneshot::Receiver<()> {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = tell.send(());
    });
    told
}

/// Ends what is left of a group: asks, and kills after `grace`.
async fn end(group: Pid, child: &mut Child, grace: Duration) -> Option<ExitStatus> {
    let mut status = None;
    for (sign, time) in [(Signal::TERM, grace), (Signal::KILL, GONE)] {
        if !is_left(group, child, &mut status) {
            break;
        }
        let _ = rustix::process::kill_process_group(group, sign);
        let until = Instant::now() + time;
        // Who has left the group is known as soon as its parent is gone.
        let mut told = Vec::new();
        while Instant::now() < until && is_left(group, child, &mut status) {
            for orphan in orphans(group) {
                if !told.contains(&orphan) {
                    let _ = rustix::process::kill_process(orphan, sign);
                    told.push(orphan);
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    status
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|number| 128 + number)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// Whether something of the server is there; what has ended is taken note of, for the dead of a group are members.
fn is_left(group: Pid, child: &mut Child, status: &mut Option<ExitStatus>) -> bool {
    if let Ok(Some(found)) = child.try_wait() {
        status.get_or_insert(found);
    }
    bury(&orphans(group));
    if status.is_some() {
        // The first process is known to have ended: the others of the group that are ours can be waited for.
        while let Ok(Some(_)) = rustix::process::waitpgid(group, WaitOptions::NOHANG) {}
    }
    rustix::process::test_kill_process_group(group).is_ok() || !orphans(group).is_empty()
}

/// Takes note of those that have ended.
fn bury(orphans: &[Pid]) {
    for orphan in orphans {
        let _ = rustix::process::waitpid(Some(*orphan), WaitOptions::NOHANG);
    }
}

/// The guard's children but for the server itself: what the server has started and left, in whatever group.
#[cfg(target_os = "linux")]
fn orphans(server: Pid) -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let numbers = children.flat_map(|text| {
        text.split_whitespace().filter_map(|number| number.parse::<i32>().ok()).collect::<Vec<_>>()
    });
    numbers.filter_map(Pid::from_raw).filter(|pid| *pid != server).collect()
}

#[cfg(not(target_os = "linux"))]
fn orphans(_server: Pid) -> Vec<Pid> {
    Vec::new()
}
