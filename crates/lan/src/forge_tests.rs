//! Tests of skill-forge: when files are written, left and kept.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::peer::{Origin, Status, alias};

fn peer(name: &str, version: &str) -> Peer {
    let id = "a797ca02-11b5-3080-1263-a31d6d30cba7";
    let manifest = json!({
        "agent_id": id, "name": name, "version": version,
        "description": "柠檬叔的华为 Nova 9 手机 Agent: \"quotes\", # and\nlines",
        "capabilities": [
            { "id": "radio", "description": "电台搜索与播放控制: yes", "output_content_types": ["application/json"] },
            { "id": "news_digest", "description": "- no\n```\nnot a list" },
        ],
        "exchange": { "dropbox": "smb://nas.local/agent-exchange/lemon-nova9/" },
    });
    Peer {
        agent_id: id.to_owned(),
        alias: alias(name, id),
        announced: None,
        origin: Origin::Found,
        url: "http://192.168.50.100:8080".to_owned(),
        status: Status::Online,
        first_seen: 1_772_170_200_000,
        last_seen: None,
        manifest: Some(serde_json::from_value(manifest).unwrap()),
        agents: Vec::new(),
        token: Some("secret".to_owned()),
        fingerprint: None,
        pairing: None,
        trouble: None,
    }
}

fn yaml(folder: &Path, name: &str) -> (String, Value) {
    let text = fs::read_to_string(folder.join(format!("skills/remote/{name}.skill.yaml"))).unwrap();
    let value = serde_saphyr::from_str(&text).unwrap();
    (text, value)
}

#[test]
fn a_skill_is_written_from_a_manifest_as_the_network_expects_it() {
    let folder = TempDir::new().unwrap();
    let peer = peer("lemon-nova9", "0.2.1");
    assert_eq!(
        Forge::new(folder.path().to_owned()).bind(&peer).unwrap(),
        Forged::Written
    );
    let (text, value) = yaml(folder.path(), "lemon-nova9");
    let manifest = peer.manifest.as_ref().unwrap();
    assert_eq!(value["name"], "lemon-nova9");
    assert_eq!(value["description"], manifest.description);
    assert_eq!(value["source"]["agent_id"], peer.agent_id);
    assert_eq!(value["source"]["manifest_version"], "0.2.1");
    assert_eq!(
        value["source"]["manifest_url"],
        "http://192.168.50.100:8080/manifest"
    );
    assert_eq!(
        value["capabilities"][0]["output_types"],
        json!(["application/json"])
    );
    assert_eq!(
        value["capabilities"][1]["description"],
        "- no\n```\nnot a list"
    );
    assert_eq!(
        value["endpoints"]["runs"],
        "http://192.168.50.100:8080/runs/{run_id}"
    );
    assert_eq!(
        value["exchange"]["dropbox"],
        "smb://nas.local/agent-exchange/lemon-nova9/"
    );
    assert_eq!(
        (&value["status"], &value["last_seen"]),
        (&json!("online"), &json!("2026-02-27T05:30:00Z"))
    );
    assert!(!text.contains("secret"));
    let markdown =
        fs::read_to_string(folder.path().join("skills/remote/lemon-nova9/SKILL.md")).unwrap();
    assert!(
        markdown.starts_with("---\nname: remote-lemon-nova9\n"),
        "{markdown}"
    );
    assert!(
        markdown.contains("- `radio`: 电台搜索与播放控制: yes\n"),
        "{markdown}"
    );
    assert!(!markdown.contains("```"), "{markdown}");
}

#[test]
fn a_skill_is_refreshed_with_the_version_and_left_alone_without() {
    let folder = TempDir::new().unwrap();
    let forge = Forge::new(folder.path().to_owned());
    let first = peer("nova9", "1");
    forge.bind(&first).unwrap();
    let mut same = first.clone();
    same.manifest.as_mut().unwrap().description = "other words".to_owned();
    assert_eq!(forge.bind(&same).unwrap(), Forged::Left);
    assert_ne!(yaml(folder.path(), "nova9").1["description"], "other words");
    same.manifest.as_mut().unwrap().version = Some("2".to_owned());
    assert_eq!(forge.bind(&same).unwrap(), Forged::Written);
    assert_eq!(yaml(folder.path(), "nova9").1["description"], "other words");
}

#[test]
fn a_peer_that_goes_is_marked_and_its_skill_stays() {
    let folder = TempDir::new().unwrap();
    let forge = Forge::new(folder.path().to_owned());
    let mut peer = peer("nova9", "1");
    forge.bind(&peer).unwrap();
    peer.status = Status::Offline;
    assert_eq!(forge.bind(&peer).unwrap(), Forged::Marked);
    assert_eq!(yaml(folder.path(), "nova9").1["status"], "offline");
    peer.status = Status::Online;
    peer.manifest.as_mut().unwrap().version = Some("2".to_owned());
    assert_eq!(
        forge.bind(&peer).unwrap(),
        Forged::Written,
        "marking is no edit"
    );
}

#[test]
fn what_somebody_edited_is_theirs() {
    let folder = TempDir::new().unwrap();
    let forge = Forge::new(folder.path().to_owned());
    let mut peer = peer("nova9", "1");
    forge.bind(&peer).unwrap();
    let path = folder.path().join("skills/remote/nova9.skill.yaml");
    let edited = fs::read_to_string(&path)
        .unwrap()
        .replace("电台搜索与播放控制", "my own words");
    fs::write(&path, &edited).unwrap();
    peer.manifest.as_mut().unwrap().version = Some("2".to_owned());
    peer.status = Status::Offline;
    assert_eq!(forge.bind(&peer).unwrap(), Forged::Kept);
    let (text, value) = yaml(folder.path(), "nova9");
    assert!(text.contains("my own words"));
    assert_eq!(
        (&value["status"], &value["source"]["manifest_version"]),
        (&json!("offline"), &json!("1"))
    );
    forge.remove(&peer.alias).unwrap();
    assert!(path.exists(), "what was edited stays");
}

#[test]
fn what_we_wrote_goes_with_a_peer_that_is_removed() {
    let folder = TempDir::new().unwrap();
    let forge = Forge::new(folder.path().to_owned());
    let peer = peer("nova9", "1");
    forge.bind(&peer).unwrap();
    forge.remove(&peer.alias).unwrap();
    assert_eq!(
        fs::read_dir(folder.path().join("skills/remote"))
            .unwrap()
            .count(),
        0
    );
    forge.remove(&peer.alias).unwrap();
}

#[test]
fn a_hostile_name_writes_inside_the_folder_alone() {
    let folder = TempDir::new().unwrap();
    let configs = folder.path().join("configs");
    fs::create_dir(&configs).unwrap();
    Forge::new(configs.clone())
        .bind(&peer("../../../evil", "1"))
        .unwrap();
    assert!(configs.join("skills/remote/evil.skill.yaml").exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir_all(configs.join("skills/remote")).unwrap();
    std::os::unix::fs::symlink(&outside, configs.join("skills/remote")).unwrap();
    Forge::new(configs).bind(&peer("nova9", "1")).unwrap_err();
    assert_eq!(
        fs::read_dir(outside).unwrap().count(),
        0,
        "a link is not followed"
    );
}
