//! The table as protobuf describes itself.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto,
};

use super::schema::{Choice, FILES, File, Message, Service};

pub(super) fn files() -> FileDescriptorSet {
    FileDescriptorSet { file: FILES.iter().map(file).collect() }
}

fn file(file: &File) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some(file.name.to_owned()),
        package: Some(file.package.to_owned()),
        dependency: file.needs.iter().map(|name| (*name).to_owned()).collect(),
        message_type: file.messages.iter().map(message).collect(),
        enum_type: file.choices.iter().map(choice).collect(),
        service: file.services.iter().map(service).collect(),
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}

fn message(message: &Message) -> DescriptorProto {
    let fields = message.fields.iter().map(|(number, name, kind)| field(*number, name, kind));
    DescriptorProto {
        name: Some(message.name.to_owned()),
        field: fields.collect(),
        nested_type: message.messages.iter().map(self::message).collect(),
        enum_type: message.choices.iter().map(choice).collect(),
        ..DescriptorProto::default()
    }
}

fn field(number: i32, name: &str, kind: &str) -> FieldDescriptorProto {
    let (label, kind) = match kind.strip_prefix('*') {
        Some(kind) => (Label::Repeated, kind),
        None => (Label::Optional, kind),
    };
    let (r#type, type_name) = match (kind.strip_prefix('#'), kind.starts_with('.')) {
        (Some(name), _) => (Type::Enum, Some(name.to_owned())),
        (None, true) => (Type::Message, Some(kind.to_owned())),
        (None, false) => (scalar(kind), None),
    };
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(r#type.into()),
        type_name,
        json_name: Some(json_name(name)),
        ..FieldDescriptorProto::default()
    }
}

fn scalar(name: &str) -> Type {
    match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "float" => Type::Float,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "uint32" => Type::Uint32,
        "uint64" => Type::Uint64,
        _ => Type::String,
    }
}

fn choice(choice: &Choice) -> EnumDescriptorProto {
    let value = |(number, name): &(i32, &str)| EnumValueDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(*number),
        options: None,
    };
    EnumDescriptorProto {
        name: Some(choice.name.to_owned()),
        value: choice.values.iter().map(value).collect(),
        ..EnumDescriptorProto::default()
    }
}

fn service(service: &Service) -> ServiceDescriptorProto {
    let method = |(name, request, answer): &(&str, &str, &str)| MethodDescriptorProto {
        name: Some((*name).to_owned()),
        input_type: Some((*request).to_owned()),
        output_type: Some(answer.trim_start_matches('*').to_owned()),
        server_streaming: Some(answer.starts_with('*')),
        ..MethodDescriptorProto::default()
    };
    ServiceDescriptorProto {
        name: Some(service.name.to_owned()),
        method: service.methods.iter().map(method).collect(),
        options: None,
    }
}

/// `hits_addend` is `hitsAddend` in JSON.
fn json_name(name: &str) -> String {
    let mut words = name.split('_');
    let mut json = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        json.push_str(&first.to_ascii_uppercase());
        json.push_str(rest);
    }
    json
}
