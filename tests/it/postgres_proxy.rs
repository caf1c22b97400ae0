//! A proxy before PostgreSQL that counts round trips: each ends with the server's message `ReadyForQuery`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// The first byte of `ReadyForQuery`.
const READY_FOR_QUERY: u8 = b'Z';

/// Type byte and length.
const HEADER_BYTES: usize = 5;

pub(crate) struct PostgresProxy {
    address: SocketAddr,
    round_trips: Arc<AtomicU64>,
}

impl PostgresProxy {
    /// Listens, and connects each caller to the server of this URL.
    pub(crate) async fn before(database_url: &str) -> Self {
        Self::at(0, database_url).await
    }

    /// The same on this port.
    pub(crate) async fn at(port: u16, database_url: &str) -> Self {
        let url: Url = database_url.parse().unwrap();
        let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let round_trips = Arc::new(AtomicU64::new(0));
        let counter = round_trips.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, server.clone(), counter.clone()));
            }
        });
        Self { address, round_trips }
    }

    /// The same database, by way of the proxy.
    pub(crate) fn url(&self, database_url: &str) -> String {
        let mut url: Url = database_url.parse().unwrap();
        url.set_port(Some(self.address.port())).unwrap();
        url.to_string()
    }

    /// Round trips so far.
    pub(crate) fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::SeqCst)
    }
}

async fn pass_on(client: TcpStream, server: String, counter: Arc<AtomicU64>) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let up = tokio::io::copy(&mut from_client, &mut to_server);
    tokio::select! {
        ended = up => ended.map(drop),
        ended = count(from_server, to_client, counter) => ended,
    }
}

/// Passes the server's messages on, one by one.
async fn count(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, counter: Arc<AtomicU64>) -> std::io::Result<()> {
    loop {
        let mut message = vec![0; HEADER_BYTES];
        from.read_exact(&mut message).await?;
        let length = u32::from_be_bytes([message[1], message[2], message[3], message[4]]) as usize;
        message.resize(1 + length, 0);
        from.read_exact(&mut message[HEADER_BYTES..]).await?;
        if message[0] == READY_FOR_QUERY {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        to.write_all(&message).await?;
    }
}
