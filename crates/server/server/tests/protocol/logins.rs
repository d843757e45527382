//! From the first byte to a session, or a refusal.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use seawall_server::{Configuration, Server, TlsFiles};
use seawall_testing::wait_until;

use crate::client::{Client, VERSION, message, startup, text};
use crate::fake::Fake;
use crate::{configuration, running, running_with};

fn refusal(client: &mut Client) -> String {
    client.answers().join(" / ")
}

fn refusal_of(port: u16, first: &[u8]) -> String {
    let mut client = Client::tcp(port);
    client.send(first);
    refusal(&mut client)
}

#[test]
fn startup_packets_that_cannot_be_are_refused() {
    let server = running();
    let closed = |error: &str| format!("Error FATAL {error} / closed");
    for (packet, expected) in [
        (startup(2 << 16, &[]), "0A000 unsupported frontend protocol 2.0: server supports 3.0 to 3.2"),
        (startup(VERSION, &[]), "28000 no PostgreSQL user name specified in startup packet"),
        (startup(VERSION, &[("user", "")]), "28000 no PostgreSQL user name specified in startup packet"),
        (startup(VERSION, &[("user", "nobody")]), "28000 role \"nobody\" does not exist"),
        (
            startup(VERSION, &[("user", "bob"), ("replication", "true")]),
            "42501 must be superuser or replication role to start walsender",
        ),
        (
            startup(VERSION, &[("user", "bob"), ("replication", "database")]),
            "0A000 logical replication is not supported",
        ),
        (
            startup(VERSION, &[("user", "bob"), ("replication", "maybe")]),
            "22023 invalid value for parameter \"replication\": \"maybe\"",
        ),
        (
            startup(VERSION, &[("user", "bob"), ("options", "-x")]),
            "42601 invalid command-line argument for server process: -x",
        ),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "08P01 invalid length of startup packet"),
    ] {
        assert_eq!(refusal_of(server.port(), &packet), closed(expected));
    }
}

#[test]
fn a_newer_client_is_told_what_it_does_without() {
    let server = running();
    let mut client = Client::tcp(server.port());
    client.send(&startup(VERSION | 9999, &[("user", "bob"), ("_pq_.future", "1")]));
    assert_eq!(client.answers()[0], "NegotiateProtocolVersion 0x30002");
    let mut client = Client::tcp(server.port());
    client.send(&startup(VERSION | 2, &[("user", "bob")]));
    client.finish_login();
    assert_eq!(client.key.len(), 32);
    let client = Client::logged_in(server.port(), "bob");
    assert_eq!(client.key.len(), 4);
    assert_eq!(client.settings[0].0, "server_version");
}

#[test]
fn a_server_that_is_starting_says_so() {
    let server = Server::start(&configuration()).unwrap();
    let startup = startup(VERSION, &[("user", "bob")]);
    let expected = "Error FATAL 57P03 the database system is starting up / closed";
    assert_eq!(refusal_of(server.port(), &startup), expected);
    server.serve(Arc::new(Fake::default()));
    Client::logged_in(server.port(), "bob");
}

#[test]
fn rules_decide_who_connects() {
    let rules = ["host all mallory all reject", "host postgres all 127.0.0.0/8 trust"];
    let access = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let server = running_with(&Configuration { access, ..configuration() });
    Client::logged_in(server.port(), "bob");
    for (user, database, expected) in
        [("mallory", "postgres", "an access rule rejects host"), ("bob", "other", "no access rule for host")]
    {
        let refused = refusal_of(server.port(), &startup(VERSION, &[("user", user), ("database", database)]));
        let rest = format!("\"127.0.0.1\", user \"{user}\", database \"{database}\", no encryption / closed");
        assert_eq!(refused, format!("Error FATAL 28000 {expected} {rest}"));
    }
}

