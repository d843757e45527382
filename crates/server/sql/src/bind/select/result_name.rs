//! The name that PostgreSQL gives a result without an alias.

use sqlparser::ast::{Expr, SelectItem, SetExpr};

use super::super::expression::{folded, qualified};

/// The name that PostgreSQL gives a result without an alias.
pub(super) fn column_name(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::Identifier(ident) => folded(ident),
        Expr::CompoundIdentifier(parts) => folded(parts.last()?),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                sqlparser::ast::AccessExpr::Dot(Expr::Identifier(name)) => Some(folded(name)),
                _ => None,
            });
            return field.or_else(|| column_name(root));
        }
        Expr::Nested(inner) => return column_name(inner),
        Expr::Function(call) => match qualified(&call.name).1.as_str() {
            "user" | "current_role" => qualified(&call.name).1,
            name => name.to_owned(),
        },
        Expr::Cast { expr, data_type, .. } => {
            return column_name(expr).filter(|_| !is_weak(expr)).or_else(|| Some(internal_name(data_type)));
        }
        Expr::TypedString(typed) => internal_name(&typed.data_type),
        Expr::Prefixed { prefix, .. } => folded(prefix),
        Expr::Interval(_) => "interval".to_owned(),
        Expr::Case { else_result, .. } => {
            let inner = else_result.as_deref().filter(|inner| !is_weak(inner)).and_then(column_name);
            inner.unwrap_or_else(|| "case".to_owned())
        }
        Expr::Exists { negated: false, .. } => "exists".to_owned(),
        Expr::Subquery(query) => return first_name(&query.body),
        Expr::Array(_) => "array".to_owned(),
        Expr::Tuple(_) => "row".to_owned(),
        Expr::Extract { .. } => "extract".to_owned(),
        Expr::Position { .. } => "position".to_owned(),
        Expr::Substring { .. } => "substring".to_owned(),
        Expr::Overlay { .. } => "overlay".to_owned(),
        Expr::Ceil { .. } => "ceil".to_owned(),
        Expr::Floor { .. } => "floor".to_owned(),
        Expr::AtTimeZone { .. } => "timezone".to_owned(),
        Expr::Trim { trim_where, .. } => match trim_where {
            Some(sqlparser::ast::TrimWhereField::Leading) => "ltrim".to_owned(),
            Some(sqlparser::ast::TrimWhereField::Trailing) => "rtrim".to_owned(),
            _ => "btrim".to_owned(),
        },
        Expr::Collate { expr, .. } => return column_name(expr),
        _ => return None,
    })
}

/// Names that a cast around replaces.
fn is_weak(expr: &Expr) -> bool {
    match expr {
        Expr::Cast { .. } | Expr::TypedString(_) | Expr::Case { .. } | Expr::Interval(_) => true,
        Expr::Value(_) => true,
        Expr::Nested(inner) => is_weak(inner),
        _ => false,
    }
}

fn first_name(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => column_name(expr),
            SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
            _ => None,
        },
        SetExpr::Query(query) => first_name(&query.body),
        SetExpr::SetOperation { left, .. } => first_name(left),
        SetExpr::Values(_) => Some("column1".to_owned()),
        _ => None,
    }
}

/// The name of a type as PostgreSQL's grammar has it inside: `int4` for `integer`.
fn internal_name(data_type: &sqlparser::ast::DataType) -> String {
    use sqlparser::ast::{ArrayElemTypeDef, DataType as D, TimezoneInfo as Z};
    let name = match data_type {
        D::Character(_) | D::Char(_) => "bpchar",
        D::CharacterVarying(_) | D::CharVarying(_) | D::Varchar(_) => "varchar",
        D::Numeric(_) | D::Decimal(_) | D::Dec(_) => "numeric",
        D::Float(_) | D::Float8 | D::DoublePrecision | D::Double(_) => "float8",
        D::Int2(_) | D::SmallInt(_) => "int2",
        D::Int(_) | D::Int4(_) | D::Integer(_) => "int4",
        D::Int8(_) | D::BigInt(_) => "int8",
        D::Float4 | D::Real => "float4",
        D::Bool | D::Boolean => "bool",
        D::Time(_, Z::WithTimeZone | Z::Tz) => "timetz",
        D::Time(..) => "time",
        D::Timestamp(_, Z::WithTimeZone | Z::Tz) => "timestamptz",
        D::Timestamp(..) => "timestamp",
        D::Interval { .. } => "interval",
        D::BitVarying(_) | D::VarBit(_) => "varbit",
        D::Bit(_) => "bit",
        D::Array(ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::Qualified(element, _)) => {
            return internal_name(element);
        }
        D::Custom(name, _) => return qualified(name).1,
        other => return other.to_string().to_lowercase(),
    };
    name.to_owned()
}
