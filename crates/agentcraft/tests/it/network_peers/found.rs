//! Discovery: who is there, what they are called, what is noticed when they go.

use serde_json::{Value, json};
use testkit::eventually;

use super::{Lan, OPEN, intent, knows, offer, peers};
use crate::network::python;

fn status(node: &super::Node, name: &str) -> Option<String> {
    let peers = peers(node);
    let peer = peers.iter().find(|peer| peer["name"] == name)?;
    Some(peer["status"].as_str().unwrap().to_owned())
}

#[test]
fn a_node_that_was_killed_is_noticed_at_the_next_call_and_found_again() {
    let Some(mut lan) = Lan::new() else { return };
    let desk = lan.node("desk", OPEN);
    let mut nova = lan.node("nova9", OPEN);
    offer(&nova, "radio", "电台搜索与播放控制");
    knows(&desk, "nova9", "radio");
    nova.daemon.kill();
    let failed = intent(&desk, &["放一个轻音乐电台"]);
    assert_eq!(failed["tried"][0]["peerName"], "nova9", "{failed}");
    assert_eq!(status(&desk, "nova9").as_deref(), Some("offline"));
    let skill = desk
        .daemon
        .home()
        .join("configs/skills/remote/nova9.skill.yaml");
    let text = std::fs::read_to_string(&skill).unwrap();
    assert!(
        text.contains("status: offline") && text.contains("id: radio"),
        "{text}"
    );
    nova.daemon.start();
    eventually("it is found again", || {
        status(&desk, "nova9").as_deref() == Some("online")
    });
}

#[test]
fn names_may_be_chinese_and_two_nodes_may_have_the_same() {
    let Some(mut lan) = Lan::new() else { return };
    let desk = lan.node("桌面", OPEN);
    let _one = lan.node("柠檬叔的手机", OPEN);
    let _two = lan.node("柠檬叔的手机", OPEN);
    eventually("both are found", || peers(&desk).len() == 2);
    let found = peers(&desk);
    eventually("both say who they are", || {
        peers(&desk)
            .iter()
            .all(|peer| peer["name"] == "柠檬叔的手机")
    });
    assert_ne!(found[0]["alias"], found[1]["alias"]);
    assert_ne!(found[0]["url"], found[1]["url"]);
    let alias = found[0]["alias"].as_str().unwrap();
    let ping: Value = super::told(&desk.cli(&["peer", "ping", alias, "-f", "json"]));
    assert!(ping["millis"].is_number(), "{ping}");
}

#[test]
fn a_link_that_goes_down_and_comes_up_needs_no_restart() {
    let Some(mut lan) = Lan::new() else { return };
    let desk = lan.node("desk", OPEN);
    let nova = lan.node("nova9", OPEN);
    eventually("it is found", || {
        status(&desk, "nova9").as_deref() == Some("online")
    });
    lan.plug(nova.machine, "down");
    let ping = super::told(&desk.cli(&["peer", "ping", "nova9", "-f", "json"]));
    assert_eq!(
        (&ping["peer"]["status"], &ping["millis"]),
        (&json!("offline"), &Value::Null)
    );
    lan.plug(nova.machine, "up");
    eventually("it is there again", || {
        let ping = super::told(&desk.cli(&["peer", "ping", "nova9", "-f", "json"]));
        ping["peer"]["status"] == "online"
    });
}

#[test]
fn a_node_that_stops_says_goodbye() {
    let Some(mut lan) = Lan::new() else { return };
    let desk = lan.node("desk", OPEN);
    let mut nova = lan.node("nova9", OPEN);
    eventually("it is found", || {
        status(&desk, "nova9").as_deref() == Some("online")
    });
    nova.daemon.stop();
    eventually("its goodbye is heard", || {
        status(&desk, "nova9").as_deref() == Some("offline")
    });
}

/// Another implementation finds the node and reads where its manifest is.
#[test]
fn zeroconf_of_python_finds_a_node_and_its_manifest() {
    const BROWSE: &str = r#"
import sys, threading, urllib.request, json
from zeroconf import ServiceBrowser, ServiceListener, Zeroconf
found = threading.Event()
class Listener(ServiceListener):
    def add_service(self, zc, kind, name):
        info = zc.get_service_info(kind, name)
        if info and not found.is_set():
            said = info.decoded_properties
            manifest = json.load(urllib.request.urlopen(said["manifest_url"]))
            assert manifest["agent_id"] == said["agent_id"] and manifest["version"] == said["version"], (manifest, said)
            assert name.startswith(said["agent_id"] + "."), name
            print(manifest["name"]); found.set()
    def update_service(self, zc, kind, name): self.add_service(zc, kind, name)
    def remove_service(self, zc, kind, name): pass
zc = Zeroconf()
ServiceBrowser(zc, sys.argv[1], Listener())
ok = found.wait(25)
zc.close()
sys.exit(0 if ok else 1)
"#;
    let Some(mut lan) = Lan::new() else { return };
    let Some(python) = python("zeroconf") else {
        println!("skipped: ./test installs the packages of tests/python/zeroconf.txt");
        return;
    };
    let _nova = lan.node("新九", OPEN);
    let other = lan.machine();
    for service in ["_acp-agent._tcp.local.", "_agent._tcp.local."] {
        let python = python.to_str().unwrap();
        let output = lan
            .on(other, &[python, "-c", BROWSE, service])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.trim() == "新九",
            "{output:?}"
        );
    }
}