#[test]
fn as_many_connect_as_may_and_superusers_a_few_more() {
    let limits = Configuration { connections_max: 3, connections_reserved: 1, ..configuration() };
    let server = running_with(&limits);
    let _first = Client::logged_in(server.port(), "bob");
    let second = Client::logged_in(server.port(), "bob");
    let startup = startup(VERSION, &[("user", "bob")]);
    let reserved = "remaining connection slots are reserved for non-replication superuser connections";
    wait_until("no place is taken by a login that failed", || {
        refusal_of(server.port(), &startup) == format!("Error FATAL 53300 {reserved} / closed")
    });
    let third = Client::logged_in(server.port(), "admin");
    let expected = "Error FATAL 53300 sorry, too many clients already / closed";
    assert_eq!(refusal_of(server.port(), &startup), expected);
    drop((second, third));
    Client::admitted(server.port(), "bob");
}

/// As a password manager would: with the tools of `seawall-sql` for the client's side.
fn log_in_with(client: &mut Client, user: &str, password: &str) -> Result<(), String> {
    use base64ct::{Base64, Encoding};
    use seawall_sql::password::{hashed, salted_password, signed};
    client.send(&startup(VERSION, &[("user", user), ("database", "postgres")]));
    let asked = client.receive().unwrap();
    assert_eq!(asked.body, b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    let first = "n=,r=abcdef";
    let initial = format!("n,,{first}");
    let length = i32::try_from(initial.len()).unwrap().to_be_bytes();
    client.send(&message(b'p', &[&text(&["SCRAM-SHA-256"]), &length[..], initial.as_bytes()].concat()));
    let answer = client.receive().unwrap();
    let answer = String::from_utf8(answer.body[4..].to_vec()).unwrap();
    let part = |name: &str| answer.split(',').find_map(|part| part.strip_prefix(name)).unwrap();
    let salt = Base64::decode_vec(part("s=")).unwrap();
    let salted = salted_password(password.as_bytes(), &salt, part("i=").parse().unwrap());
    let client_key = signed(&salted, &[b"Client Key"]);
    let last = format!("c=biws,r={}", part("r="));
    let mut proof = signed(&hashed(&client_key), &[format!("{first},{answer},{last}").as_bytes()]);
    proof.iter_mut().zip(client_key).for_each(|(byte, other)| *byte ^= other);
    client.send(&message(b'p', format!("{last},p={}", Base64::encode_string(&proof)).as_bytes()));
    let answers = client.answers();
    match answers.last().map(String::as_str) {
        Some("ReadyForQuery I") => Ok(()),
        _ => Err(answers.join(" / ")),
    }
}

#[test]
fn a_password_is_proved() {
    let access = vec!["host all all all scram-sha-256".parse().unwrap()];
    let server = running_with(&Configuration { access, ..configuration() });
    log_in_with(&mut Client::tcp(server.port()), "alice", crate::fake::PASSWORD).unwrap();
    // A role without a password, and one that there is not, fail as a wrong password does.
    for (user, password) in [("alice", "wrong"), ("bob", "x"), ("nobody", "x")] {
        let refused = log_in_with(&mut Client::tcp(server.port()), user, password).unwrap_err();
        let expected =
            format!("Error FATAL 28P01 password authentication failed for user \"{user}\" / closed");
        assert_eq!(refused, expected);
    }
    log_in_with(&mut Client::tcp(server.port()), "alice", crate::fake::PASSWORD).unwrap();
}

#[test]
fn other_answers_to_a_question_for_a_password_are_refused() {
    let access = vec!["host all all all scram-sha-256".parse().unwrap()];
    let server = running_with(&Configuration { access, ..configuration() });
    for (sent, expected) in [
        (message(b'Q', b"\0"), "expected SASL response, got message type 81"),
        (message(b'p', &text(&["PLAIN", ""])), "insufficient data left in message"),
        (
            message(b'p', b"PLAIN\0\xff\xff\xff\xff"),
            "client selected an invalid SASL authentication mechanism",
        ),
        (message(b'p', b"SCRAM-SHA-256\0\xff\xff\xff\xff"), "the client's first SCRAM message is missing"),
    ] {
        let mut client = Client::tcp(server.port());
        client.send(&startup(VERSION, &[("user", "alice")]));
        client.receive().unwrap();
        client.send(&sent);
        assert_eq!(refusal(&mut client), format!("Error FATAL 08P01 {expected} / closed"));
    }
}

#[test]
fn a_login_has_a_limit_of_time() {
    let limit = Duration::from_millis(50);
    let server = running_with(&Configuration { authentication_timeout: limit, ..configuration() });
    let mut silent = Client::tcp(server.port());
    assert_eq!(silent.receive(), None);
    let mut slow = Client::tcp(server.port());
    slow.send(&startup(VERSION, &[("user", "bob")])[..7]);
    assert_eq!(slow.receive(), None);
}

#[test]
fn the_unix_socket_is_as_good() {
    let directory = tempfile::tempdir().unwrap();
    let socket_directory = Some(directory.path().to_owned());
    let server = running_with(&Configuration { socket_directory, ..configuration() });
    let path = directory.path().join(format!(".s.PGSQL.{}", server.port()));
    let mut client = Client::of(UnixStream::connect(path).unwrap());
    client.log_in("bob");
    assert_eq!(client.query("SELECT generate_series(1, 0)").last().unwrap(), "ReadyForQuery I");
}

const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
const GSSAPI_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30];

