//! Shell completions and the manual.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::run;

#[test]
fn completions_of_every_shell_contain_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["simulate", "sync-lag", "replay", "doctor", "--peak-rps"] {
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(output.stdout.contains(word), "{word} in {shell}");
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
    let output = bash.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8(output).unwrap().trim(), "simulate");
}

#[test]
fn the_manual_has_a_section_for_every_command() {
    let output = run(&["man"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout.contains(".TH tidegate 1"), "{}", &output.stdout[..300]);
    for part in ["TIDEGATE SERVE", "TIDEGATE SIMULATE SYNC-LAG", "TIDEGATE REPLAY", "TIDEGATE COST"]
    {
        assert!(output.stdout.contains(&format!(".SH \"{part}\"")), "{part}");
    }
}
