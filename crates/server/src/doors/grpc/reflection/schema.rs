//! The schema of the services as a table: messages, fields, numbers and types.

pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    /// Imported files.
    pub(super) imports: &'static [&'static str],
    pub(super) messages: &'static [Message],
    pub(super) enums: &'static [EnumType],
    pub(super) services: &'static [Service],
}

pub(super) struct Message {
    pub(super) name: &'static str,
    /// Number, name and type. Prefixes of the type: `.` message, `#` enum, `*` repeated.
    pub(super) fields: &'static [(i32, &'static str, &'static str)],
    pub(super) messages: &'static [Message],
    pub(super) enums: &'static [EnumType],
}

pub(super) struct EnumType {
    pub(super) name: &'static str,
    pub(super) values: &'static [(i32, &'static str)],
}

pub(super) struct Service {
    pub(super) name: &'static str,
    /// Name, request and response; `*` marks a stream.
    pub(super) methods: &'static [(&'static str, &'static str, &'static str)],
}

const DURATION: &str = "google/protobuf/duration.proto";
const WRAPPERS: &str = "google/protobuf/wrappers.proto";
const BASE: &str = "envoy/config/core/v3/base.proto";
const UNIT: &str = "envoy/type/v3/ratelimit_unit.proto";
const COMMON: &str = "envoy/extensions/common/ratelimit/v3/ratelimit.proto";

/// Ordered so that a file comes after its imports.
pub(super) const FILES: &[File] = &[
    File {
        name: DURATION,
        package: "google.protobuf",
        imports: &[],
        messages: &[plain("Duration", &[(1, "seconds", "int64"), (2, "nanos", "int32")])],
        enums: &[],
        services: &[],
    },
    File {
        name: WRAPPERS,
        package: "google.protobuf",
        imports: &[],
        messages: &[
            plain("DoubleValue", &[(1, "value", "double")]),
            plain("FloatValue", &[(1, "value", "float")]),
            plain("Int64Value", &[(1, "value", "int64")]),
            plain("UInt64Value", &[(1, "value", "uint64")]),
            plain("Int32Value", &[(1, "value", "int32")]),
            plain("UInt32Value", &[(1, "value", "uint32")]),
            plain("BoolValue", &[(1, "value", "bool")]),
            plain("StringValue", &[(1, "value", "string")]),
            plain("BytesValue", &[(1, "value", "bytes")]),
        ],
        enums: &[],
        services: &[],
    },
    File {
        name: BASE,
        package: "envoy.config.core.v3",
        imports: &[],
        messages: &[plain(
            "HeaderValue",
            &[(1, "key", "string"), (2, "value", "string"), (3, "raw_value", "bytes")],
        )],
        enums: &[],
        services: &[],
    },
    File {
        name: UNIT,
        package: "envoy.type.v3",
        imports: &[],
        messages: &[],
        enums: &[EnumType { name: "RateLimitUnit", values: UNITS }],
        services: &[],
    },
    File {
        name: COMMON,
        package: "envoy.extensions.common.ratelimit.v3",
        imports: &[UNIT, WRAPPERS],
        messages: &[Message {
            name: "RateLimitDescriptor",
            fields: &[
                (1, "entries", "*.envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry"),
                (
                    2,
                    "limit",
                    ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride",
                ),
                (3, "hits_addend", ".google.protobuf.UInt64Value"),
                (4, "is_negative_hits", "bool"),
            ],
            messages: &[
                plain("Entry", &[(1, "key", "string"), (2, "value", "string")]),
                plain(
                    "RateLimitOverride",
                    &[
                        (1, "requests_per_unit", "uint32"),
                        (2, "unit", "#.envoy.type.v3.RateLimitUnit"),
                    ],
                ),
            ],
            enums: &[],
        }],
        enums: &[],
        services: &[],
    },
    File {
        name: "envoy/service/ratelimit/v3/rls.proto",
        package: "envoy.service.ratelimit.v3",
        imports: &[BASE, COMMON, DURATION],
        messages: &[REQUEST, RESPONSE],
        enums: &[],
        services: &[Service {
            name: "RateLimitService",
            methods: &[(
                "ShouldRateLimit",
                ".envoy.service.ratelimit.v3.RateLimitRequest",
                ".envoy.service.ratelimit.v3.RateLimitResponse",
            )],
        }],
    },
    File {
        name: "grpc/health/v1/health.proto",
        package: "grpc.health.v1",
        imports: &[],
        messages: &[
            plain("HealthCheckRequest", &[(1, "service", "string")]),
            Message {
                name: "HealthCheckResponse",
                fields: &[(1, "status", "#.grpc.health.v1.HealthCheckResponse.ServingStatus")],
                messages: &[],
                enums: &[EnumType {
                    name: "ServingStatus",
                    values: &[
                        (0, "UNKNOWN"),
                        (1, "SERVING"),
                        (2, "NOT_SERVING"),
                        (3, "SERVICE_UNKNOWN"),
                    ],
                }],
            },
        ],
        enums: &[],
        services: &[Service {
            name: "Health",
            methods: &[
                (
                    "Check",
                    ".grpc.health.v1.HealthCheckRequest",
                    ".grpc.health.v1.HealthCheckResponse",
                ),
                (
                    "Watch",
                    ".grpc.health.v1.HealthCheckRequest",
                    "*.grpc.health.v1.HealthCheckResponse",
                ),
            ],
        }],
    },
];

const REQUEST: Message = plain(
    "RateLimitRequest",
    &[
        (1, "domain", "string"),
        (2, "descriptors", "*.envoy.extensions.common.ratelimit.v3.RateLimitDescriptor"),
        (3, "hits_addend", "uint32"),
    ],
);

const RESPONSE: Message = Message {
    name: "RateLimitResponse",
    fields: &[
        (1, "overall_code", "#.envoy.service.ratelimit.v3.RateLimitResponse.Code"),
        (2, "statuses", "*.envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus"),
        (3, "response_headers_to_add", "*.envoy.config.core.v3.HeaderValue"),
        (4, "request_headers_to_add", "*.envoy.config.core.v3.HeaderValue"),
        (5, "raw_body", "bytes"),
    ],
    messages: &[
        Message {
            name: "RateLimit",
            fields: &[
                (3, "name", "string"),
                (1, "requests_per_unit", "uint32"),
                (2, "unit", "#.envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit"),
            ],
            messages: &[],
            enums: &[EnumType { name: "Unit", values: UNITS }],
        },
        plain(
            "DescriptorStatus",
            &[
                (1, "code", "#.envoy.service.ratelimit.v3.RateLimitResponse.Code"),
                (2, "current_limit", ".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit"),
                (3, "limit_remaining", "uint32"),
                (4, "duration_until_reset", ".google.protobuf.Duration"),
            ],
        ),
    ],
    enums: &[EnumType { name: "Code", values: &[(0, "UNKNOWN"), (1, "OK"), (2, "OVER_LIMIT")] }],
};

const UNITS: &[(i32, &str)] = &[
    (0, "UNKNOWN"),
    (1, "SECOND"),
    (2, "MINUTE"),
    (3, "HOUR"),
    (4, "DAY"),
    (5, "MONTH"),
    (6, "YEAR"),
    (7, "WEEK"),
];

/// A message without nested messages or enums.
const fn plain(
    name: &'static str,
    fields: &'static [(i32, &'static str, &'static str)],
) -> Message {
    Message { name, fields, messages: &[], enums: &[] }
}
