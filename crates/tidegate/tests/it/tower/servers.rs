//! Real servers on loopback.

use tidegate::Limiter;
use tidegate::tower::{ClientIp, RateLimitLayer};
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tonic::transport::{Channel, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[cfg(feature = "axum")]
mod over_http {
    use super::*;
    use axum::{Router, routing::get};
    use std::io::Write;
    use std::net::{SocketAddr, TcpStream};

    fn hello() -> Router {
        let client_ip = ClientIp::new().trust("127.0.0.0/8").unwrap();
        let limiter = Limiter::new("1/h").unwrap();
        let limit = RateLimitLayer::new(limiter).name("api").client_ip(client_ip);
        Router::new().route("/", get(|| async { "hello" })).layer(limit)
    }

    /// The whole answer, as it came over the wire.
    async fn fetch(address: &str, headers: &str) -> String {
        let request = format!("GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n{headers}\r\n");
        let address = address.to_owned();
        let exchange = move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            std::io::read_to_string(stream).unwrap()
        };
        tokio::task::spawn_blocking(exchange).await.unwrap()
    }

    #[tokio::test]
    async fn axum_limits_each_client_over_tcp() {
        let (listener, address) = listen().await;
        let app = hello().into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async { axum::serve(listener, app).await });
        for (headers, status) in [
            ("", "200 OK"),
            ("", "429 Too Many Requests"),
            ("x-forwarded-for: 203.0.113.7\r\n", "200 OK"),
            ("x-forwarded-for: 1.1.1.1, 203.0.113.7\r\n", "429 Too Many Requests"),
            (
                "x-forwarded-for: 1.1.1.2\r\nx-forwarded-for: 203.0.113.7\r\n",
                "429 Too Many Requests",
            ),
        ] {
            let answer = fetch(&address, headers).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{headers}{answer}");
            assert!(answer.contains("\r\nratelimit: \"api\";r=0;t=3600\r\n"), "{answer}");
            assert_eq!(answer.contains("\r\nretry-after: "), status.starts_with("429"));
        }
    }

    #[tokio::test]
    async fn axum_without_connect_info_names_the_fix() {
        let (listener, address) = listen().await;
        tokio::spawn(async { axum::serve(listener, hello()).await });
        let answer = fetch(&address, "").await;
        assert!(answer.starts_with("HTTP/1.1 500 Internal Server Error\r\n"), "{answer}");
        assert!(answer.contains("into_make_service_with_connect_info::<SocketAddr>()"), "{answer}");
    }

    #[tokio::test]
    async fn axums_mock_of_the_peer_is_enough_for_tests() {
        use axum::extract::connect_info::MockConnectInfo;
        use tower::ServiceExt;
        let app = hello().layer(MockConnectInfo(SocketAddr::from(([203, 0, 113, 7], 80))));
        let request = http::Request::new(axum::body::Body::empty());
        assert_eq!(app.oneshot(request).await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn tonic_refuses_with_resource_exhausted_over_tcp() {
    let client_ip = ClientIp::new()
        .peer(|extensions| extensions.get::<TcpConnectInfo>()?.remote_addr().map(|peer| peer.ip()));
    let limit = RateLimitLayer::new(Limiter::new("1/h").unwrap()).client_ip(client_ip);
    let (listener, address) = listen().await;
    let (_, service) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(limit).add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let mut client = HealthClient::new(channel.connect().await.unwrap());
    let admitted = client.check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(admitted.metadata().get("ratelimit").unwrap(), r#""default";r=0;t=3600"#);
    let refused = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::ResourceExhausted, "rate limit exceeded")
    );
    assert!(refused.metadata().contains_key("retry-after"));
}
