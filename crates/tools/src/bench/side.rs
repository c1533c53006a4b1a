//! One of those that are measured: who it is, and lines to it.

use std::sync::Arc;
use std::time::Duration;

use tidegate::Engine;

use super::door::{DoorKind, Line, Trouble, embedded, grpc, http, resp};
use super::load::in_time;
use super::own::{Own, POLICY, Serves};
use super::plan::Plan;
use super::target::{Place, Target};
use crate::Failure;
use tidegate_config::Config;
use tidegate_config::demo;

#[derive(Debug)]
pub(super) struct Side {
    pub(super) name: String,
    way: Way,
    /// The server that was started for it.
    own: Option<Own>,
}

#[derive(Debug)]
enum Way {
    Http(Arc<http::Form>),
    Grpc(Arc<grpc::Form>),
    Resp(Arc<resp::Form>),
    Embedded(embedded::Line),
}

impl Side {
    /// The server that is asked for, or one of our own.
    pub(super) async fn first(plan: &Plan) -> Result<Self, Failure> {
        if plan.door == DoorKind::Embedded {
            let way = Way::Embedded(embedded(plan)?);
            return Ok(Self { name: "embedded".to_owned(), way, own: None });
        }
        if let Some(place) = &plan.server {
            return Self::at(plan, place).await;
        }
        let own = Own::start(plan.door, &plan.serves).await?;
        let place = Place::read(&own.url, plan.door).map_err(Failure::new)?;
        let side = Self::at(plan, &place).await?;
        Ok(Self { name: "tidegate, started for this".to_owned(), own: Some(own), ..side })
    }

    /// A server that runs already, once it was asked and spent nothing.
    pub(super) async fn at(plan: &Plan, place: &Place) -> Result<Self, Failure> {
        let target = Target::find(place, plan.door, plan.may_be_remote).await?;
        let (question, key) = (&plan.question, plan.keys.at(0));
        let way = match plan.door {
            DoorKind::Http | DoorKind::Unix => {
                let form = in_time(http::Form::find(&target, question, key)).await;
                form.map(|form| Way::Http(form.into()))
            }
            DoorKind::Grpc => {
                let form = in_time(grpc::Form::find(&target, question, key)).await;
                form.map(|form| Way::Grpc(form.into()))
            }
            DoorKind::Resp => {
                let form = in_time(resp::Form::find(&target, question, key)).await;
                form.map(|form| Way::Resp(form.into()))
            }
            DoorKind::Embedded => return Err(Failure::usage("embedded has no URL")),
        };
        let way = way.map_err(|trouble| unfit(&target, plan.door, &trouble))?;
        Ok(Self { name: target.name, way, own: None })
    }

    /// All lines, connected.
    pub(super) async fn lines(&self, plan: &Plan) -> Result<Vec<Line>, Failure> {
        let mut lines = Vec::new();
        for _ in 0..plan.connections {
            let connected = match &self.way {
                Way::Http(form) => {
                    let mut line = http::Line::new(form.clone());
                    in_time(line.connect()).await.map(|()| lines.push(Line::Http(line)))
                }
                Way::Resp(form) => {
                    let mut line = resp::Line::new(form.clone(), plan.pipeline.into());
                    in_time(line.connect()).await.map(|()| lines.push(Line::Resp(line)))
                }
                Way::Grpc(form) => {
                    let line = grpc::Line::new(form.clone());
                    let calls = (0..plan.pipeline).map(|_| Line::Grpc(line.clone()));
                    in_time(line.connect()).await.map(|()| lines.extend(calls))
                }
                Way::Embedded(line) => {
                    lines.push(Line::Embedded(line.clone()));
                    Ok(())
                }
            };
            connected.map_err(|trouble| {
                let (opened, all) = (lines.len(), plan.connections);
                Failure::new(format!("{} (after {opened} of {all} connections)", trouble.message))
            })?;
        }
        Ok(lines)
    }

    /// Processor time of our own server so far.
    pub(super) fn cpu(&self) -> Option<Duration> {
        self.own.as_ref().and_then(Own::cpu)
    }
}

fn unfit(target: &Target, door: DoorKind, trouble: &Trouble) -> Failure {
    use super::door::Kind;
    let name = &target.name;
    Failure::new(match trouble.kind {
        Kind::Connect => trouble.message.clone(),
        Kind::Refused => format!("{name} cannot be asked: {}", with_hint(&trouble.message)),
        Kind::Lost | Kind::Late | Kind::Unclear => format!(
            "{name} does not speak what --door {} speaks ({}): {}",
            door.name(),
            trouble.message,
            door.hint()
        ),
    })
}

/// Who has not said which policy to ask for may not know that there is a default.
fn with_hint(message: &str) -> String {
    let hint =
        if message.contains("no policy is called") { " (say which with --policy)" } else { "" };
    format!("{message}{hint}")
}

/// The policies of the configuration over a store in memory, whatever store it names.
fn embedded(plan: &Plan) -> Result<embedded::Line, Failure> {
    let builder = match &plan.serves {
        Serves::Limit(limit) => Engine::builder().policy(POLICY, limit.as_str()),
        Serves::Config(file) => {
            let config = match file {
                Some(file) => Config::read(file, plan.stores),
                None => demo::config(),
            };
            let config = config.map_err(|problems| Failure::new(problems.to_string()))?;
            let policies = config.policies.into_iter();
            policies.fold(Engine::builder(), |builder, (name, policy)| builder.policy(name, policy))
        }
    };
    let engine = builder.build().map_err(|error| Failure::new(error.to_string()))?;
    let question = &plan.question;
    let line = embedded::Line::new(engine, &question.policy, question.cost);
    line.map_err(|why| Failure::new(with_hint(&why)))
}
