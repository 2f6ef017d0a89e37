#!/usr/bin/env bash
# Installs by name, on Debian 12, what the build (`build`), the tests (`test`) or the model
# download (`model`) need. Quiet and quick when everything is there.
set -euo pipefail

packages=(g++ cmake ninja-build ccache pkg-config libhwy-dev libboost1.81-dev libboost-json1.81-dev
          libcli11-dev libspdlog-dev libfmt-dev libpcre2-dev libutf8proc-dev libssl-dev
          prometheus-cpp-dev libgtest-dev libgmock-dev librapidcheck-dev libopenblas-dev git
          ca-certificates)
for want in "$@"; do
  case "$want" in
    build) ;;
    test) packages+=(clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev curl jq python3
                     valgrind) ;;
    model) packages+=(python3 python3-venv unzip curl) ;;
    *) echo "usage: $0 [build] [test] [model]" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing: ${missing[*]}"
$sudo apt-get update -q >/dev/null
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
