//! `ListTasks`: pages of what the register knows, the latest first.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::Timestamp;
use wire::a2a::{ListTasks, ListTasksResponse};

use crate::{
    clock,
    error::Refusal,
    face::Face,
    operations::{check_history, shortened},
    request::Call,
};

/// Tasks on a page unless the client says otherwise, and at most.
const PAGE_SIZE: i64 = 50;
const PAGE_MAX: i64 = 100;

/// What the tasks of a page may weigh before it ends; the last of them may be large by itself.
const PAGE_WEIGHT: usize = 8 * 1024 * 1024;

impl Face {
    pub(crate) async fn list(
        &self,
        call: &Call,
        list: ListTasks,
    ) -> Result<ListTasksResponse, Refusal> {
        check_history(list.history_length)?;
        self.know_all().await?;
        let size = list.page_size.unwrap_or(PAGE_SIZE);
        if !(1..=PAGE_MAX).contains(&size) {
            let words = format!("a page has 1 to {PAGE_MAX} tasks");
            return Err(Refusal::invalid("pageSize", words));
        }
        let after = list.status_timestamp_after.as_deref();
        let after = after
            .filter(|text| !text.is_empty())
            .map(|text| {
                let wrong = || Refusal::invalid("statusTimestampAfter", "it is no moment");
                clock::parse(text).ok_or_else(wrong)
            })
            .transpose()?;
        let token = list.page_token.as_deref().filter(|token| !token.is_empty());
        let cursor = token.map(read_token).transpose()?;
        let context = list.context_id.as_deref().filter(|id| !id.is_empty());
        let picked = self.register.pick(|entry| {
            self.is_visible(call, entry)
                && context.is_none_or(|context| entry.context == context)
                && list.status.is_none_or(|status| entry.state == status)
                && after.is_none_or(|Timestamp(after)| entry.at >= after)
        });
        let total = picked.len();
        let mut page = picked
            .into_iter()
            .filter(|place| cursor.as_ref().is_none_or(|cursor| place < cursor))
            .peekable();
        let with_artifacts = list.include_artifacts == Some(true);
        let (mut tasks, mut weight, mut last) = (Vec::new(), 0, None);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        while tasks.len() < size && weight < PAGE_WEIGHT {
            let Some(place) = page.next() else { break };
            if let Some(feed) = self.feed_of(&place.1).await {
                let mut task = shortened(&feed.task(), list.history_length);
                if !with_artifacts {
                    task.artifacts.clear();
                }
                weight += task.weight();
                tasks.push(task);
            }
            last = Some(place);
        }
        let next_page_token = match (last, page.peek()) {
            (Some(last), Some(_)) => write_token(&last),
            _ => String::new(),
        };
        Ok(ListTasksResponse {
            page_size: i64::try_from(tasks.len()).unwrap_or(i64::MAX),
            tasks,
            next_page_token,
            total_size: i64::try_from(total).unwrap_or(i64::MAX),
        })
    }
}

fn write_token((at, id): &(i64, String)) -> String {
    URL_SAFE_NO_PAD.encode(format!("{at}/{id}"))
}

fn read_token(token: &str) -> Result<(i64, String), Refusal> {
    let wrong = || Refusal::invalid("pageToken", "it is none of ours");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| wrong())?;
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    let (at, id) = text.split_once('/').ok_or_else(wrong)?;
    Ok((at.parse().map_err(|_| wrong())?, id.to_owned()))
}
