//! `CLIENT`: what libraries tell of themselves when they connect.

use super::command::{Next, Turn};
use super::greeting::checked_name;
use super::out::shown;
use crate::listen::Peer;

pub(super) fn run(turn: &mut Turn<'_, '_>) -> Next {
    let command = turn.command;
    let is = |word: &str, len: usize| command.is(1, word) && command.len() == len;
    if is("SETNAME", 3) {
        match checked_name(command.argument(2)) {
            Ok(name) => {
                turn.session.name = name;
                turn.out.simple("OK");
            }
            Err(problem) => turn.out.error(&problem),
        }
    } else if is("GETNAME", 2) {
        match &*turn.session.name {
            b"" => turn.out.null(turn.session.protocol),
            name => turn.out.bulk(name),
        }
    } else if is("ID", 2) {
        turn.out.integer(i64::try_from(turn.session.id).unwrap_or(i64::MAX));
    } else if is("INFO", 2) || is("LIST", 2) {
        // Of others nobody is told.
        let line = described(turn);
        turn.out.bulk(line.as_bytes());
    } else if is("SETINFO", 4) || is("NO-EVICT", 3) || is("NO-TOUCH", 3) {
        turn.out.simple("OK"); // nothing depends on it
    } else {
        let what = shown(command.argument(1));
        turn.out.error(&format!(
            "ERR unknown subcommand or wrong number of arguments for 'client|{what}'"
        ));
    }
    Next::GoOn
}

fn described(turn: &Turn<'_, '_>) -> String {
    let session = &*turn.session;
    let addr = match session.peer {
        Peer::Ip(ip) => ip.to_string(),
        Peer::Unix => "unix".to_owned(),
    };
    let (id, name, resp) = (session.id, shown(&session.name), session.protocol.number());
    format!("id={id} addr={addr} name={name} db=0 resp={resp}\n")
}
