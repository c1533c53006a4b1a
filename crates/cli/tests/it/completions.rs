//! What shells and the manual know of the command line.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::run;

#[test]
fn every_shell_knows_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = run(&["completions", shell]);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["simulate", "sync-lag", "replay", "doctor", "--peak-rps"] {
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(said.stdout.contains(word), "{word} in {shell}");
        }
    }
    assert_eq!(run(&["completions", "cobol"]).code, Some(64));
}

#[test]
fn bash_completes_a_command() {
    let script = run(&["completions", "bash"]).stdout;
    let asks = "\nCOMP_WORDS=(tidegate simul); COMP_CWORD=1; _tidegate tidegate simul tidegate; echo \"${COMPREPLY[@]}\"\n";
    let mut bash = Command::new("bash");
    let mut bash = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all((script + asks).as_bytes()).unwrap();
    let said = bash.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8(said).unwrap().trim(), "simulate");
}

#[test]
fn the_manual_has_a_part_for_every_command() {
    let said = run(&["man"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    assert!(said.stdout.contains(".TH tidegate 1"), "{}", &said.stdout[..300]);
    for part in ["TIDEGATE SERVE", "TIDEGATE SIMULATE SYNC-LAG", "TIDEGATE REPLAY", "TIDEGATE COST"]
    {
        assert!(said.stdout.contains(&format!(".SH \"{part}\"")), "{part}");
    }
}
