//! Every command of the guides to the HTTP doors, as a reader would run it.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::openapi::same_shape;
use crate::programs::root;
use crate::proxy_support::{Origin, Proxy};
use crate::support::{Folder, Server};

/// The fenced blocks of a page: what they are, and what they say.
fn blocks(page: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let mut parts = text.split("```");
    let mut blocks = Vec::new();
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        let (kind, body) = block.split_once('\n').unwrap();
        blocks.push((kind.to_owned(), body.to_owned()));
    }
    blocks
}

fn run(server: &Server, commands: &str) -> String {
    let commands = commands.replace("http://127.0.0.1:8080", &server.url());
    let ran = Command::new("bash").args(["-ec", &commands]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{commands}: {said}");
    String::from_utf8(ran.stdout).unwrap()
}

/// The JSON values of a text, one after the other.
fn values(text: &str) -> Vec<Value> {
    let values = serde_json::Deserializer::from_str(text).into_iter();
    values.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_api_answers_as_its_page_says() {
    let server = Server::start();
    let blocks = blocks("http-api.md");
    let mut compared = 0;
    for (index, (kind, commands)) in blocks.iter().enumerate().filter(|(_, it)| it.0 == "sh") {
        assert_eq!(kind, "sh");
        let said = run(&server, commands);
        let next = blocks.get(index + 1);
        // Shortened, broken into lines, or with its headers.
        if let Some((kind, told)) = next
            && kind == "json"
            && !told.contains("\n ")
        {
            let (told, said) = (values(told), values(&said));
            assert_eq!(told.len(), said.len(), "{commands}");
            for (told, said) in told.iter().zip(&said) {
                same_shape(told, said, commands);
                compared += 1;
            }
        }
    }
    assert!(compared >= 15, "only {compared} answers compared");
}

#[test]
fn the_proxy_answers_as_its_page_says() {
    let (folder, origin, blocks) = (Folder::new(), Origin::mirror(), blocks("proxy.md"));
    let of = |kind: &str| -> Vec<&str> {
        blocks.iter().filter(|block| block.0 == kind).map(|block| &*block.1).collect()
    };
    let [line, asked, asked_file] = of("sh")[..] else { panic!("{blocks:?}") };
    let [told, told_file] = of("text")[..] else { panic!("{blocks:?}") };
    let place = |text: &str| text.replace("http://127.0.0.1:3000", &origin.url());
    let run = |proxy: &Proxy, commands: &str| {
        let commands = commands.replace("127.0.0.1:8000", &proxy.server.addr.to_string());
        let commands = commands.replace("127.0.0.1:8080", &proxy.api.to_string());
        let ran = Command::new("bash").args(["-ec", &commands]).output().unwrap();
        String::from_utf8(ran.stdout).unwrap().replace('\r', "")
    };
    let line = place(line).replace("tidegate", env!("CARGO_BIN_EXE_tidegate"));
    let line = format!("exec {} --listen 127.0.0.1:0", line.trim());
    let proxy = Proxy::launched(Command::new("bash").args(["-c", &line]));
    assert_eq!(run(&proxy, asked), told);
    let config = place(of("yaml")[0]);
    let config = config.replace("127.0.0.1:8000", "127.0.0.1:0").replace(":8080", ":0");
    let proxy = Proxy::with_config(&folder, &config);
    assert_eq!(run(&proxy, asked_file), told_file);
}

#[test]
fn forward_auth_answers_as_its_page_says() {
    let blocks = blocks("forward-auth.md");
    let of = |kind: &str| &blocks.iter().find(|block| block.0 == kind).unwrap().1;
    let folder = Folder::new();
    let server = Server::with_config(&folder, of("yaml"));
    assert_eq!(run(&server, of("sh")), *of("text"));
}

/// Every command of a page, with what it prints.
pub(crate) fn prints_as_its_page_says(page: &str, least: usize) {
    let blocks = blocks(page);
    let mut compared = 0;
    for pair in blocks.windows(2).filter(|pair| pair[0].0 == "sh" && pair[1].0 == "text") {
        let command = pair[0].1.replace("\\\n", " ");
        let args = command.trim().strip_prefix("tidegate ").expect(&command).split_whitespace();
        let args: Vec<&str> = args.collect();
        let mut ran = crate::support::tidegate(&args);
        let ran = ran.current_dir(root()).output().unwrap();
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), pair[1].1, "{command}");
        compared += 1;
    }
    assert!(compared >= least, "only {compared} compared");
}
