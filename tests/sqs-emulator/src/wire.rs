//! Connections that a handler can cut without an answer.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// A switch that ends its connection before the next byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cutter {
    connection: Arc<AtomicBool>,
    emulator: Arc<AtomicBool>,
}

impl Cutter {
    /// Ends this connection; an answer that is under way does not arrive.
    pub(crate) fn cut(&self) {
        self.connection.store(true, Ordering::Release);
    }

    fn is_cut(&self) -> bool {
        self.connection.load(Ordering::Acquire) || self.emulator.load(Ordering::Acquire)
    }
}

/// A listener whose connections can be cut, one by one or all together.
pub(crate) struct CuttableListener {
    pub(crate) listener: TcpListener,
    /// Ends every connection once it is set.
    pub(crate) stopped: Arc<AtomicBool>,
}

/// A connection with its switch.
pub(crate) struct CuttableStream {
    stream: TcpStream,
    cutter: Cutter,
}

impl Listener for CuttableListener {
    type Io = CuttableStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Small answers leave at once; an emulator that waits 40 ms for an acknowledgement would be slow for nothing.
        let _best_effort = stream.set_nodelay(true);
        let cutter = Cutter { connection: Arc::default(), emulator: Arc::clone(&self.stopped) };
        (CuttableStream { stream, cutter }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, CuttableListener>> for Cutter {
    fn connect_info(stream: IncomingStream<'_, CuttableListener>) -> Self {
        stream.io().cutter.clone()
    }
}

impl CuttableStream {
    fn check(&self) -> io::Result<()> {
        if self.cutter.is_cut() { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl AsyncRead for CuttableStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for CuttableStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
