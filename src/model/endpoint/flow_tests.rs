use super::*;

fn rules(min: usize, max: usize) -> Rules {
    Rules {
        concurrency: Concurrency { min, max, adaptive: true },
        rpm: None,
        tpm: None,
        patience: Duration::from_mins(1),
    }
}

fn fault(cause: Cause) -> Signal {
    Signal::Fault { cause, message: cause.as_str().to_owned() }
}

/// A permit that must be there at once.
async fn now(flow: &Arc<Flow>) -> Permit {
    tokio::time::timeout(Duration::from_millis(1), flow.acquire(1, &[])).await.expect("no permit").unwrap()
}

async fn must_wait(flow: &Arc<Flow>, time: Duration) {
    assert!(tokio::time::timeout(time, flow.acquire(1, &[])).await.is_err(), "a permit came too early");
}

#[tokio::test(start_paused = true)]
async fn the_limit_holds_and_a_dropped_permit_comes_back() {
    let flow = Flow::new(rules(1, 2), 1);
    let (first, second) = (now(&flow).await, now(&flow).await);
    must_wait(&flow, Duration::from_secs(100)).await;
    drop(first);
    let third = now(&flow).await;
    must_wait(&flow, Duration::from_secs(1)).await;
    assert!(!second.finish(&Signal::Good, None));
    drop(third);
    assert_eq!(flow.state().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_served_in_order() {
    let flow = Flow::new(rules(1, 1), 1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let permit = now(&flow).await;
    let tasks: Vec<_> = (0..20)
        .map(|index| {
            let (flow, order) = (Arc::clone(&flow), Arc::clone(&order));
            tokio::spawn(async move {
                let permit = flow.acquire(1, &[]).await.unwrap();
                order.lock().unwrap().push(index);
                tokio::time::sleep(Duration::from_millis(1)).await;
                permit.finish(&Signal::Good, None);
            })
        })
        .collect();
    tokio::task::yield_now().await;
    // One that waits goes away; nobody behind it is forgotten.
    tasks[3].abort();
    permit.finish(&Signal::Good, None);
    for (index, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.is_err(), index == 3);
    }
    let expected: Vec<_> = (0..20).filter(|index| *index != 3).collect();
    assert_eq!(*order.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_limit_falls_once_a_round_and_rises_by_one_a_round() {
    let flow = Flow::new(rules(2, 10), 1);
    let mut round = Vec::new();
    for _ in 0..10 {
        round.push(now(&flow).await);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for permit in round {
        permit.finish(&fault(Cause::RateLimit), None);
    }
    assert_eq!(flow.state().limit, 7);
    for expected in [4, 3, 2, 2, 2] {
        let permit = now(&flow).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        permit.finish(&fault(Cause::RateLimit), None);
        assert_eq!(flow.state().limit, expected);
    }
    // Faults that say nothing about load change nothing, nor do good ends far below the limit.
    now(&flow).await.finish(&fault(Cause::Server), None);
    now(&flow).await.finish(&fault(Cause::Malformed), None);
    assert_eq!(flow.state().limit, 2);
    for expected in [2, 2, 3, 3, 3, 4] {
        let mut round = Vec::new();
        for _ in 0..flow.state().limit {
            round.push(now(&flow).await);
        }
        round.remove(0).finish(&Signal::Good, None);
        assert_eq!(flow.state().limit, expected);
    }
    for _ in 0..500 {
        let mut round = Vec::new();
        for _ in 0..flow.state().limit {
            round.push(now(&flow).await);
        }
        for permit in round {
            permit.finish(&Signal::Good, None);
        }
    }
    assert_eq!(flow.state().limit, 10);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_limit_stays() {
    let mut rules = rules(1, 4);
    rules.concurrency.adaptive = false;
    let flow = Flow::new(rules, 1);
    now(&flow).await.finish(&fault(Cause::RateLimit), None);
    assert_eq!(flow.state().limit, 4);
}

#[tokio::test(start_paused = true)]
async fn requests_a_minute_are_spread() {
    let flow = Flow::new(Rules { rpm: Some(120), ..rules(1, 100) }, 1);
    let start = Instant::now();
    for _ in 0..62 {
        flow.acquire(1, &[]).await.unwrap().finish(&Signal::Good, None);
    }
    let took = start.elapsed().as_secs_f64();
    assert!((29.9..=30.1).contains(&took), "60 after a burst of two, two a second: {took}");
}

#[tokio::test(start_paused = true)]
async fn tokens_a_minute_are_paid_as_the_server_counts_them() {
    let flow = Flow::new(Rules { tpm: Some(6000), ..rules(1, 100) }, 1);
    let start = Instant::now();
    // The burst of 500 is overdrawn by one request of 1500, whose guess was 10: 10 s at 100 a second.
    flow.acquire(10, &[]).await.unwrap().finish(&Signal::Good, Some(1500));
    let permit = flow.acquire(10, &[]).await.unwrap();
    let took = start.elapsed().as_secs_f64();
    assert!((9.9..=10.1).contains(&took), "{took}");
    // Now requests are expected to cost what the first did, before they tell.
    must_wait(&flow, Duration::from_secs(14)).await;
    drop(permit);
}

#[tokio::test(start_paused = true)]
async fn the_least_loaded_address_comes_first() {
    let flow = Flow::new(rules(1, 100), 3);
    let mut permits = Vec::new();
    for _ in 0..6 {
        permits.push(now(&flow).await);
    }
    let counts: Vec<_> = flow.state().addresses.iter().map(|address| address.in_flight).collect();
    assert_eq!(counts, [2, 2, 2]);
    let back = permits.iter().position(|permit| permit.address() == 1).unwrap();
    drop(permits.remove(back));
    assert_eq!(now(&flow).await.address(), 1);
    // In turn when all are free.
    permits.clear();
    let mut turns = Vec::new();
    for _ in 0..6 {
        turns.push(now(&flow).await.address());
    }
    turns.sort_unstable();
    assert_eq!(turns, [0, 0, 1, 1, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_address_is_left_out_and_tried_again() {
    let flow = Flow::new(rules(1, 100), 2);
    let dead = loop {
        let permit = now(&flow).await;
        if permit.address() == 0 {
            break permit;
        }
    };
    assert!(dead.finish(&fault(Cause::Connect), None));
    for _ in 0..10 {
        assert_eq!(now(&flow).await.address(), 1);
    }
    assert_eq!(flow.state().paused_for, None);
    tokio::time::sleep(FIRST_PROBE).await;
    let probe = now(&flow).await;
    assert_eq!(probe.address(), 0);
    // One probe at a time, and the next one later.
    assert_eq!(now(&flow).await.address(), 1);
    assert!(probe.finish(&fault(Cause::Connect), None));
    tokio::time::sleep(FIRST_PROBE).await;
    assert_eq!(now(&flow).await.address(), 1);
    tokio::time::sleep(FIRST_PROBE).await;
    let probe = now(&flow).await;
    assert_eq!(probe.address(), 0);
    assert!(!probe.finish(&fault(Cause::RateLimit), None), "a server that limits the rate is up");
    assert!(flow.state().addresses.iter().all(|address| address.down_for.is_none()));
}

#[tokio::test(start_paused = true)]
async fn everything_waits_while_the_server_is_down() {
    let flow = Flow::new(rules(1, 4), 1);
    let late = now(&flow).await;
    assert!(now(&flow).await.finish(&fault(Cause::Connect), None));
    // An answer to what was sent before does not open the gate.
    late.finish(&Signal::Good, None);
    must_wait(&flow, Duration::from_millis(200)).await;
    let start = Instant::now();
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let flow = Arc::clone(&flow);
            tokio::spawn(async move {
                loop {
                    let permit = flow.acquire(1, &[]).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let dead = start.elapsed() < Duration::from_secs(10);
                    let signal = if dead { fault(Cause::Connect) } else { Signal::Good };
                    if !permit.finish(&signal, None) {
                        return;
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let state = flow.state();
    assert!(state.paused_for.unwrap() >= Duration::from_secs(8) && !state.given_up, "{state:?}");
    assert_eq!(state.why.as_deref(), Some("no connection"));
    for task in waiting {
        task.await.unwrap();
    }
    let took = start.elapsed();
    assert!(took < Duration::from_secs(16), "{took:?}");
    let state = flow.state();
    assert_eq!((state.paused_for, state.given_up), (None, false));
    assert!(state.addresses[0].sent < 62, "probes come one at a time: {state:?}");
}

#[tokio::test(start_paused = true)]
async fn patience_ends_and_a_probe_that_succeeds_opens_the_gate_again() {
    let flow = Flow::new(Rules { patience: Duration::from_secs(3), ..rules(1, 4) }, 1);
    now(&flow).await.finish(&fault(Cause::Connect), None);
    let given_up = loop {
        match flow.acquire(1, &[]).await {
            Ok(probe) => drop(probe.finish(&fault(Cause::Connect), None)),
            Err(given_up) => break given_up,
        }
    };
    assert_eq!(given_up.down_for, Duration::from_secs(3));
    assert_eq!(given_up.why, "no connection");
    assert!(flow.state().given_up);
    // What comes now fails at once, but for a probe now and then.
    assert!(flow.acquire(1, &[]).await.is_err());
    tokio::time::sleep(LONGEST_PROBE).await;
    now(&flow).await.finish(&Signal::Good, None);
    assert!(!flow.state().given_up);
    now(&flow).await;
}

#[tokio::test(start_paused = true)]
async fn faults_in_a_row_count_only_when_nothing_else_is_heard() {
    let flow = Flow::new(rules(1, 100), 1);
    for _ in 0..50 {
        assert!(!now(&flow).await.finish(&fault(Cause::Reset), None));
    }
    now(&flow).await.finish(&fault(Cause::Server), None);
    tokio::time::sleep(SILENCE).await;
    assert!(!now(&flow).await.finish(&fault(Cause::Overloaded), None));
    assert!(!now(&flow).await.finish(&fault(Cause::Reset), None));
    assert!(now(&flow).await.finish(&fault(Cause::Overloaded), None));
    assert!(flow.state().paused_for.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_probe_lets_another_one_go() {
    let flow = Flow::new(rules(1, 4), 1);
    now(&flow).await.finish(&fault(Cause::Dns), None);
    tokio::time::sleep(FIRST_PROBE).await;
    let probe = now(&flow).await;
    must_wait(&flow, Duration::from_secs(1)).await;
    drop(probe);
    now(&flow).await.finish(&Signal::Good, None);
    assert_eq!(flow.state().paused_for, None);
}

/// One that fails at once would be the least loaded one, and take nearly all.
#[tokio::test(start_paused = true)]
async fn one_of_two_that_only_fails_is_left_out() {
    let flow = Flow::new(rules(1, 4), 2);
    let mut sick = 0;
    for _ in 0..100 {
        let permit = now(&flow).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        if permit.address() == 1 {
            sick += 1;
            permit.finish(&fault(Cause::Server), None);
        } else {
            permit.finish(&Signal::Good, None);
        }
    }
    let state = flow.state();
    assert!(state.addresses[1].down_for.is_some() && state.addresses[0].down_for.is_none(), "{state:?}");
    assert!(sick < 20, "{sick} of 100");
    assert_eq!(state.paused_for, None);
    // It gets well, and a probe finds that out.
    loop {
        let permit = now(&flow).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let back = permit.address() == 1;
        permit.finish(&Signal::Good, None);
        if back {
            break;
        }
    }
    assert_eq!(flow.state().addresses[1].down_for, None);
    // Alone, the same faults are those of requests.
    let flow = Flow::new(rules(1, 4), 1);
    for _ in 0..50 {
        let permit = now(&flow).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!permit.finish(&fault(Cause::Server), None));
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_address_has_failed_goes_to_another_one() {
    let flow = Flow::new(rules(1, 4), 3);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(flow.acquire(1, &seen).await.unwrap().address());
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2]);
    assert!(flow.acquire(1, &seen).await.is_ok(), "there is no other one");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_down() {
    let flow = Flow::new(rules(1, 8), 1);
    let permits = [now(&flow).await, now(&flow).await, now(&flow).await];
    tokio::time::sleep(Duration::from_mins(5)).await;
    let down = permits.map(|permit| permit.finish(&fault(Cause::Timeout), None));
    assert_eq!(down, [false, false, true]);
    // One that answers others is busy, or the request is too much for it.
    let flow = Flow::new(rules(1, 8), 1);
    let permits = [now(&flow).await, now(&flow).await, now(&flow).await];
    tokio::time::sleep(Duration::from_secs(1)).await;
    now(&flow).await.finish(&Signal::Good, None);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(permits.map(|permit| permit.finish(&fault(Cause::Timeout), None)), [false; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_lets_nobody_in() {
    let flow = Flow::new(rules(1, 4), 1);
    let permit = now(&flow).await;
    flow.close();
    must_wait(&flow, Duration::from_secs(1000)).await;
    assert_eq!(flow.state().in_flight, 1);
    permit.finish(&Signal::Good, None);
    assert_eq!(flow.state().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_held_waits_without_losing_patience_and_finds_all_up() {
    let flow = Flow::new(rules(1, 2), 1);
    let permit = now(&flow).await;
    assert!(permit.finish(&fault(Cause::Connect), None), "down");
    flow.hold("waiting for server".to_owned());
    must_wait(&flow, Duration::from_hours(1)).await;
    assert_eq!(flow.state().held.as_deref(), Some("waiting for server"));
    let waiting = tokio::spawn({
        let flow = Arc::clone(&flow);
        async move { flow.acquire(1, &[]).await.map(|permit| permit.probe) }
    });
    tokio::task::yield_now().await;
    flow.release();
    assert_eq!(waiting.await.unwrap(), Ok(false), "no probe: the server is known to be up");
    let state = flow.state();
    assert_eq!((state.held, state.paused_for, state.given_up), (None, None, false));
}

/// Even without patience, for a moment nobody knows yet that the server has died.
#[tokio::test(start_paused = true)]
async fn servers_that_are_looked_after_have_the_time_to_be_noticed() {
    let flow = Flow::new(Rules { patience: Duration::ZERO, ..rules(1, 2) }, 1);
    flow.attend();
    let permit = now(&flow).await;
    assert!(permit.finish(&fault(Cause::Connect), None));
    // Probes find it down still.
    for _ in 0..4 {
        let probe = flow.acquire(1, &[]).await.unwrap();
        assert!(probe.probe && probe.finish(&fault(Cause::Connect), None));
    }
    assert!(!flow.state().given_up);
    tokio::time::sleep(ATTENDED).await;
    let probe = flow.acquire(1, &[]).await.unwrap();
    probe.finish(&fault(Cause::Connect), None);
    assert!(flow.acquire(1, &[]).await.is_err(), "looked after, and forgotten");
}
