//! PostgreSQL's protocol over `seawall-sql`: sessions, authentication, limits, configuration.