/// The one that most systems have finds the node too: with a bus of its own, so that it meets no other of its kind.
#[test]
fn avahi_finds_a_node_and_what_it_announces() {
    const BROWSE: &str = r#"
mount -t tmpfs none /run && cd "$1" || exit 1
cat > bus.conf <<END
<busconfig><type>system</type><listen>unix:path=$1/bus</listen><auth>EXTERNAL</auth><policy context="default">
<allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>
END
printf '[server]\nallow-interfaces=eth0\n[publish]\ndisable-publishing=yes\n' > avahi.conf
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$1/bus
dbus-daemon --config-file=bus.conf --nofork --nopidfile 2>/dev/null & bus=$!
avahi=
trap 'kill $bus $avahi 2>/dev/null' EXIT
tries=0
until [ -S bus ] || [ $tries -ge 300 ]; do tries=$((tries + 1)); sleep 0.1; done
avahi-daemon -f "$1/avahi.conf" --no-drop-root --no-chroot --no-proc-title 2>/dev/null >&2 & avahi=$!
while [ $tries -lt 300 ]; do
    found=$(avahi-browse -rpt "$2" 2>/dev/null | grep '^=;eth0;IPv4;') && echo "$found" && exit 0
    tries=$((tries + 1)); sleep 0.1
done
exit 1
"#;
    let Some(mut lan) = Lan::new() else { return };
    let has = |tool: &str| {
        let look = format!("command -v {tool} >/dev/null");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &look]).status().unwrap().success()
    };
    if !["avahi-browse", "avahi-daemon", "dbus-daemon"]
        .into_iter()
        .all(has)
    {
        println!("skipped: ./test installs avahi-daemon, avahi-utils and dbus");
        return;
    }
    let nova = lan.node("nova9", OPEN);
    let other = lan.machine();
    for service in ["_acp-agent._tcp", "_agent._tcp"] {
        let folder = tempfile::tempdir().unwrap();
        let folder_path = folder.path().to_str().unwrap();
        let browse = [
            "unshare",
            "-m",
            "sh",
            "-c",
            BROWSE,
            "sh",
            folder_path,
            service,
        ];
        let output = lan.on(other, &browse).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let address = format!(";{};7420;", lan.address(nova.machine));
        assert!(
            output.status.success() && said.contains(&address),
            "{output:?}"
        );
        assert!(
            said.contains("\"agent_id=") && said.contains("\"manifest_url="),
            "{said}"
        );
    }
}

/// Where multicast is filtered, nodes still find each other.
#[test]
fn broadcasts_find_nodes_where_multicast_is_filtered() {
    let Some(mut lan) = Lan::new() else { return };
    lan.filter_multicast();
    let nova = lan.node("nova9", OPEN);
    let desk = lan.node("desk", OPEN);
    let is_there = |node, name| status(node, name).as_deref() == Some("online");
    eventually("it is found", || is_there(&desk, "nova9"));
    eventually("it has found the other", || is_there(&nova, "desk"));
}

/// A hundred peers of another make, on one machine: each is announced, and has a manifest of its own.
#[test]
fn a_hundred_peers_are_found_and_known_by_what_they_can_do() {
    const HUNDRED: &str = r#"
import asyncio, json, socket, sys, threading, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf
ids = [str(uuid.uuid4()) for _ in range(100)]
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        _, number, what = self.path.split("?")[0].split("/")
        number = int(number[1:])
        said = {"agents": []} if what == "agents" else {"agent_id": ids[number], "name": "peer%d" % number, "version": "1",
            "description": "", "capabilities": [{"id": "job%d" % number, "description": "does job%d" % number}]}
        body = json.dumps(said).encode()
        self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
server = ThreadingHTTPServer((sys.argv[1], 8000), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
async def main():
    zc = AsyncZeroconf()
    kind = "_acp-agent._tcp.local."
    def info(number):
        said = {"agent_id": ids[number], "version": "1", "manifest_url": "http://%s:8000/n%d/manifest" % (sys.argv[1], number)}
        return AsyncServiceInfo(kind, "%s.peer%d.%s" % (ids[number], number, kind), 8000, properties=said,
            server="h%d.local." % number, addresses=[socket.inet_aton(sys.argv[1])])
    done = [await zc.async_register_service(info(number), cooperating_responders=True) for number in range(100)]
    await asyncio.gather(*done)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"#;
    let Some(mut lan) = Lan::new() else { return };
    let Some(python) = python("zeroconf") else {
        println!("skipped: ./test installs the packages of tests/python/zeroconf.txt");
        return;
    };
    let desk = lan.node("desk", OPEN);
    let machine = lan.machine();
    let arguments = [
        python.to_str().unwrap(),
        "-c",
        HUNDRED,
        &lan.address(machine),
    ];
    let mut peers_of_others = lan
        .on(machine, &arguments)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    eventually("all of them are known", || {
        let known = peers(&desk);
        let can = |peer: &Value| peer["capabilities"][0]["id"].is_string();
        known.iter().filter(|peer| can(peer)).count() == 100
    });
    let best = super::told(&desk.cli(&["intent", "--explain", "job42 please", "-f", "json"]));
    assert_eq!(best[0]["capability"], "job42", "{best}");
    drop(peers_of_others.stdin.take());
    peers_of_others.wait().unwrap();
}
