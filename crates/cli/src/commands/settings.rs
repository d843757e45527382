//! `settings`.

use seawall_settings::Listed;
use serde_json::{Value, json};

use crate::arguments::Shared;
use crate::failure::Failure;
use crate::output::{Output, escape};

pub(crate) fn show(shared: &Shared, output: &mut Output) -> Result<(), Failure> {
    let listing = shared.settings.listing();
    let width = listing.iter().map(|listed| listed.name.len()).max().unwrap_or(0);
    for listed in &listing {
        let (name, value, origin) = (&listed.name, value_text(listed), listed.origin.to_string());
        output.answer(
            &value_json(listed),
            format_args!("{name:width$}  {value}  ({})", escape(origin.as_bytes())),
        )?;
    }
    Ok(())
}

fn value_text(listed: &Listed) -> String {
    match (listed.is_hidden, listed.unset) {
        (true, _) => "hidden".to_owned(),
        (false, Some(words)) => words.replace('`', ""),
        (false, None) => escape(listed.values.join(" ").as_bytes()),
    }
}

fn value_json(listed: &Listed) -> Value {
    json!({
        "setting": listed.name, "values": listed.values, "hidden": listed.is_hidden,
        "from": listed.origin.level(), "place": listed.origin.to_string(),
    })
}
