//! What clients say before they ask: who they are, which protocol they read, that they leave.

use super::command::{CommandContext, Next};
use super::out::escaped;
use super::session::{Protocol, Session};
use tidegate_request::Peer;

/// Of the Redis whose commands these are: clients take it for what they may say.
pub(super) const REDIS_VERSION: &str = "7.0.0";

const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(super) fn ping(context: &mut CommandContext<'_, '_>) -> Next {
    match context.command.len() {
        1 => context.out.simple("PONG"),
        _ => context.out.bulk(context.command.argument(1)),
    }
    Next::GoOn
}

pub(super) fn echo(context: &mut CommandContext<'_, '_>) -> Next {
    context.out.bulk(context.command.argument(1));
    Next::GoOn
}

/// There is one database.
pub(super) fn select(context: &mut CommandContext<'_, '_>) -> Next {
    match context.command.argument(1) {
        b"0" => context.out.simple("OK"),
        _ => context.out.error("ERR DB index is out of range: there is only 0"),
    }
    Next::GoOn
}

pub(super) fn quit(context: &mut CommandContext<'_, '_>) -> Next {
    context.out.simple("OK");
    Next::Close
}

/// As if just connected.
pub(super) fn reset(context: &mut CommandContext<'_, '_>) -> Next {
    let Session { id, peer, .. } = *context.session;
    *context.session = Session::new(id, peer, context.door.password.is_none());
    context.out.simple("RESET");
    Next::GoOn
}

pub(super) fn auth(context: &mut CommandContext<'_, '_>) -> Next {
    let given = match context.command.len() {
        2 if context.door.password.is_none() => {
            context.out.error("ERR AUTH <password> called without any password configured");
            return Next::GoOn;
        }
        2 => (&b"default"[..], context.command.argument(1)),
        _ => (context.command.argument(1), context.command.argument(2)),
    };
    if accepts(context, given) {
        context.session.admitted = true;
        context.out.simple("OK");
    } else {
        context.out.error(WRONG);
    }
    Next::GoOn
}

/// Whether a user and a password are right. The one user is called as in Redis; without a password, any is.
fn accepts(context: &CommandContext<'_, '_>, (user, given): (&[u8], &[u8])) -> bool {
    let right = context.door.password.as_ref().is_none_or(|password| password.is(given));
    right && user == b"default"
}

pub(super) fn hello(context: &mut CommandContext<'_, '_>) -> Next {
    match agree(context) {
        Ok(()) => introduce(context),
        Err(problem) => context.out.error(&problem),
    }
    Next::GoOn
}

/// Takes what a client wants to be spoken to in, and to be called. Nothing is changed unless all of it makes sense.
fn agree(context: &mut CommandContext<'_, '_>) -> Result<(), String> {
    let command = context.command;
    let protocol = match (command.len(), command.argument(1)) {
        (1, _) => context.session.protocol,
        (_, b"2") => Protocol::Two,
        (_, b"3") => Protocol::Three,
        _ => return Err("NOPROTO unsupported protocol version".to_owned()),
    };
    let (mut at, mut name, mut admitted) = (2, None, context.session.admitted);
    while at < command.len() {
        if command.is(at, "AUTH") && at + 2 < command.len() {
            admitted = accepts(context, (command.argument(at + 1), command.argument(at + 2)));
            if !admitted {
                return Err(WRONG.to_owned());
            }
            at += 3;
        } else if command.is(at, "SETNAME") && at + 1 < command.len() {
            name = Some(checked_name(command.argument(at + 1))?);
            at += 2;
        } else {
            let option = escaped(command.argument(at));
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
    let session = &mut *context.session;
    (session.protocol, session.admitted) = (protocol, true);
    if let Some(name) = name {
        session.name = name;
    }
    Ok(())
}

fn introduce(context: &mut CommandContext<'_, '_>) {
    let (out, session) = (&mut *context.out, &*context.session);
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

/// `CLIENT`: names and options that libraries send when they connect.
pub(super) fn client(context: &mut CommandContext<'_, '_>) -> Next {
    let command = context.command;
    let is = |word: &str, len: usize| command.is(1, word) && command.len() == len;
    if is("SETNAME", 3) {
        match checked_name(command.argument(2)) {
            Ok(name) => {
                context.session.name = name;
                context.out.simple("OK");
            }
            Err(problem) => context.out.error(&problem),
        }
    } else if is("GETNAME", 2) {
        match &*context.session.name {
            b"" => context.out.null(context.session.protocol),
            name => context.out.bulk(name),
        }
    } else if is("ID", 2) {
        context.out.integer(i64::try_from(context.session.id).unwrap_or(i64::MAX));
    } else if is("INFO", 2) || is("LIST", 2) {
        // Of others nobody is told.
        let line = described(context);
        context.out.bulk(line.as_bytes());
    } else if is("SETINFO", 4) || is("NO-EVICT", 3) || is("NO-TOUCH", 3) {
        context.out.simple("OK"); // nothing depends on it
    } else {
        let what = escaped(command.argument(1));
        context.out.error(&format!(
            "ERR unknown subcommand or wrong number of arguments for 'client|{what}'"
        ));
    }
    Next::GoOn
}

fn described(context: &CommandContext<'_, '_>) -> String {
    let session = &*context.session;
    let addr = match session.peer {
        Peer::Ip(ip) => ip.to_string(),
        Peer::Unix => "unix".to_owned(),
    };
    let (id, name, resp) = (session.id, escaped(&session.name), session.protocol.number());
    format!("id={id} addr={addr} name={name} db=0 resp={resp}\n")
}
