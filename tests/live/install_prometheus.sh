#!/usr/bin/env bash
# Prometheus and VictoriaMetrics as Debian packs them, unpacked into a folder: nothing is installed and no service started.
# Without apt-get nothing is done, and the tests that need them say that they are skipped. usage: install_prometheus.sh FOLDER
set -euo pipefail

folder=$1
[[ -x $folder/usr/bin/prometheus && -x $folder/usr/bin/victoria-metrics ]] && exit
command -v apt-get dpkg > /dev/null || { echo "no apt-get: the tests beside a real Prometheus are skipped"; exit; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq prometheus victoria-metrics || { echo "not to be had here: those tests are skipped"; exit 0; }
mkdir -p "$folder"
for package in *.deb; do
  dpkg -x "$package" "$folder"
done
