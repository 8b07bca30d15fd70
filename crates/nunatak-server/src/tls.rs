//! Certificates and keys: from files to the configuration of all sessions of TLS.

use crate::config::{AuthClients, Config};
use crate::serve::ServeError;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    std::fs::read(path).map_err(|error| refuse(path, &error))
}

fn refuse(path: &Path, why: &dyn std::fmt::Display) -> ServeError {
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

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
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

/// Returns the certificate authorities that clients' certificates must come from.
fn authorities(path: &Path) -> Result<RootCertStore, ServeError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| refuse(path, &error))?;
    }
    Ok(roots)
}

/// Returns an option that must be there because of another.
fn needed<'c>(
    path: &'c Option<PathBuf>,
    (option, needs): (&'static str, &'static str),
) -> Result<&'c Path, ServeError> {
    path.as_deref().ok_or(ServeError::Missing(option, needs))
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

/// Reads what a client needs: the authorities of servers' certificates, perhaps a certificate of its own and
/// the key.
pub(crate) fn client(
    ca_file: &Path,
    own: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, ServeError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(ca_file, &error))?
        .with_root_certificates(authorities(ca_file)?);
    let Some((cert_file, key_file)) = own else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let made = builder.with_client_auth_cert(certificates(cert_file)?, key(key_file)?);
    made.map(Arc::new).map_err(|error| refuse_own(&error, cert_file, key_file))
}

/// Reads what the server needs to reach other nodes, if it reaches them by TLS. Its own certificate is that of
/// its clients.
pub(crate) fn between_nodes(config: &Config) -> Result<Option<Arc<ClientConfig>>, ServeError> {
    if !config.tls_cluster {
        return Ok(None);
    }
    as_client("--tls-cluster", config).map(Some)
}

/// Reads what the server needs to follow a primary, if it does so by TLS.
pub(crate) fn to_primary(config: &Config) -> Result<Option<Arc<ClientConfig>>, ServeError> {
    if !config.tls_replication {
        return Ok(None);
    }
    as_client("--tls-replication", config).map(Some)
}

/// Reads what the server needs to reach other servers, because of an option.
fn as_client(option: &'static str, config: &Config) -> Result<Arc<ClientConfig>, ServeError> {
    let ca_file = needed(&config.tls_ca_cert_file, (option, "--tls-ca-cert-file"))?;
    client(ca_file, config.tls_cert_file.as_deref().zip(config.tls_key_file.as_deref()))
}

/// Reads certificates and keys. Returns the configuration of TLS, if it is on.
pub(crate) fn configure(config: &Config) -> Result<Option<Arc<ServerConfig>>, ServeError> {
    let option = match config.tls_port.number() {
        Some(_) => "--tls-port",
        None if config.http_tls => "--http-tls",
        None => return Ok(None),
    };
    let cert_file = needed(&config.tls_cert_file, (option, "--tls-cert-file"))?;
    let key_file = needed(&config.tls_key_file, (option, "--tls-key-file"))?;
    let auth = config.auth_clients();
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| refuse(cert_file, &error))?;
    let builder = if auth == AuthClients::No {
        builder.with_no_client_auth()
    } else {
        let ca_file =
            needed(&config.tls_ca_cert_file, ("--tls-auth-clients", "--tls-ca-cert-file"))?;
        let roots = Arc::new(authorities(ca_file)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
        let verifier = match auth {
            AuthClients::Optional => verifier.allow_unauthenticated(),
            _ => verifier,
        };
        builder.with_client_cert_verifier(verifier.build().map_err(|it| refuse(ca_file, &it))?)
    };
    let made = builder.with_single_cert(certificates(cert_file)?, key(key_file)?);
    made.map(|made| Some(Arc::new(made))).map_err(|error| refuse_own(&error, cert_file, key_file))
}
