//! Servers that misbehave: one that can be killed, ones that answer badly or never, and one in between.

use std::{
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use url::Url;

/// Bytes read at once; a script call with a body fits.
const CHUNK: usize = 64 * 1024;

/// A Redis server of one test, killed with the value.
pub(super) struct OwnRedis {
    pub(super) url: String,
    port: u16,
    server: Child,
}

impl OwnRedis {
    pub(super) async fn start() -> Self {
        let port = port_without_server();
        let redis = Self { url: format!("redis://127.0.0.1:{port}"), port, server: spawn(port) };
        redis.until_ready().await;
        redis
    }

    pub(super) async fn command(&self, words: &[&str]) {
        let mut connection = super::plain_connection(&self.url).await;
        redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut connection).await.expect("an answer");
    }

    pub(super) fn kill(&mut self) {
        self.server.kill().expect("a running server");
        self.server.wait().expect("its end");
    }

    /// Starts an empty server on the same port.
    pub(super) async fn restart(&mut self) {
        self.server = spawn(self.port);
        self.until_ready().await;
    }

    async fn until_ready(&self) {
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("redis-server does not start");
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn spawn(port: u16) -> Child {
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"])
        .arg(port.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

/// A port on which nobody listens.
pub(super) fn port_without_server() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Ends its task with the value.
pub(super) struct Server(JoinHandle<()>);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn listen() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    (format!("redis://{}", listener.local_addr().expect("its address")), listener)
}

/// Accepts connections and says nothing.
pub(super) async fn never_answering() -> (String, Server) {
    let (url, listener) = listen().await;
    let task = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    (url, Server(task))
}

/// Accepts the handshake, and answers every script with the same line.
pub(super) async fn always_answering(line: &'static str) -> (String, Server) {
    let (url, listener) = listen().await;
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut chunk = vec![0; CHUNK];
                while let Ok(length @ 1..) = stream.read(&mut chunk).await {
                    let answer = answer_each(&chunk[..length], line);
                    if stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, Server(task))
}

/// One answer for each command in a chunk; what is not a script is told OK.
fn answer_each(chunk: &[u8], line: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(chunk);
    let commands = text.split("\r\n").filter(|part| part.starts_with('*'));
    let scripts = text.matches("EVALSHA").count();
    let others = commands.count().saturating_sub(scripts);
    format!("{}{}", "+OK\r\n".repeat(others), format!("{line}\r\n").repeat(scripts)).into_bytes()
}

/// What happens to a script call on its way.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// It is executed, and the answer never comes.
    AnswerLost,
    /// It is executed, and the connection ends instead of an answer.
    CutAfterExecution,
    /// It is not executed, and this line is the answer.
    Answered(&'static str),
}

/// Stands between the budget and a real Redis.
pub(super) struct Interposer {
    pub(super) url: String,
    next: Arc<Mutex<Option<Fault>>>,
    _server: Server,
}

impl Interposer {
    pub(super) async fn start(real: &str) -> Self {
        // The same URL with another port: user, password and database stay.
        let mut url: Url = real.parse().expect("the URL of the real Redis");
        let real = format!("{}:{}", url.host_str().expect("a host"), url.port().expect("a port"));
        let (_, listener) = listen().await;
        url.set_port(Some(listener.local_addr().expect("its address").port())).expect("a port");
        let url = url.to_string();
        let next = Arc::new(Mutex::new(None));
        let faults = Arc::clone(&next);
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(&real).await.expect("the real Redis");
                tokio::spawn(pass_on(near, far, Arc::clone(&faults)));
            }
        });
        Self { url, next, _server: Server(task) }
    }

    /// The next script call meets this fault, and only that one.
    pub(super) fn next_script_meets(&self, fault: Fault) {
        *self.next.lock().unwrap() = Some(fault);
    }
}

/// Passes one request on at a time, which is how a test of one task asks.
async fn pass_on(mut near: TcpStream, mut far: TcpStream, faults: Arc<Mutex<Option<Fault>>>) {
    let (mut request, mut answer) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        tokio::select! {
            read = near.read(&mut request) => {
                let Ok(length @ 1..) = read else { return };
                let request = &request[..length];
                let is_script = request.windows(7).any(|word| word == b"EVALSHA");
                let fault = if is_script { faults.lock().unwrap().take() } else { None };
                if let Some(Fault::Answered(line)) = fault {
                    near.write_all(format!("{line}\r\n").as_bytes()).await.expect("the near side");
                    continue;
                }
                far.write_all(request).await.expect("the far side");
                if fault.is_some() {
                    let _ = far.read(&mut answer).await.expect("the far side");
                }
                if matches!(fault, Some(Fault::CutAfterExecution)) {
                    return;
                }
            }
            read = far.read(&mut answer) => {
                let Ok(length @ 1..) = read else { return };
                near.write_all(&answer[..length]).await.expect("the near side");
            }
        }
    }
}
