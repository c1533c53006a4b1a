//! The doors that can be measured.

/// The protocol to speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Door {
    /// `POST /v1/check` over HTTP/1.1, on connections that are kept
    Http,
    /// Envoy's `ShouldRateLimit`
    Grpc,
    /// TG.CHECK of the Redis protocol, or CL.THROTTLE with --limit
    Resp,
    /// HTTP over a Unix socket
    Unix,
    /// GET through the reverse proxy; without --server beside its upstream, which is asked directly in turns
    Proxy,
    /// GET /v1/auth, as nginx and other proxies ask
    Auth,
    /// No server: the library in this process, with its store in memory
    Embedded,
}

impl Door {
    /// An example of its URLs.
    pub(super) const fn example(self) -> &'static str {
        match self {
            Self::Http | Self::Auth => {
                "a URL like http://127.0.0.1:8080, https://localhost:8443 or unix:/run/tidegate/http.sock"
            }
            Self::Proxy => {
                "a URL like http://127.0.0.1:8000, https://localhost:8443 or unix:/run/tidegate/proxy.sock"
            }
            Self::Grpc => {
                "an address like 127.0.0.1:8081, https://localhost:8081 or unix:/run/tidegate/grpc.sock"
            }
            Self::Resp => {
                "a URL like redis://127.0.0.1:6380, rediss://localhost:6380 or unix:/run/tidegate/resp.sock"
            }
            Self::Unix => "a path like unix:/run/tidegate/http.sock",
            Self::Embedded => "no URL",
        }
    }

    /// Whether requests go by the routes of the server, with the key in a header.
    pub(super) const fn goes_by_routes(self) -> bool {
        matches!(self, Self::Proxy | Self::Auth)
    }

    /// A hint for when no server answers.
    pub(super) const fn hint(self) -> &'static str {
        match self {
            Self::Http | Self::Auth => {
                "is the server running, and is this its HTTP address? `tidegate serve` starts one"
            }
            Self::Proxy => {
                "is the server running, and is its proxy door open there? `tidegate proxy --upstream URL` opens one"
            }
            Self::Grpc => {
                "is the server running, and is its gRPC door open there? \
                 `tidegate serve --grpc 127.0.0.1:8081` opens one"
            }
            Self::Resp => {
                "is the server running, and does it speak the Redis protocol there? \
                 `tidegate serve --resp 127.0.0.1:6380` does"
            }
            Self::Unix | Self::Embedded => {
                "is the server running? `tidegate serve --listen unix:PATH` opens such a socket"
            }
        }
    }
}
