//! Replies, in both versions of the protocol.

/// Writes replies to a connection's buffer.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// Whether the connection speaks version 3.
    pub(crate) is_resp3: bool,
}

impl Reply<'_> {
    fn header(&mut self, kind: u8, number: i64) {
        let mut digits = itoa::Buffer::new();
        self.out.push(kind);
        self.out.extend_from_slice(digits.format(number).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// Writes an error. Ends of lines in the text, which may be a client's, become spaces.
    pub(crate) fn error(&mut self, text: &str) {
        self.out.push(b'-');
        let is_end = |byte: u8| byte == b'\r' || byte == b'\n';
        self.out.extend(text.bytes().map(|byte| if is_end(byte) { b' ' } else { byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    pub(crate) fn count(&mut self, value: usize) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    #[inline]
    pub(crate) fn bulk(&mut self, value: &[u8]) {
        self.header(b'$', value.len() as i64);
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.bulk(value.as_bytes());
    }

    pub(crate) fn bulk_or_null(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.bulk(value),
            None => self.null(),
        }
    }

    pub(crate) fn double(&mut self, value: f64) {
        match self.is_resp3 {
            true => self.out.extend_from_slice(format!(",{value}\r\n").as_bytes()),
            false => self.text(&value.to_string()),
        }
    }

    pub(crate) fn null(&mut self) {
        self.out.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    pub(crate) fn null_array(&mut self) {
        self.out.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    pub(crate) fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// Begins a map of so many pairs.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.is_resp3 {
            true => self.header(b'%', pairs as i64),
            false => self.array(2 * pairs),
        }
    }

    /// Begins an array that a client has not asked for, or does not count as a reply.
    pub(crate) fn push(&mut self, len: usize) {
        match self.is_resp3 {
            true => self.header(b'>', len as i64),
            false => self.array(len),
        }
    }

    /// Writes the lines of a subcommand `HELP`.
    pub(crate) fn help(&mut self, lines: &[&str]) {
        self.array(lines.len());
        lines.iter().for_each(|line| self.simple(line));
    }

    pub(crate) fn set(&mut self, len: usize) {
        match self.is_resp3 {
            true => self.header(b'~', len as i64),
            false => self.array(len),
        }
    }

    /// Writes a text that people read.
    pub(crate) fn verbatim(&mut self, text: &str) {
        if self.is_resp3 {
            self.header(b'=', text.len() as i64 + 4);
            self.out.extend_from_slice(b"txt:");
            self.out.extend_from_slice(text.as_bytes());
            self.out.extend_from_slice(b"\r\n");
        } else {
            self.text(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_differ() {
        let write = |is_resp3| {
            let mut out = Vec::new();
            let mut reply = Reply { out: &mut out, is_resp3 };
            reply.null();
            reply.null_array();
            reply.map(1);
            reply.set(2);
            reply.verbatim("a");
            reply.error("ERR a\r\nb");
            String::from_utf8(out).unwrap()
        };
        assert_eq!(write(false), "$-1\r\n*-1\r\n*2\r\n*2\r\n$1\r\na\r\n-ERR a  b\r\n");
        assert_eq!(write(true), "_\r\n_\r\n%1\r\n~2\r\n=5\r\ntxt:a\r\n-ERR a  b\r\n");
    }
}
