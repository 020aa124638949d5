//! Names of events: who sends them is in the prefix, and some differ between the profiles.

use super::Profile;

/// What an agent asks of a computer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientEvent {
    ToolCall,
    GetTools,
    GetConfig,
    GetDesktop,
    GetResources,
    GetSkills,
    GetSkill,
    GetBlob,
    PutBlob,
}

impl ClientEvent {
    const ALL: [Self; 9] = [
        Self::ToolCall,
        Self::GetTools,
        Self::GetConfig,
        Self::GetDesktop,
        Self::GetResources,
        Self::GetSkills,
        Self::GetSkill,
        Self::GetBlob,
        Self::PutBlob,
    ];

    pub fn name(self, profile: Profile) -> &'static str {
        match (self, profile) {
            (Self::GetConfig, Profile::Seed) => "client:get_mcp_config",
            (Self::GetConfig, Profile::Shipped) => "client:get_config",
            (Self::ToolCall, _) => "client:tool_call",
            (Self::GetTools, _) => "client:get_tools",
            (Self::GetDesktop, _) => "client:get_desktop",
            (Self::GetResources, _) => "client:get_resources",
            (Self::GetSkills, _) => "client:get_skills",
            (Self::GetSkill, _) => "client:get_skill",
            (Self::GetBlob, _) => "client:get_blob",
            (Self::PutBlob, _) => "client:put_blob",
        }
    }

    /// The event of this name in either profile.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|event| event.name(Profile::Seed) == name || event.name(Profile::Shipped) == name)
    }
}

/// What of a computer has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    Config,
    ToolList,
    Desktop,
    Skills,
}

impl Change {
    const ALL: [Self; 4] = [Self::Config, Self::ToolList, Self::Desktop, Self::Skills];

    fn word(self, profile: Profile) -> Option<&'static str> {
        match (self, profile) {
            (Self::Config, Profile::Seed) => Some("update_mcp_config"),
            (Self::Config, Profile::Shipped) => Some("update_config"),
            // The specification has one word for everything that makes an agent look at the tools again.
            (Self::ToolList, Profile::Seed) => Some("update_mcp_config"),
            (Self::ToolList, Profile::Shipped) => Some("update_tool_list"),
            (Self::Desktop, Profile::Seed) => Some("desktop_refresh"),
            (Self::Desktop, Profile::Shipped) => Some("update_desktop"),
            (Self::Skills, Profile::Seed) => None,
            (Self::Skills, Profile::Shipped) => Some("update_skills"),
        }
    }

    /// What the server tells the others, if the profile has a word for it.
    pub fn notice(self, profile: Profile) -> Option<String> {
        Some(format!("notify:{}", self.word(profile)?))
    }

    /// What a computer tells the server.
    pub fn announcement(self, profile: Profile) -> Option<String> {
        Some(format!("server:{}", self.word(profile)?))
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|change| {
            change.word(Profile::Seed) == Some(word) || change.word(Profile::Shipped) == Some(word)
        })
    }
}

/// What the server itself is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerEvent {
    JoinOffice,
    LeaveOffice,
    ListRoom,
    ToolCallCancel,
    /// A word of ours: the protocol has none for it.
    ToolCallProgress,
    Update(Change),
}

impl ServerEvent {
    pub const JOIN_OFFICE: &'static str = "server:join_office";
    pub const LEAVE_OFFICE: &'static str = "server:leave_office";
    pub const LIST_ROOM: &'static str = "server:list_room";
    pub const TOOL_CALL_CANCEL: &'static str = "server:tool_call_cancel";
    pub const TOOL_CALL_PROGRESS: &'static str = "server:tool_call_progress";

    pub fn parse(name: &str) -> Option<Self> {
        match name {
            Self::JOIN_OFFICE => Some(Self::JoinOffice),
            Self::LEAVE_OFFICE => Some(Self::LeaveOffice),
            Self::LIST_ROOM => Some(Self::ListRoom),
            Self::TOOL_CALL_CANCEL => Some(Self::ToolCallCancel),
            Self::TOOL_CALL_PROGRESS => Some(Self::ToolCallProgress),
            _ => Change::parse(name.strip_prefix("server:")?).map(Self::Update),
        }
    }
}

/// An event by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    Client(ClientEvent),
    Server(ServerEvent),
    /// Only the server sends these.
    Notify,
    Unknown,
}

impl Event {
    pub fn parse(name: &str) -> Self {
        if name.starts_with("notify:") {
            return Self::Notify;
        }
        let client = ClientEvent::parse(name).map(Self::Client);
        client
            .or_else(|| ServerEvent::parse(name).map(Self::Server))
            .unwrap_or(Self::Unknown)
    }
}

/// Somebody has entered the office.
pub const fn enter_notice() -> &'static str {
    "notify:enter_office"
}

/// Somebody has left the office.
pub const fn leave_notice() -> &'static str {
    "notify:leave_office"
}

/// A tool call is not wanted any more.
pub const fn cancel_notice() -> &'static str {
    "notify:tool_call_cancel"
}

/// A tool call has come further.
pub const fn progress_notice() -> &'static str {
    "notify:tool_call_progress"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_both_profiles_are_understood() {
        for (name, event) in [
            (
                "client:get_mcp_config",
                Event::Client(ClientEvent::GetConfig),
            ),
            ("client:get_config", Event::Client(ClientEvent::GetConfig)),
            ("client:tool_call", Event::Client(ClientEvent::ToolCall)),
            ("client:put_blob", Event::Client(ClientEvent::PutBlob)),
            ("server:join_office", Event::Server(ServerEvent::JoinOffice)),
            (
                "server:update_mcp_config",
                Event::Server(ServerEvent::Update(Change::Config)),
            ),
            (
                "server:update_tool_list",
                Event::Server(ServerEvent::Update(Change::ToolList)),
            ),
            (
                "server:desktop_refresh",
                Event::Server(ServerEvent::Update(Change::Desktop)),
            ),
            (
                "server:update_desktop",
                Event::Server(ServerEvent::Update(Change::Desktop)),
            ),
            ("notify:enter_office", Event::Notify),
            ("server:made_up", Event::Unknown),
            ("client:made_up", Event::Unknown),
            ("tool_call", Event::Unknown),
        ] {
            assert_eq!(Event::parse(name), event, "{name}");
        }
    }

    #[test]
    fn each_profile_hears_its_own_names() {
        let heard = |change: Change| {
            let name = |profile| change.notice(profile).unwrap_or_default();
            (name(Profile::Seed), name(Profile::Shipped))
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            heard(Change::Config),
            pair("notify:update_mcp_config", "notify:update_config")
        );
        assert_eq!(
            heard(Change::ToolList),
            pair("notify:update_mcp_config", "notify:update_tool_list")
        );
        assert_eq!(
            heard(Change::Desktop),
            pair("notify:desktop_refresh", "notify:update_desktop")
        );
        assert_eq!(heard(Change::Skills), pair("", "notify:update_skills"));
    }
}
