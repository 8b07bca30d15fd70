//! A small client of Redis's protocol.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub(super) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A connection.
#[derive(Debug)]
pub struct Client(BufReader<TcpStream>);

/// What a reply has: a text, or texts. A reply that is nothing is an empty text.
enum Reply {
    One(String),
    Many(Vec<String>),
}

impl Client {
    /// Connects, when there is a server.
    ///
    /// # Errors
    /// If there is none within a minute.
    pub fn connect(address: &str) -> Result<Self> {
        for _ in 0..600 {
            if let Ok(stream) = TcpStream::connect(address) {
                stream.set_nodelay(true)?;
                return Ok(Self(BufReader::new(stream)));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err("the server does not listen".into())
    }

    fn send(&mut self, commands: &[Vec<String>]) -> Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            write!(bytes, "*{}\r\n", command.len())?;
            for arg in command {
                write!(bytes, "${}\r\n{arg}\r\n", arg.len())?;
            }
        }
        Ok(self.0.get_mut().write_all(&bytes)?)
    }

    fn read(&mut self) -> Result<Reply> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err("the server has closed the connection".into());
        }
        let line = line.trim_end();
        let rest = &line[1..];
        Ok(match line.as_bytes()[0] {
            // `RENAME` of a key that is not there is no failure.
            b'-' if rest != "ERR no such key" => return Err(rest.into()),
            b'$' if rest != "-1" => {
                let mut bytes = vec![0; rest.parse::<usize>()? + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::One(String::from_utf8(bytes)?)
            }
            b'*' => {
                let mut all = Vec::new();
                for _ in 0..rest.parse::<i64>()?.max(0) {
                    match self.read()? {
                        Reply::One(text) => all.push(text),
                        Reply::Many(texts) => all.extend(texts),
                    }
                }
                Reply::Many(all)
            }
            b'$' => Reply::One(String::new()),
            _ => Reply::One(rest.into()),
        })
    }

    /// Sends commands together, then reads their replies.
    ///
    /// # Errors
    /// If the connection, or a command, fails.
    pub fn run(&mut self, commands: &[Vec<String>]) -> Result<()> {
        self.send(commands)?;
        commands.iter().try_for_each(|_| self.read().map(drop))
    }

    /// Runs a command whose reply is a text.
    ///
    /// # Errors
    /// If the connection or the command fails.
    pub fn text(&mut self, command: &[&str]) -> Result<String> {
        self.send(&[command.iter().map(ToString::to_string).collect()])?;
        match self.read()? {
            Reply::One(text) => Ok(text),
            Reply::Many(_) => Err("an array".into()),
        }
    }

    /// Runs a command whose reply is an array of texts.
    ///
    /// # Errors
    /// If the connection or the command fails.
    pub fn texts(&mut self, command: &[&str]) -> Result<Vec<String>> {
        self.send(&[command.iter().map(ToString::to_string).collect()])?;
        match self.read()? {
            Reply::Many(texts) => Ok(texts),
            Reply::One(_) => Err("no array".into()),
        }
    }
}
