//! How a reader asks the process that has a file open for a snapshot of it.
//!
//! That process listens at a Unix socket whose name is not in the file system (an abstract one). The
//! name has a number, which is drawn. A lock tells the number: it is on the byte `FIRST` + number of
//! the file. A reader finds the lock, and connects. So what a reader finds belongs to the file,
//! whatever its path; only a process that may change the file can place the lock. Lock and socket
//! end with the process, so a killed one leaves nothing behind.
//!
//! A connection is a request. Each answer is one message of four bytes: [`WORKING`], again and
//! again, then zero with the descriptor of the snapshot, or the number of an error. Both ends ask
//! the system for the user of the other.
//!
//! A fork inherits the listening socket. It has no thread that answers, and does not touch the
//! socket: to shut it down would do so for the parent. If the parent is killed, readers connect to
//! a socket that nobody answers at, and give up after their [`PATIENCE`].

use super::backing::{Backing, error_of};
use super::byte_lock::{self, Lock};
use super::pool::Pool;
use crate::error::{Error, FileError};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, IoSlice, IoSliceMut, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::Duration;

/// The bytes whose locks tell numbers of sockets.
const FIRST: i64 = 1 << 61;
const NUMBERS: i64 = 1 << 48;

/// So long a reader waits for a sign of life.
const PATIENCE: Duration = Duration::from_secs(10);

/// The listening thread rests so long when the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// How many connections the system keeps until they are accepted, and how many requests wait.
const MOST: usize = 128;

/// The answer while a snapshot is being made.
const WORKING: i32 = -1;

fn address(number: i64) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("nunatak-snapshot-1-{number:012x}").as_bytes())
}

fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | SocketFlags::CLOEXEC;
    // Of packets: a message arrives as a whole.
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Returns the user of the process at the other end.
fn user_of(socket: BorrowedFd<'_>) -> Option<libc::uid_t> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // Not by rustix: there the process has a number that is not zero, and a process of another
    // namespace has the number zero.
    // SAFETY: the structure has the size that is told, and lives through the call.
    let failed = unsafe {
        let (peer, bytes) = (&raw mut peer, &raw mut bytes);
        let socket = socket.as_raw_fd();
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, peer.cast(), bytes)
    };
    (failed == 0).then_some(peer.uid)
}

fn own_user() -> libc::uid_t {
    rustix::process::geteuid().as_raw()
}

/// The socket at which readers ask for snapshots of an open file.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    /// The open file that is locked.
    file: OwnedFd,
    byte: i64,
    is_over: AtomicBool,
}

impl Listener {
    pub(crate) fn new(pool: &Pool) -> Result<Self, Error> {
        let failed = |error| error_of("listen to readers", error);
        let number = (RandomState::new().hash_one(()) % NUMBERS as u64) as i64;
        let socket = socket(SocketFlags::NONBLOCK).map_err(failed)?;
        let address = address(number).map_err(failed)?;
        rustix::net::bind(&socket, &address).map_err(failed)?;
        rustix::net::listen(&socket, MOST as i32).map_err(failed)?;
        // The same open file, so the lock is the pool's own, as that of a sync.
        let file = rustix::io::fcntl_dupfd_cloexec(pool.backing().file(), 0).map_err(failed)?;
        let listener = Self { socket, file, byte: FIRST + number, is_over: AtomicBool::new(false) };
        byte_lock::set(listener.file.as_fd(), Lock::Exclusive, listener.byte).map_err(failed)?;
        Ok(listener)
    }

    /// Waits for a request, or until [`stop`](Self::stop).
    pub(crate) fn wait(&self) {
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None);
    }

    /// Takes all requests that have come. Does not wait.
    pub(crate) fn accept(&self, requests: &mut Vec<Request>) {
        for _ in requests.len()..MOST {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.socket, flags) {
                Ok(connection) => {
                    let user = user_of(connection.as_fd());
                    if user.is_some_and(|user| user == 0 || user == own_user()) {
                        requests.push(Request(connection));
                    }
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // None is left; or the socket is shut down.
                Err(Errno::AGAIN | Errno::INVAL) => return,
                // The request stays. To ask again at once would be in vain.
                Err(_) => return std::thread::park_timeout(PAUSE),
            }
        }
    }

    /// Whether requests are answered no more.
    pub(crate) fn is_over(&self) -> bool {
        // Relaxed: a hint that nothing else depends on. `wait` returns at once until it is seen.
        self.is_over.load(Relaxed)
    }

    /// Makes `wait` return, and refuses new requests.
    pub(crate) fn stop(&self) {
        // Relaxed: as above.
        self.is_over.store(true, Relaxed);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A fork may still have the open file and the socket, so that neither ends by itself.
        let _ = byte_lock::set(self.file.as_fd(), Lock::None, self.byte);
        self.stop();
        self.accept(&mut Vec::new());
    }
}

