//! The site: a minimal HTTP/1.1 server that answers with as many bytes as the path names.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub fn run(port: u16) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        serve(TcpListener::bind(("127.0.0.1", port)).await.expect("the port")).await;
    });
}

pub async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) {
    let (mut bytes, mut filled) = (vec![0; 8 << 10], 0);
    let mut answers: Vec<(usize, Vec<u8>)> = Vec::new();
    loop {
        match stream.read(&mut bytes[filled..]).await {
            Ok(count) if count > 0 => filled += count,
            _ => return,
        }
        if !bytes[..filled].ends_with(b"\r\n\r\n") {
            continue;
        }
        let head = std::str::from_utf8(&bytes[..filled]).expect("text");
        let size = head.split(['/', ' ']).nth(2).expect("a path").parse().expect("a size");
        filled = 0;
        let known = answers.iter().position(|(known, _)| *known == size);
        let index = known.unwrap_or_else(|| {
            let body = "x".repeat(size);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\n\r\n"
            );
            answers.push((size, format!("{head}{body}").into_bytes()));
            answers.len() - 1
        });
        if stream.write_all(&answers[index].1).await.is_err() {
            return;
        }
    }
}
