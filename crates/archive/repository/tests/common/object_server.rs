//! A store in memory that speaks as much of the protocol of S3 and of Google as a repository needs: both list in the same XML.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use super::store_server::{Reply, Request, StoreServer};

/// Contents by the name of the object, without the bucket.
pub(crate) type Objects = BTreeMap<String, Vec<u8>>;

/// A store on the loopback interface, with the bucket `bucket`.
pub(crate) struct ObjectServer {
    pub(crate) server: StoreServer,
    pub(crate) objects: Arc<Mutex<Objects>>,
}

impl ObjectServer {
    /// `answer` is asked first, and leaves to the store what it has no answer to.
    pub(crate) fn start(
        answer: impl Fn(&Request, &mut Objects) -> Option<Reply> + Send + Sync + 'static,
    ) -> ObjectServer {
        let objects: Arc<Mutex<Objects>> = Arc::default();
        let shared = Arc::clone(&objects);
        let server = StoreServer::start(move |request| {
            let mut objects = shared.lock().unwrap();
            answer(request, &mut objects).unwrap_or_else(|| reply(request, &mut objects))
        });
        ObjectServer { server, objects }
    }
}

fn reply(request: &Request, objects: &mut Objects) -> Reply {
    let path = decoded(&request.path);
    let Some(name) = path.strip_prefix("/bucket/").filter(|name| !name.is_empty()) else {
        let names = objects.iter().map(|(name, body)| (name.clone(), body.len()));
        return Reply::Status(200, listing(&names.collect::<Vec<_>>(), &request.query));
    };
    match (request.method.as_str(), objects.contains_key(name)) {
        ("PUT", true) if request.if_none_match => Reply::Status(412, Vec::new()),
        ("PUT", _) => {
            objects.insert(name.to_owned(), request.body.clone());
            Reply::Status(200, Vec::new())
        }
        ("DELETE", is_there) => {
            objects.remove(name);
            Reply::Status(if is_there { 204 } else { 404 }, Vec::new())
        }
        (_, true) => Reply::Status(200, objects[name].clone()),
        (_, false) => Reply::Status(404, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
    }
}

/// What a store answers that has `names`, with their lengths, in this order.
pub(crate) fn listing(names: &[(String, usize)], query: &str) -> Vec<u8> {
    let field = |name: &str| query.split('&').find_map(|field| field.strip_prefix(name)).map(decoded);
    let (prefix, is_flat) = (field("prefix=").unwrap_or_default(), field("delimiter=").is_none());
    let mut directories = BTreeSet::new();
    let mut text = "<ListBucketResult>".to_owned();
    for (name, bytes) in names {
        let Some(rest) = name.strip_prefix(&prefix) else { continue };
        match rest.split_once('/') {
            Some((directory, _)) if !is_flat => drop(directories.insert(format!("{prefix}{directory}/"))),
            _ => text += &contents(name, *bytes),
        }
    }
    for directory in directories {
        write!(text, "<CommonPrefixes><Prefix>{directory}</Prefix></CommonPrefixes>").unwrap();
    }
    (text + "</ListBucketResult>").into_bytes()
}

fn contents(name: &str, bytes: usize) -> String {
    let mut escaped = String::new();
    for character in name.chars() {
        match character {
            '&' | '<' | '>' | '\n' => write!(escaped, "&#{};", u32::from(character)).unwrap(),
            _ => escaped.push(character),
        }
    }
    format!(
        "<Contents><Key>{escaped}</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified><ETag>\"1\"</ETag><Size>{bytes}</Size>\
         </Contents>"
    )
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let hexadecimal = others.first_chunk::<2>().filter(|_| *first == b'%');
        let code =
            hexadecimal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &others[2..] } else { others };
    }
    String::from_utf8(bytes).unwrap()
}
