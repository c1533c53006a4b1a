//! Connection setup: authentication, protocol version, client name, `PING` and `QUIT`.

use std::fmt;
use std::path::Path;

use subtle::ConstantTimeEq;

use super::command::CommandContext;
use super::frame::Command;
use super::pipeline::StopReason;
use super::reply::escaped;
use super::session::{Protocol, Session};
use tidegate_config::short_password;

/// The Redis version reported to clients: libraries choose their commands by it.
pub(super) const REDIS_VERSION: &str = "7.0.0";

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(super) fn ping(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    match command.len() {
        1 => context.out.simple("PONG"),
        _ => context.out.bulk(command.argument(1)),
    }
}

pub(super) fn echo(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    context.out.bulk(command.argument(1));
}

/// There is one database, 0.
pub(super) fn select(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    match command.argument(1) {
        b"0" => context.out.simple("OK"),
        _ => context.out.error("ERR DB index is out of range: there is only 0"),
    }
}

pub(super) fn quit(context: &mut CommandContext<'_, '_>, _: Command<'_>) {
    context.out.simple("OK");
    context.stop = Some(StopReason::Close);
}

/// Resets the session to the state of a new connection.
pub(super) fn reset(context: &mut CommandContext<'_, '_>, _: Command<'_>) {
    let Session { id, peer, wrong_passwords, .. } = *context.session;
    let authenticated = context.door.password.is_none();
    *context.session = Session { wrong_passwords, ..Session::new(id, peer, authenticated) };
    context.out.simple("RESET");
}

pub(super) fn auth(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    let given = match command.len() {
        2 if context.door.password.is_none() => {
            context.out.error("ERR AUTH <password> called without any password configured");
            return;
        }
        2 => (&b"default"[..], command.argument(1)),
        _ => (command.argument(1), command.argument(2)),
    };
    if !has_turn(context) {
        return;
    }
    if accepts(context, given) {
        (context.session.authenticated, context.session.turn) = (true, None);
        context.out.simple("OK");
    } else {
        context.out.error(WRONG_PASSWORD);
        context.stop = Some(StopReason::WrongPassword);
    }
}

/// Whether a password may be compared now. If not, the command is answered again when its turn has come.
fn has_turn(context: &mut CommandContext<'_, '_>) -> bool {
    let CommandContext { door, session, .. } = context;
    if door.password.is_some() && session.turn.is_none() {
        session.turn = door.guesses.turn_now(door.guesser(session.peer));
        if session.turn.is_none() {
            context.stop = Some(StopReason::AwaitTurn);
            return false;
        }
    }
    true
}

/// Whether user and password are right. The only user is `default`, as in Redis; without a configured password any
/// password is accepted.
fn accepts(context: &CommandContext<'_, '_>, (user, given): (&[u8], &[u8])) -> bool {
    let right = context.door.password.as_ref().is_none_or(|password| password.is(given));
    right && user == b"default"
}

pub(super) fn hello(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    let has_password = (2..command.len()).any(|at| command.is(at, "AUTH"));
    if has_password && !has_turn(context) {
        return;
    }
    match negotiate(context, command) {
        Err(problem) if problem == WRONG_PASSWORD => {
            context.out.error(&problem);
            context.stop = Some(StopReason::WrongPassword);
            return;
        }
        Ok(()) => write_hello(context),
        Err(problem) => context.out.error(&problem),
    }
    context.session.turn = None;
}

/// Applies the options of `HELLO`. An error changes nothing.
fn negotiate(context: &mut CommandContext<'_, '_>, command: Command<'_>) -> Result<(), String> {
    let protocol = match (command.len(), command.argument(1)) {
        (1, _) => context.session.protocol,
        (_, b"2") => Protocol::Resp2,
        (_, b"3") => Protocol::Resp3,
        _ => return Err("NOPROTO unsupported protocol version".to_owned()),
    };
    let (mut at, mut name, mut authenticated) = (2, None, context.session.authenticated);
    while at < command.len() {
        if command.is(at, "AUTH") && at + 2 < command.len() {
            authenticated = accepts(context, (command.argument(at + 1), command.argument(at + 2)));
            if !authenticated {
                return Err(WRONG_PASSWORD.to_owned());
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
    if !authenticated {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                    the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the \
                    client and select the RESP protocol version at the same time"
                .to_owned(),
        );
    }
    let session = &mut *context.session;
    (session.protocol, session.authenticated) = (protocol, true);
    if let Some(name) = name {
        session.name = name;
    }
    Ok(())
}

fn write_hello(context: &mut CommandContext<'_, '_>) {
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

/// Checks a client name as Redis does: printable and without spaces, because names appear in client lists.
pub(super) fn checked_name(name: &[u8]) -> Result<Box<[u8]>, String> {
    const BYTES_MAX: usize = 256;
    if name.len() > BYTES_MAX || !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters, \
                    or be longer than 256 bytes"
            .to_owned());
    }
    Ok(name.into())
}

/// `CLIENT`: the subcommands that libraries send when they connect.
pub(super) fn client(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
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
        // A client sees only itself.
        let line = client_info(context);
        context.out.bulk(line.as_bytes());
    } else if is("SETINFO", 4) || is("NO-EVICT", 3) || is("NO-TOUCH", 3) {
        context.out.simple("OK"); // accepted, without effect
    } else {
        let what = escaped(command.argument(1));
        context.out.error(&format!(
            "ERR unknown subcommand or wrong number of arguments for 'client|{what}'"
        ));
    }
}

fn client_info(context: &CommandContext<'_, '_>) -> String {
    let session = &*context.session;
    let addr = session.peer;
    let (id, name, resp) = (session.id, escaped(&session.name), session.protocol.number());
    format!("id={id} addr={addr} name={name} db=0 resp={resp}\n")
}

/// The password of the door. `Debug` does not print it.
#[derive(Clone)]
pub(crate) struct Password(Box<[u8]>);

impl Password {
    pub(crate) fn new(password: &str) -> Self {
        Self(password.as_bytes().into())
    }

    /// Reads the first line of a file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path)
            .map_err(|error| format!("cannot read the password in {}: {error}", path.display()))?;
        let line = text.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        if line.is_empty() {
            return Err(format!("{} has no password on its first line", path.display()));
        }
        Ok(Self(line.into()))
    }

    /// What is weak about it.
    pub(super) fn warning(&self) -> Option<String> {
        short_password(self.0.len())
    }

    /// Compares in constant time for a given length.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}
