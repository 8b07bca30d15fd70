//! From certificates and keys to the configuration of all sessions of TLS.

use crate::certificate::{OwnCertificate, certificates, refuse};
use crate::config::{AuthClients, Config};
use crate::serve::ServeError;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// Makes what a client needs, with the authorities of servers' certificates and perhaps a certificate of its own.
pub(crate) fn client(
    ca_file: &Path,
    own: Option<Arc<OwnCertificate>>,
) -> Result<Arc<ClientConfig>, ServeError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(ca_file, &error))?
        .with_root_certificates(authorities(ca_file)?);
    Ok(Arc::new(match own {
        Some(own) => builder.with_client_cert_resolver(own),
        None => builder.with_no_client_auth(),
    }))
}

/// What the options say of TLS.
pub(crate) struct Tls {
    /// For those who connect to the server, if TLS is on.
    pub(crate) server: Option<Arc<ServerConfig>>,
    /// For the other nodes, if they are reached by TLS.
    pub(crate) nodes: Option<Arc<ClientConfig>>,
    /// For the primary, if the server follows it by TLS.
    pub(crate) primary: Option<Arc<ClientConfig>>,
    /// What the server shows to all of them.
    pub(crate) certificate: Option<Arc<OwnCertificate>>,
}

impl Tls {
    /// Reads certificates and keys.
    pub(crate) fn configure(config: &Config) -> Result<Self, ServeError> {
        let option = match config.tls_port.number() {
            Some(_) => Some("--tls-port"),
            None => config.http_tls.then_some("--http-tls"),
        };
        let files = match option {
            Some(option) => Some((
                needed(&config.tls_cert_file, (option, "--tls-cert-file"))?,
                needed(&config.tls_key_file, (option, "--tls-key-file"))?,
            )),
            None if config.tls_cluster || config.tls_replication => {
                config.tls_cert_file.as_deref().zip(config.tls_key_file.as_deref())
            }
            None => None,
        };
        let certificate = files.map(|(cert, key)| OwnCertificate::read(cert, key)).transpose()?;
        let server = certificate.as_ref().filter(|_| option.is_some());
        let as_client = |is_on: bool, option| {
            let client = || {
                let ca_file = needed(&config.tls_ca_cert_file, (option, "--tls-ca-cert-file"))?;
                client(ca_file, certificate.clone())
            };
            is_on.then(client).transpose()
        };
        Ok(Self {
            server: server.map(|own| server_with(config, Arc::clone(own))).transpose()?,
            nodes: as_client(config.tls_cluster, "--tls-cluster")?,
            primary: as_client(config.tls_replication, "--tls-replication")?,
            certificate,
        })
    }
}

/// Makes what the server needs for those who connect to it.
fn server_with(
    config: &Config,
    certificate: Arc<OwnCertificate>,
) -> Result<Arc<ServerConfig>, ServeError> {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(certificate.path(), &error))?;
    let auth = config.auth_clients();
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
    Ok(Arc::new(builder.with_cert_resolver(certificate)))
}