#[test]
fn a_server_without_a_certificate_goes_on_in_clear() {
    let server = running();
    let mut client = Client::tcp(server.port());
    client.send(&GSSAPI_REQUEST);
    assert_eq!(client.byte(), b'N');
    client.send(&TLS_REQUEST);
    assert_eq!(client.byte(), b'N');
    client.log_in("bob");
}

/// A certificate of `localhost`, and its key, which only its owner may read.
fn certificate(directory: &std::path::Path) -> TlsFiles {
    let files = TlsFiles { certificate: directory.join("certificate.pem"), key: directory.join("key.pem") };
    std::fs::write(&files.certificate, include_str!("certificate.pem")).unwrap();
    std::fs::write(&files.key, include_str!("key.pem")).unwrap();
    std::fs::set_permissions(&files.key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    files
}

/// A client of TLS that takes any certificate.
fn encrypted(
    stream: TcpStream,
    protocols: &[&[u8]],
) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    #[derive(Debug)]
    struct AnyCertificate;
    impl ServerCertVerifier for AnyCertificate {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            vec![rustls::SignatureScheme::ECDSA_NISTP256_SHA256]
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    rustls::StreamOwned::new(connection, stream)
}

impl crate::client::Stream for rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    fn set_limit(&self, limit: Duration) -> std::io::Result<()> {
        self.sock.set_read_timeout(Some(limit))
    }
}

#[test]
fn connections_are_encrypted() {
    let directory = tempfile::tempdir().unwrap();
    let files = certificate(directory.path());
    let access = vec!["hostssl all all all trust".parse().unwrap()];
    let server = running_with(&Configuration { tls: Some(files.clone()), access, ..configuration() });
    let connect = || TcpStream::connect(("127.0.0.1", server.port())).unwrap();

    let mut asking = connect();
    asking.write_all(&TLS_REQUEST).unwrap();
    let mut answer = [0];
    asking.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"S");
    let mut client = Client::of(encrypted(asking, &[]));
    client.log_in("bob");
    assert_eq!(client.query("SELECT repeat('x', 1000) FROM generate_series(1, 1000)").len(), 1003);

    let mut client = Client::of(encrypted(connect(), &[b"postgresql"]));
    client.log_in("bob");
    let mut client = Client::of(encrypted(connect(), &[]));
    assert!(refusal(&mut client).contains("without ALPN protocol negotiation extension"));

    let mut eager = Client::of(connect());
    eager.send(&[&TLS_REQUEST[..], &startup(VERSION, &[("user", "bob")])].concat());
    assert!(refusal(&mut eager).starts_with("Error FATAL 08P01 received unencrypted data after SSL request"));
    let mut clear = Client::of(connect());
    clear.send(&startup(VERSION, &[("user", "bob")]));
    assert!(refusal(&mut clear).starts_with("Error FATAL 28000 no access rule for host"));

    // Of a key that others may read nobody knows who has it.
    std::fs::set_permissions(&files.key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let open = Server::start(&Configuration { tls: Some(files), ..configuration() });
    assert!(open.unwrap_err().to_string().contains("others may read the private key"));
}
