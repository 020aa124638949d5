//! A plain HTTP client: any header, any body, and streams of events as they come.

use reqwest::{Client, Method, RequestBuilder, Response, redirect::Policy};
use serde_json::Value;
use testkit::{PATIENCE, TestDaemon};

/// A client of one daemon.
pub(crate) struct Http {
    runtime: tokio::runtime::Runtime,
    client: Client,
    base: String,
    token: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> String {
        let value = self.headers.get(name);
        value.map_or(String::new(), |value| value.to_str().unwrap().to_owned())
    }

    /// The body of an answer that must be a success.
    pub(crate) fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.json()
    }
}

impl Http {
    /// With the owner's token.
    pub(crate) fn owner(daemon: &TestDaemon) -> Self {
        Self::with_token(&daemon.url(), Some(&daemon.token()))
    }

    pub(crate) fn stranger(daemon: &TestDaemon) -> Self {
        Self::with_token(&daemon.url(), None)
    }

    pub(crate) fn with_token(url: &str, token: Option<&str>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let client = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .build();
        Self {
            runtime: runtime.unwrap(),
            client: client.unwrap(),
            base: url.to_owned(),
            token: token.map(str::to_owned),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &[], None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path, &[], Some(body))
    }

    pub(crate) fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        self.try_call(method, path, headers, body).unwrap()
    }

    /// The same, where the daemon may die before it answers.
    pub(crate) fn try_call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer, reqwest::Error> {
        let request = self.request(method, path, headers, body);
        self.runtime.block_on(async {
            let response = request.timeout(PATIENCE).send().await?;
            Ok(Answer {
                status: response.status().as_u16(),
                headers: response.headers().clone(),
                text: response.text().await?,
            })
        })
    }

    /// The events of an answer, one by one.
    pub(crate) fn stream(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Events<'_> {
        let request = self.request(method, path, headers, body);
        let response = self.runtime.block_on(request.send()).unwrap();
        assert!(
            response.status().is_success(),
            "{path}: {}",
            response.status()
        );
        Events {
            http: self,
            response,
            buffer: Vec::new(),
        }
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match body {
            Some(body) => request.json(body),
            None => request,
        }
    }
}

/// A stream of events whose data is JSON.
pub(crate) struct Events<'a> {
    http: &'a Http,
    response: Response,
    buffer: Vec<u8>,
}

impl Iterator for Events<'_> {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.buffered() {
                let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
                let data: String = lines.map(str::trim_start).collect();
                if data.is_empty() {
                    continue; // A sign of life.
                }
                return Some(serde_json::from_str(&data).unwrap_or_else(|_| panic!("{data}")));
            }
            let chunk = self.http.runtime.block_on(async {
                let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await;
                chunk.expect("an event in time").unwrap()
            });
            self.buffer.extend_from_slice(&chunk?);
        }
    }
}

impl Events<'_> {
    /// The next event that has come as a whole.
    fn buffered(&mut self) -> Option<String> {
        self.buffer.retain(|byte| *byte != b'\r');
        let end = self.buffer.windows(2).position(|two| two == b"\n\n")?;
        let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
        Some(String::from_utf8(event).unwrap())
    }
}
