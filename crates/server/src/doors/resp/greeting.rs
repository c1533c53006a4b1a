//! How a client introduces itself, and takes its leave.

use super::command::{Next, Turn};
use super::out::shown;
use super::session::{Protocol, Session};

/// Of the Redis whose commands these are: clients take it for what they may say.
pub(super) const REDIS_VERSION: &str = "7.0.0";

const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(super) fn ping(turn: &mut Turn<'_, '_>) -> Next {
    match turn.command.len() {
        1 => turn.out.simple("PONG"),
        _ => turn.out.bulk(turn.command.argument(1)),
    }
    Next::GoOn
}

pub(super) fn echo(turn: &mut Turn<'_, '_>) -> Next {
    turn.out.bulk(turn.command.argument(1));
    Next::GoOn
}

/// There is one database.
pub(super) fn select(turn: &mut Turn<'_, '_>) -> Next {
    match turn.command.argument(1) {
        b"0" => turn.out.simple("OK"),
        _ => turn.out.error("ERR DB index is out of range: there is only 0"),
    }
    Next::GoOn
}

pub(super) fn quit(turn: &mut Turn<'_, '_>) -> Next {
    turn.out.simple("OK");
    Next::Close
}

/// As if just connected.
pub(super) fn reset(turn: &mut Turn<'_, '_>) -> Next {
    let Session { id, peer, checks, .. } = *turn.session;
    let fresh = Session::new(id, peer, turn.house.password.is_none());
    // Nobody is told how many there were, and the figures are made of how many there are more.
    *turn.session = Session { checks, ..fresh };
    turn.out.simple("RESET");
    Next::GoOn
}

pub(super) fn auth(turn: &mut Turn<'_, '_>) -> Next {
    let given = match turn.command.len() {
        2 if turn.house.password.is_none() => {
            turn.out.error("ERR AUTH <password> called without any password configured");
            return Next::GoOn;
        }
        2 => (&b"default"[..], turn.command.argument(1)),
        _ => (turn.command.argument(1), turn.command.argument(2)),
    };
    if accepts(turn, given) {
        turn.session.admitted = true;
        turn.out.simple("OK");
    } else {
        turn.out.error(WRONG);
    }
    Next::GoOn
}

/// Whether a user and a password are right. The one user is called as in Redis; without a password, any is.
fn accepts(turn: &Turn<'_, '_>, (user, given): (&[u8], &[u8])) -> bool {
    let right = turn.house.password.as_ref().is_none_or(|password| password.is(given));
    right && user == b"default"
}

pub(super) fn hello(turn: &mut Turn<'_, '_>) -> Next {
    match agree(turn) {
        Ok(()) => introduce(turn),
        Err(problem) => turn.out.error(&problem),
    }
    Next::GoOn
}

/// Takes what a client wants to be spoken to in, and to be called. Nothing is changed unless all of it makes sense.
fn agree(turn: &mut Turn<'_, '_>) -> Result<(), String> {
    let command = turn.command;
    let protocol = match (command.len(), command.argument(1)) {
        (1, _) => turn.session.protocol,
        (_, b"2") => Protocol::Two,
        (_, b"3") => Protocol::Three,
        _ => return Err("NOPROTO unsupported protocol version".to_owned()),
    };
    let (mut at, mut name, mut admitted) = (2, None, turn.session.admitted);
    while at < command.len() {
        if command.is(at, "AUTH") && at + 2 < command.len() {
            admitted = accepts(turn, (command.argument(at + 1), command.argument(at + 2)));
            if !admitted {
                return Err(WRONG.to_owned());
            }
            at += 3;
        } else if command.is(at, "SETNAME") && at + 1 < command.len() {
            name = Some(checked_name(command.argument(at + 1))?);
            at += 2;
        } else {
            let option = shown(command.argument(at));
            return Err(format!("ERR Syntax error in HELLO option '{option}'"));
        }
    }
    if !admitted {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                    the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the \
                    client and select the RESP protocol version at the same time"
                .to_owned(),
        );
    }
    let session = &mut *turn.session;
    (session.protocol, session.admitted) = (protocol, true);
    if let Some(name) = name {
        session.name = name;
    }
    Ok(())
}

fn introduce(turn: &mut Turn<'_, '_>) {
    let (out, session) = (&mut *turn.out, &*turn.session);
    out.map(session.protocol, 7);
    for (name, value) in [("server", "tidegate"), ("version", REDIS_VERSION)] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    for (name, value) in [
        ("proto", session.protocol.number()),
        ("id", i64::try_from(session.id).unwrap_or(i64::MAX)),
    ] {
        out.bulk(name.as_bytes());
        out.integer(value);
    }
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
}

/// A client's name, as Redis would take it: on one line and without spaces, since it stands in lists.
pub(super) fn checked_name(name: &[u8]) -> Result<Box<[u8]>, String> {
    const BYTES_MAX: usize = 256;
    if name.len() > BYTES_MAX || !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters, \
                    or be longer than 256 bytes"
            .to_owned());
    }
    Ok(name.into())
}
