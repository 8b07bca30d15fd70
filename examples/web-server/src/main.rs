//! A web service on axum: sessions in a file, and counters in memory.
//!
//! ```sh
//! cd examples/web-server
//! cargo run --release -- sessions.map
//! curl -d '{"user":7,"roles":["editor"]}' -H content-type:application/json localhost:3000/sessions
//! curl localhost:3000/sessions/TOKEN
//! ```
//!
//! A session is in the file when its request is answered (`insert_async`): requests that wait at the
//! same time share a sync. Reads never wait for the disk's writes. Counters of requests are in RAM.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use nunatak::durable::{Options, Postcard, TypedMap};
use nunatak::{DlhtMap, Error};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Session {
    user: u64,
    roles: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Created {
    token: String,
}

/// What all requests share: both maps are used by reference from any thread.
struct Service {
    sessions: TypedMap<String, Postcard<Session>>,
    /// How many requests each user has made.
    requests: DlhtMap<u64, u64>,
}

/// An error of the map becomes a response.
struct Failure(Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.0.to_string()).into_response()
    }
}

impl Service {
    fn open(path: &std::path::Path) -> Result<Self, Error> {
        let options = Options::new().schema("sessions", 1);
        let sessions = TypedMap::open_or_create_with(path, &options)?;
        Ok(Self { sessions, requests: DlhtMap::new() })
    }

    fn router(self: Arc<Self>) -> Router {
        Router::new()
            .route("/sessions", post(create))
            .route("/sessions/{token}", get(read).delete(end))
            .route("/users/{user}/requests", get(requests))
            .with_state(self)
    }
}

async fn create(
    State(service): State<Arc<Service>>,
    Json(session): Json<Session>,
) -> Result<(StatusCode, Json<Created>), Failure> {
    let token = format!("{:032x}", rand::random::<u128>());
    // Blocks no thread of the executor.
    service.sessions.insert_async(&token, &session).await?;
    Ok((StatusCode::CREATED, Json(Created { token })))
}

async fn read(
    State(service): State<Arc<Service>>,
    Path(token): Path<String>,
) -> Result<Response, Failure> {
    // A copy: guards and references of a map belong to a thread, and a task may move at an `await`.
    let Some(session) = service.sessions.get(&token)? else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    service.requests.fetch_add(session.user, 1);
    Ok(Json(session).into_response())
}

async fn end(
    State(service): State<Arc<Service>>,
    Path(token): Path<String>,
) -> Result<StatusCode, Failure> {
    let ended = service.sessions.remove(&token)?;
    Ok(if ended.is_some() { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND })
}

async fn requests(State(service): State<Arc<Service>>, Path(user): Path<u64>) -> Json<u64> {
    Json(service.requests.get(&user).unwrap_or(0))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("which file? web-server FILE")?;
    let service = Arc::new(Service::open(path.as_ref())?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, Arc::clone(&service).router())
        .with_graceful_shutdown(async { _ = tokio::signal::ctrl_c().await })
        .await?;
    // All requests have ended. Closing makes the next start fast.
    match Arc::into_inner(service) {
        Some(service) => Ok(service.sessions.close()?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::{Method, Request};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    async fn ask(router: &Router, method: Method, path: &str, body: &str) -> (StatusCode, Vec<u8>) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        (status, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test]
    async fn sessions_survive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions.map");
        let session = r#"{"user":7,"roles":["editor"]}"#;

        let service = Arc::new(Service::open(&path).unwrap());
        let router = Arc::clone(&service).router();
        let (status, body) = ask(&router, Method::POST, "/sessions", session).await;
        assert_eq!(status, StatusCode::CREATED);
        let Created { token } = serde_json::from_slice(&body).unwrap();
        let of_token = format!("/sessions/{token}");
        let (status, body) = ask(&router, Method::GET, &of_token, "").await;
        assert_eq!((status, body.as_slice()), (StatusCode::OK, session.as_bytes()));
        assert_eq!(ask(&router, Method::GET, "/users/7/requests", "").await.1, b"1");
        drop(router);
        Arc::into_inner(service).unwrap().sessions.close().unwrap();

        let router = Arc::new(Service::open(&path).unwrap()).router();
        assert_eq!(ask(&router, Method::GET, &of_token, "").await.0, StatusCode::OK);
        assert_eq!(ask(&router, Method::DELETE, &of_token, "").await.0, StatusCode::NO_CONTENT);
        assert_eq!(ask(&router, Method::GET, &of_token, "").await.0, StatusCode::NOT_FOUND);
        assert_eq!(ask(&router, Method::DELETE, &of_token, "").await.0, StatusCode::NOT_FOUND);
    }
}
