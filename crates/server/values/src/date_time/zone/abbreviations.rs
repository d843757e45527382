//! Abbreviations of time zones, as PostgreSQL's default set has them.

/// The meaning of an abbreviation.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// A fixed number of seconds east of Greenwich.
    Standard(i64),
    /// The same, in the time of the summer.
    Daylight(i64),
    /// The offset that this zone has at the moment in question while it uses the abbreviation.
    Zone(chrono_tz::Tz),
}

use Meaning::{Daylight, Standard, Zone};
use chrono_tz::Tz;

/// Abbreviations in lower case, in their order.
#[rustfmt::skip]
pub(super) const ABBREVIATIONS: &[(&str, Meaning)] = &[
    ("acdt", Daylight(37800)), ("acsst", Daylight(37800)), ("acst", Standard(34200)),
    ("act", Standard(-18000)), ("acwst", Standard(31500)), ("adt", Daylight(-10800)),
    ("aedt", Daylight(39600)), ("aesst", Daylight(39600)), ("aest", Standard(36000)),
    ("aft", Standard(16200)), ("akdt", Daylight(-28800)), ("akst", Standard(-32400)),
    ("almst", Daylight(25200)), ("almt", Standard(21600)), ("amst", Zone(Tz::Asia__Yerevan)),
    ("amt", Standard(-14400)), ("anast", Zone(Tz::Asia__Anadyr)), ("anat", Zone(Tz::Asia__Anadyr)),
    ("arst", Zone(Tz::America__Argentina__Buenos_Aires)),
    ("art", Zone(Tz::America__Argentina__Buenos_Aires)), ("ast", Standard(-14400)),
    ("awsst", Daylight(32400)), ("awst", Standard(28800)), ("azost", Daylight(0)),
    ("azot", Standard(-3600)), ("azst", Zone(Tz::Asia__Baku)), ("azt", Zone(Tz::Asia__Baku)),
    ("bdst", Daylight(7200)), ("bdt", Standard(21600)), ("bnt", Standard(28800)), ("bort", Standard(28800)),
    ("bot", Standard(-14400)), ("bra", Standard(-10800)), ("brst", Daylight(-7200)),
    ("brt", Standard(-10800)), ("bst", Daylight(3600)), ("btt", Standard(21600)), ("cadt", Daylight(37800)),
    ("cast", Standard(34200)), ("cct", Standard(28800)), ("cdt", Daylight(-18000)),
    ("cest", Daylight(7200)), ("cet", Standard(3600)), ("cetdst", Daylight(7200)),
    ("chadt", Daylight(49500)), ("chast", Standard(45900)), ("chut", Standard(36000)),
    ("ckt", Zone(Tz::Pacific__Rarotonga)), ("clst", Daylight(-10800)), ("clt", Zone(Tz::America__Santiago)),
    ("cot", Standard(-18000)), ("cst", Standard(-21600)), ("cxt", Standard(25200)),
    ("davt", Zone(Tz::Antarctica__Davis)), ("ddut", Standard(36000)), ("easst", Zone(Tz::Pacific__Easter)),
    ("east", Zone(Tz::Pacific__Easter)), ("eat", Standard(10800)), ("edt", Daylight(-14400)),
    ("eest", Daylight(10800)), ("eet", Standard(7200)), ("eetdst", Daylight(10800)), ("egst", Daylight(0)),
    ("egt", Standard(-3600)), ("est", Standard(-18000)), ("fet", Standard(10800)),
    ("fjst", Daylight(46800)), ("fjt", Standard(43200)), ("fkst", Zone(Tz::Atlantic__Stanley)),
    ("fkt", Zone(Tz::Atlantic__Stanley)), ("fnst", Daylight(-3600)), ("fnt", Standard(-7200)),
    ("galt", Standard(-21600)), ("gamt", Standard(-32400)), ("gest", Zone(Tz::Asia__Tbilisi)),
    ("get", Zone(Tz::Asia__Tbilisi)), ("gft", Standard(-10800)), ("gilt", Standard(43200)),
    ("gmt", Standard(0)), ("gyt", Zone(Tz::America__Guyana)), ("hkt", Standard(28800)),
    ("hst", Standard(-36000)), ("ict", Standard(25200)), ("idt", Daylight(10800)),
    ("iot", Zone(Tz::Indian__Chagos)), ("irkst", Zone(Tz::Asia__Irkutsk)),
    ("irkt", Zone(Tz::Asia__Irkutsk)), ("irt", Standard(12600)), ("ist", Standard(7200)),
    ("jayt", Standard(32400)), ("jst", Standard(32400)), ("kdt", Daylight(36000)),
    ("kgst", Daylight(21600)), ("kgt", Zone(Tz::Asia__Bishkek)), ("kost", Zone(Tz::Pacific__Kosrae)),
    ("krast", Zone(Tz::Asia__Krasnoyarsk)), ("krat", Zone(Tz::Asia__Krasnoyarsk)), ("kst", Standard(32400)),
    ("lhdt", Zone(Tz::Australia__Lord_Howe)), ("lhst", Standard(37800)), ("ligt", Standard(36000)),
    ("lint", Zone(Tz::Pacific__Kiritimati)), ("lkt", Zone(Tz::Asia__Colombo)),
    ("magst", Zone(Tz::Asia__Magadan)), ("magt", Zone(Tz::Asia__Magadan)), ("mart", Standard(-34200)),
    ("mawt", Zone(Tz::Antarctica__Mawson)), ("mdt", Daylight(-21600)), ("mest", Daylight(7200)),
    ("mesz", Daylight(7200)), ("met", Standard(3600)), ("metdst", Daylight(7200)), ("mez", Standard(3600)),
    ("mht", Standard(43200)), ("mmt", Standard(23400)), ("mpt", Standard(36000)), ("msd", Daylight(14400)),
    ("msk", Zone(Tz::Europe__Moscow)), ("mst", Standard(-25200)), ("must", Daylight(18000)),
    ("mut", Standard(14400)), ("mvt", Standard(18000)), ("myt", Standard(28800)), ("ndt", Daylight(-9000)),
    ("nft", Standard(-12600)), ("novst", Zone(Tz::Asia__Novosibirsk)),
    ("novt", Zone(Tz::Asia__Novosibirsk)), ("npt", Standard(20700)), ("nst", Standard(-12600)),
    ("nut", Zone(Tz::Pacific__Niue)), ("nzdt", Daylight(46800)), ("nzst", Standard(43200)),
    ("nzt", Standard(43200)), ("omsst", Zone(Tz::Asia__Omsk)), ("omst", Zone(Tz::Asia__Omsk)),
    ("pdt", Daylight(-25200)), ("pet", Standard(-18000)), ("petst", Zone(Tz::Asia__Kamchatka)),
    ("pett", Zone(Tz::Asia__Kamchatka)), ("pgt", Standard(36000)), ("pht", Standard(28800)),
    ("pkst", Daylight(21600)), ("pkt", Standard(18000)), ("pmdt", Daylight(-7200)),
    ("pmst", Standard(-10800)), ("pont", Standard(39600)), ("pst", Standard(-28800)),
    ("pwt", Standard(32400)), ("pyst", Daylight(-10800)), ("pyt", Zone(Tz::America__Asuncion)),
    ("ret", Standard(14400)), ("sadt", Daylight(37800)), ("sast", Standard(7200)), ("sct", Standard(14400)),
    ("sgt", Zone(Tz::Asia__Singapore)), ("taht", Standard(-36000)), ("tft", Standard(18000)),
    ("tjt", Standard(18000)), ("tkt", Zone(Tz::Pacific__Fakaofo)), ("tmt", Zone(Tz::Asia__Ashgabat)),
    ("tot", Standard(46800)), ("trut", Standard(36000)), ("tvt", Standard(43200)), ("uct", Standard(0)),
    ("ulast", Daylight(32400)), ("ulat", Zone(Tz::Asia__Ulaanbaatar)), ("ut", Standard(0)),
    ("utc", Standard(0)), ("uyst", Daylight(-7200)), ("uyt", Standard(-10800)), ("uzst", Daylight(21600)),
    ("uzt", Standard(18000)), ("vet", Zone(Tz::America__Caracas)), ("vlast", Zone(Tz::Asia__Vladivostok)),
    ("vlat", Zone(Tz::Asia__Vladivostok)), ("volt", Zone(Tz::Europe__Volgograd)), ("vut", Standard(39600)),
    ("wadt", Daylight(28800)), ("wakt", Standard(43200)), ("wast", Standard(25200)),
    ("wat", Standard(3600)), ("wdt", Daylight(32400)), ("wet", Standard(0)), ("wetdst", Daylight(3600)),
    ("wft", Standard(43200)), ("wgst", Daylight(-7200)), ("wgt", Standard(-10800)),
    ("xjt", Standard(21600)), ("yakst", Zone(Tz::Asia__Yakutsk)), ("yakt", Zone(Tz::Asia__Yakutsk)),
    ("yapt", Standard(36000)), ("yekst", Daylight(21600)), ("yekt", Zone(Tz::Asia__Yekaterinburg)),
    ("z", Standard(0)), ("zulu", Standard(0)),
];
