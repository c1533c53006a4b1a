//! The floors: minimal doors that parse a request and always give the same answer, or decide with the simplest limiter.

mod arrivals;
mod grpc;
mod http;
mod resp;

use tokio::net::TcpListener;

pub(crate) fn run(wire: &str, port: u16) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
        match wire {
            "resp" => resp::serve(listener, resp::in_place).await,
            "resp-library" => resp::serve(listener, resp::by_library).await,
            "http" => http::serve(listener).await,
            "grpc" => grpc::serve(listener).await,
            other => panic!("there is no floor {other}"),
        }
    });
}