/// A reader that waits for a snapshot.
#[derive(Debug)]
pub(crate) struct Request(OwnedFd);

impl Request {
    /// Tells the reader that its snapshot is being made. Returns whether the reader is still there.
    pub(crate) fn put_off(&self) -> bool {
        // A reader that takes no messages has many already.
        matches!(self.send(WORKING, None), Ok(()) | Err(Errno::AGAIN))
    }

    /// Gives the reader its snapshot, or the reason why there is none. A reader that is gone needs
    /// neither.
    pub(crate) fn answer(&self, snapshot: &Result<OwnedFd, Error>) {
        let _ = match snapshot {
            Ok(file) => self.send(0, Some(file.as_fd())),
            Err(error) => self.send(code_of(error), None),
        };
    }

    fn send(&self, code: i32, file: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(Errno::NOBUFS);
        }
        let code = code.to_ne_bytes();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let message = [IoSlice::new(&code)];
        retry_on_intr(|| rustix::net::sendmsg(&self.0, &message, &mut control, flags)).map(drop)
    }
}

/// Returns the number by which the system names an error, or one that is like it.
fn code_of(error: &Error) -> i32 {
    let errno = match error {
        Error::File(FileError::Io { code, .. }) if *code > 0 => return *code,
        Error::File(FileError::Full) => Errno::NOSPC,
        Error::OutOfMemory { .. } => Errno::NOMEM,
        _ => Errno::IO,
    };
    errno.raw_os_error()
}

/// Gets a snapshot from the process that has a file open. What it has sent is not looked at: the
/// caller opens it as any other file.
///
/// # Errors
/// [`FileError::InUse`] if no process answers requests for this file, or not in time.
pub(crate) fn ask_for_snapshot(path: &Path) -> Result<Backing, Error> {
    let failed = |error| error_of("ask for a snapshot", error);
    let refused = || Error::from(FileError::InUse);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let found = byte_lock::find(file.as_fd(), FIRST..FIRST + NUMBERS);
    // Where the system has no such locks, nobody has one.
    let byte = found.ok().flatten().ok_or_else(refused)?;
    let socket = socket(SocketFlags::empty()).map_err(failed)?;
    // The first is for the connection: it waits while too many others do.
    for timeout in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, timeout, Some(PATIENCE)).map_err(failed)?;
    }
    let address = address(byte - FIRST).map_err(failed)?;
    retry_on_intr(|| rustix::net::connect(&socket, &address)).map_err(|_| refused())?;
    let owner = rustix::fs::fstat(&file).map_err(failed)?.st_uid;
    let is_known = |user| [0, own_user(), owner].contains(&user);
    if !user_of(socket.as_fd()).is_some_and(is_known) {
        return Err(refused());
    }
    loop {
        match receive(socket.as_fd()).map_err(|_| refused())? {
            (Some(WORKING), None) => {}
            (Some(0), Some(snapshot)) => {
                let stat = rustix::fs::fstat(&snapshot).map_err(failed)?;
                return match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => Ok(Backing::of_copy(snapshot)),
                    _ => Err(FileError::NotAMap.into()),
                };
            }
            (Some(code), None) if code > 0 => {
                let action = "make a snapshot in the process that has the file open";
                return Err(FileError::Io { action, code }.into());
            }
            _ => return Err(refused()),
        }
    }
}

/// Receives an answer: its number, and a descriptor. Neither if the other process has gone.
fn receive(socket: BorrowedFd<'_>) -> Result<(Option<i32>, Option<OwnedFd>), Errno> {
    let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut code = [0; 4];
    let received = retry_on_intr(|| {
        let message = &mut [IoSliceMut::new(&mut code)];
        rustix::net::recvmsg(socket, message, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.next().and_then(|mut files| files.next());
    Ok(((received.bytes == code.len()).then_some(i32::from_ne_bytes(code)), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_by_the_numbers_of_the_system() {
        let denied = Errno::ACCESS.raw_os_error();
        for (error, code) in [
            (FileError::Io { action: "write the file", code: denied }.into(), denied),
            (FileError::Full.into(), Errno::NOSPC.raw_os_error()),
            (Error::OutOfMemory { bytes: 1 }, Errno::NOMEM.raw_os_error()),
            (FileError::Poisoned.into(), Errno::IO.raw_os_error()),
        ] {
            assert_eq!(code_of(&error), code, "{error}");
        }
    }
}
