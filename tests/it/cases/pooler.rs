//! A transaction-mode pooler before PostgreSQL: between two transactions a client's session may be any session.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// Of a message: type byte and length.
const HEADER_BYTES: usize = 5;

/// Messages that end what a client has to say: `Query`, `Sync`.
const ENDS_OF_REQUEST: [u8; 2] = [b'Q', b'S'];

/// `ReadyForQuery`, and its status outside of a transaction.
const READY_FOR_QUERY: u8 = b'Z';
const IDLE: u8 = b'I';

/// Sessions that nobody uses right now; the one that waited longest is next, so that every client gets every session.
type Sessions = Arc<Mutex<VecDeque<TcpStream>>>;

/// Listens, and returns the URL of this database by way of the pooler.
pub(super) async fn before(database_url: &str) -> String {
    let mut url: Url = database_url.parse().unwrap();
    let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    url.set_port(Some(listener.local_addr().unwrap().port())).unwrap();
    tokio::spawn(async move {
        let sessions = Sessions::default();
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, server.clone(), sessions.clone()));
        }
    });
    url.into()
}

/// The client logs in to a session of its own, and gives it to all when it is ready.
async fn serve(mut client: TcpStream, server: String, sessions: Sessions) -> io::Result<()> {
    let mut own = TcpStream::connect(server).await?;
    own.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let mut start = vec![0; 4];
    client.read_exact(&mut start).await?;
    read_rest(&mut client, &mut start, 0).await?;
    own.write_all(&start).await?;
    loop {
        let message = read_message(&mut own).await?;
        client.write_all(&message).await?;
        match message[0] {
            READY_FOR_QUERY => break,
            b'R' if expects_answer(&message) => own.write_all(&read_message(&mut client).await?).await?,
            _ => {}
        }
    }
    sessions.lock().unwrap().push_back(own);
    while let Some(request) = next_request(&mut client).await? {
        let mut session = sessions.lock().unwrap().pop_front().expect("as many sessions as clients");
        transact(&mut client, &mut session, request).await?;
        sessions.lock().unwrap().push_back(session);
    }
    Ok(())
}

/// Passes requests and answers on until no transaction is open.
async fn transact(client: &mut TcpStream, session: &mut TcpStream, mut request: Vec<u8>) -> io::Result<()> {
    loop {
        session.write_all(&request).await?;
        loop {
            let message = read_message(session).await?;
            client.write_all(&message).await?;
            match (message[0], message[HEADER_BYTES..].first()) {
                (READY_FOR_QUERY, Some(&IDLE)) => return Ok(()),
                (READY_FOR_QUERY, _) => break,
                _ => {}
            }
        }
        request = next_request(client).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    }
}

/// Everything up to the next end of a request; nothing when the client has left.
async fn next_request(client: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut request = Vec::new();
    loop {
        let message = match read_message(client).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            message => message?,
        };
        let kind = message[0];
        if kind == b'X' {
            return Ok(None);
        }
        request.extend(message);
        if ENDS_OF_REQUEST.contains(&kind) {
            return Ok(Some(request));
        }
    }
}

/// An authentication request other than "done" and "last word of SASL" is answered by the client.
fn expects_answer(authentication: &[u8]) -> bool {
    !matches!(authentication[HEADER_BYTES..HEADER_BYTES + 4], [0, 0, 0, 0 | 12])
}

async fn read_message(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = vec![0; HEADER_BYTES];
    from.read_exact(&mut message).await?;
    read_rest(from, &mut message, 1).await?;
    Ok(message)
}

/// Reads what the length at `place` says is still to come.
async fn read_rest(from: &mut TcpStream, message: &mut Vec<u8>, place: usize) -> io::Result<()> {
    let length: [u8; 4] = message[place..place + 4].try_into().unwrap();
    let had = message.len();
    message.resize(place + u32::from_be_bytes(length) as usize, 0);
    from.read_exact(&mut message[had..]).await.map(drop)
}
