//! A model that does what its prompt says, behind the API that compatible servers have.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use serde_json::{Value, json};

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Serves until the test's process ends, and gives the base URL.
pub(super) fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(stream));
        }
    });
    url
}

/// One request; a client that leaves early is no failure.
fn answer(mut stream: TcpStream) -> Option<()> {
    let body = read(&stream)?;
    let last = body["messages"].as_array()?.last()?;
    let words = match &last["content"] {
        Value::String(text) => text.clone(),
        parts => parts.to_string(),
    };
    let say = |stream: &mut TcpStream, text: &str| {
        let chunk = json!({"choices": [{"delta": {"content": text}}]});
        write!(stream, "data: {chunk}\n\n").ok()
    };
    if last["role"] == "user" && words.contains("fail") {
        let body = json!({"error": {"message": "on purpose", "type": "invalid_request_error"}})
            .to_string();
        write!(
            stream,
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
        return Some(());
    }
    stream.write_all(STREAM.as_bytes()).ok()?;
    if last["role"] == "tool" {
        say(&mut stream, "It was done.")?;
    } else if words.contains("ask") {
        let arguments = json!({"path": "asked.txt", "content": "yes"}).to_string();
        let call = json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "write", "arguments": arguments}});
        let chunk =
            json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
        write!(stream, "data: {chunk}\n\n").ok()?;
    } else if words.contains("hang") {
        say(&mut stream, "waiting")?;
        let _ = stream.read(&mut [0]); // Until the client gives up.
        return None;
    } else if words.contains("stream") {
        for word in ["one ", "two ", "three"] {
            say(&mut stream, word)?;
            thread::sleep(std::time::Duration::from_millis(150));
        }
    } else {
        say(&mut stream, "You said: ")?;
        say(&mut stream, &words)?;
    }
    write!(stream, "data: [DONE]\n\n").ok()
}

/// The body of a request.
pub(crate) fn read(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}
