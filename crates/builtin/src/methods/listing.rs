//! The list of sessions, page by page.

use agent_client_protocol_schema::v1::{ListSessionsRequest, ListSessionsResponse, SessionInfo};
use jsonrpc::ErrorObject;

use crate::archive::Glance;

/// Sessions in one answer to `session/list`.
const PAGE: usize = 50;

/// The page that was asked for, of the newest sessions first.
pub(super) fn page(
    mut glances: Vec<Glance>,
    request: &ListSessionsRequest,
) -> Result<ListSessionsResponse, ErrorObject> {
    let start: usize = match &request.cursor {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| {
            ErrorObject::invalid_params(format!("the cursor {cursor:?} is not one of ours"))
        })?,
    };
    glances.retain(|glance| {
        request
            .cwd
            .as_ref()
            .is_none_or(|cwd| glance.header.cwd == *cwd)
    });
    glances.sort_by_key(|glance| std::cmp::Reverse(glance.updated_at));
    let end = start.saturating_add(PAGE);
    let next = (glances.len() > end).then(|| end.to_string());
    let page = glances.into_iter().skip(start).take(PAGE).map(session_info);
    Ok(ListSessionsResponse::new(page.collect()).next_cursor(next))
}

fn session_info(glance: Glance) -> SessionInfo {
    let updated_at = jiff::Timestamp::try_from(glance.updated_at).ok();
    SessionInfo::new(glance.header.session_id, glance.header.cwd)
        .title(glance.title)
        .updated_at(updated_at.map(|time| time.to_string()))
}
