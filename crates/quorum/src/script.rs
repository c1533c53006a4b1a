//! The scripts, and how they are called.

use std::sync::LazyLock;

use redis::{Cmd, Script, ToRedisArgs, cmd};

/// A constant text, and what `EVALSHA` calls it.
#[derive(Debug)]
pub(crate) struct ScriptText {
    source: &'static str,
    hash: LazyLock<String>,
}

macro_rules! script {
    ($source:expr) => {
        ScriptText { source: $source, hash: LazyLock::new(|| hash_of($source)) }
    };
}

pub(crate) static PREPARE: ScriptText =
    script!(concat!(include_str!("lua/standing.lua"), include_str!("lua/prepare.lua")));
pub(crate) static ACCEPT: ScriptText =
    script!(concat!(include_str!("lua/standing.lua"), include_str!("lua/accept.lua")));
pub(crate) static FORM: ScriptText = script!(include_str!("lua/form.lua"));

fn hash_of(source: &str) -> String {
    Script::new(source).get_hash().to_owned()
}

/// A call of a script on some keys.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static ScriptText,
    pub(crate) keys: Vec<String>,
    pub(crate) args: Vec<Vec<u8>>,
}

impl Call {
    /// If the server has the script.
    pub(crate) fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", self.script.hash.as_str())
    }

    /// If it has not.
    pub(crate) fn by_source(&self) -> Cmd {
        self.command("EVAL", self.script.source)
    }

    fn command(&self, name: &str, script: impl ToRedisArgs) -> Cmd {
        let mut command = cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys);
        for arg in &self.args {
            command.arg(arg.as_slice());
        }
        command
    }
}
