//! A few scripted answers over HTTP, for what no imitation does: throttling.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Like `PutItem`.
    pub(crate) operation: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A status and a body.
pub(crate) type Answer = (u16, String);

/// The connection ends instead.
pub(crate) const NO_ANSWER: Answer = (0, String::new());

/// Answers by the script until the test ends. Keeps what it was asked.
pub(crate) struct Scripted {
    pub(crate) address: String,
    pub(crate) requests: Arc<Mutex<Vec<Request>>>,
}

impl Scripted {
    pub(crate) async fn start(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (script, log) = (Arc::new(script), requests.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, log) = (script.clone(), log.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(request) = read(&mut stream).await {
                        let (status, body) = script(&request);
                        log.lock().unwrap().push(request);
                        if (status, body.as_str()) == (NO_ANSWER.0, "") {
                            return;
                        }
                        let head = format!(
                            "HTTP/1.1 {status} x\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
                            body.len()
                        );
                        if stream.write_all((head + &body).as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, requests }
    }

    pub(crate) fn count(&self, operation: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|request| request.operation == operation).count()
    }
}

/// An error of DynamoDB.
pub(crate) fn error(code: &str) -> Answer {
    let body = format!(
        r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"as the script says"}}"#
    );
    (400, body)
}

/// The next request of a connection; `None` at its end.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let (mut line, mut headers) = (String::new(), Vec::new());
    stream.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let mut request = Request { operation: String::new(), headers, body: String::new() };
    let length = request.header("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    request.operation = request.header("x-amz-target")?.split_once('.')?.1.to_owned();
    request.body = String::from_utf8(body).ok()?;
    Some(request)
}
