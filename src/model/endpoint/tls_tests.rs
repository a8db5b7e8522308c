//! HTTPS: certificates, and HTTP/2 with large bodies.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::dialect::testing::{clip, request, text};
use super::*;
use crate::config::secret::ApiKey;
use crate::model::Model as _;
use crate::types::{AudioContent, AudioFile, Digest, Outcome, PreparedAudio, Role};

/// A server with a certificate of its own for `localhost`, which speaks HTTP/2 only; its address, and the
/// certificate as a file.
async fn server(folder: &std::path::Path) -> (SocketAddr, PathBuf) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let bundle = folder.join("ca.pem");
    std::fs::write(&bundle, certified.cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    tokio::spawn(async move {
                        let length: usize =
                            request.headers()["content-length"].to_str().unwrap().parse().unwrap();
                        let mut body = request.into_body();
                        let mut received = Vec::new();
                        while let Some(chunk) = body.data().await {
                            let chunk = chunk.unwrap();
                            body.flow_control().release_capacity(chunk.len()).unwrap();
                            received.extend_from_slice(&chunk);
                        }
                        assert_eq!(received.len(), length);
                        let digest = Digest::of(&received);
                        let answer =
                            serde_json::json!({"choices": [{"message": {"content": digest.to_string()}}]});
                        let mut stream = respond.send_response(http::Response::new(()), false).unwrap();
                        stream.send_data(Bytes::from(answer.to_string()), true).unwrap();
                    });
                }
            });
        }
    });
    (address, bundle)
}

fn spec(address: SocketAddr) -> EndpointSpec {
    let mut spec =
        EndpointSpec::new(Dialect::OpenAi, format!("https://localhost:{}/v1", address.port()), "m");
    spec.key = Some(ApiKey::new("sk-0123456789"));
    spec
}

#[tokio::test]
async fn large_bodies_go_over_http2_to_a_server_whose_certificate_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (address, bundle) = server(folder.path()).await;
    let spec = EndpointSpec { ca_bundle: Some(bundle), ..spec(address) };
    let model = EndpointModel::new(spec.clone()).unwrap();
    let audio = Bytes::from(vec![7; 700_000]);
    let file = Arc::new(AudioFile::new(audio, "wav", 10.0));
    let requests: Vec<_> = (0..12)
        .map(|number| {
            let mut request = request(&[(Role::User, &[clip(), text(&format!("question {number}"))])]);
            request.audio = vec![PreparedAudio {
                digest: Digest::of(b"clip"),
                content: AudioContent::File(Arc::clone(&file)),
            }];
            request
        })
        .collect();
    let expected: Vec<String> = requests
        .iter()
        .map(|request| Digest::of(&spec.dialect.encode(request, &spec).unwrap().bytes()).to_string())
        .collect();
    let answers = model.answer(requests).await;
    for (answer, expected) in answers.iter().zip(&expected) {
        assert_eq!(
            (answer.outcome, &answer.text, answer.attempts),
            (Outcome::Ok, expected, 1),
            "{:?}",
            answer.error
        );
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_fails_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (address, _) = server(folder.path()).await;
    let other = folder.path().join("other.pem");
    std::fs::write(&other, rcgen::generate_simple_self_signed(vec!["x".into()]).unwrap().cert.pem()).unwrap();
    let model = EndpointModel::new(EndpointSpec { ca_bundle: Some(other), ..spec(address) }).unwrap();
    let answer = model.answer(vec![request(&[(Role::User, &[text("why?")])])]).await.remove(0);
    assert_eq!((answer.outcome, answer.attempts), (Outcome::RequestError, 1));
    let error = answer.error.unwrap();
    assert!(error.starts_with("TLS: ") && error.contains("invalid peer certificate"), "{error}");
    assert!(error.ends_with("; name a ca_bundle with the certificate that signs it"), "{error}");
}

#[test]
fn a_bundle_that_cannot_be_used_is_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    let error = |path: &PathBuf| {
        let address = "127.0.0.1:1".parse().unwrap();
        EndpointModel::new(EndpointSpec { ca_bundle: Some(path.clone()), ..spec(address) })
            .unwrap_err()
            .to_string()
    };
    assert!(error(&path).contains("ca.pem: cannot use the certificates: No such file"), "{}", error(&path));
    std::fs::write(&path, "nothing").unwrap();
    assert!(error(&path).ends_with("it holds no certificate; expected a PEM file"), "{}", error(&path));
}

#[tokio::test]
async fn a_port_that_speaks_plain_http_is_named_at_once() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut hello = [0; 4096];
            let _ = stream.read(&mut hello).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    let model = EndpointModel::new(spec(address)).unwrap();
    let answer = model.answer(vec![request(&[(Role::User, &[text("why?")])])]).await.remove(0);
    let error = answer.error.unwrap();
    assert_eq!((answer.outcome, answer.attempts), (Outcome::RequestError, 1), "{error}");
    assert!(error.ends_with("; the server does not speak HTTPS at this port: write http://"), "{error}");
}
