"""Reads the standard's own document and makes it sound where it is not: one path names no parameter, and another names it
otherwise than the path does."""

import json, sys, yaml
document = yaml.safe_load(open(sys.argv[1]))
paths = document["paths"]
run = {"name": "run_id", "in": "path", "required": True, "schema": {"$ref": "#/components/schemas/RunId"}}
paths["/runs/{run_id}"]["post"].setdefault("parameters", [run])
for parameter in paths["/session/{session_id}"]["get"]["parameters"]:
    parameter["name"] = "session_id"
json.dump(document, open(sys.argv[2], "w"))
