//! The certificate that the server shows, which is read again when its files change.

use crate::serve::ServeError;
use crate::watched::Watched;
use parking_lot::{Mutex, RwLock};
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    std::fs::read(path).map_err(|error| refuse(path, &error))
}

pub(crate) fn refuse(path: &Path, why: &dyn std::fmt::Display) -> ServeError {
    ServeError::Tls(path.into(), why.to_string())
}

/// The error's own text shows some lines as lists of numbers.
fn refuse_pem(path: &Path, error: &pem::Error, what: &str) -> ServeError {
    match error {
        pem::Error::NoItemsFound => refuse(path, &format!("has no {what} in the format PEM")),
        pem::Error::Base64Decode(_) => refuse(path, &"has a section of PEM that is no Base64"),
        pem::Error::MissingSectionEnd { .. } => {
            refuse(path, &"has a section of PEM without an end")
        }
        _ => refuse(path, &"is damaged: it is not in the format PEM"),
    }
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if all.is_empty() => {
            Err(refuse_pem(path, &pem::Error::NoItemsFound, "certificate"))
        }
        Ok(all) => Ok(all),
        Err(error) => Err(refuse_pem(path, &error, "certificate")),
    }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, ServeError> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| refuse_pem(path, &error, "private key without a password"))
}

/// Says why a certificate and its key can't be used.
fn refuse_own(error: &Error, cert_file: &Path, key_file: &Path) -> ServeError {
    match error {
        Error::InconsistentKeys(_) => {
            refuse(key_file, &format!("is not the key of {}", cert_file.display()))
        }
        Error::InvalidCertificate(_) => refuse(cert_file, error),
        _ => refuse(key_file, error),
    }
}

/// A certificate with its private key. Sessions that begin after a change of the files have the new one.
#[derive(Debug)]
pub(crate) struct OwnCertificate {
    cert_file: PathBuf,
    key_file: PathBuf,
    current: RwLock<Arc<CertifiedKey>>,
    watched: Mutex<Watched<2>>,
}

/// Reads a certificate and its key.
fn pair(cert_file: &Path, key_file: &Path) -> Result<Arc<CertifiedKey>, ServeError> {
    let (chain, key) = (certificates(cert_file)?, key(key_file)?);
    let pair = CertifiedKey::from_der(chain, key, &default_provider());
    pair.map(Arc::new).map_err(|error| refuse_own(&error, cert_file, key_file))
}

impl OwnCertificate {
    pub(crate) fn read(cert_file: &Path, key_file: &Path) -> Result<Arc<Self>, ServeError> {
        // Before the files are read: a change meanwhile is seen later.
        let watched = Mutex::new(Watched::new([cert_file, key_file]));
        Ok(Arc::new(Self {
            cert_file: cert_file.into(),
            key_file: key_file.into(),
            current: RwLock::new(pair(cert_file, key_file)?),
            watched,
        }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.cert_file
    }

    /// Reads the files again if they have changed. Returns whether they were read. While the two do not belong together,
    /// the certificate is as before.
    pub(crate) fn reload(&self) -> Result<bool, ServeError> {
        if !self.watched.lock().has_changed([&self.cert_file, &self.key_file]) {
            return Ok(false);
        }
        *self.current.write() = pair(&self.cert_file, &self.key_file)?;
        Ok(true)
    }
}

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read()))
    }
}

impl ResolvesClientCert for OwnCertificate {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read()))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
