#!/usr/bin/env bash
# Installs what start.sh needs, on Debian and as root; elsewhere it says so, and the tests of a real Slurm are skipped.
set -uo pipefail
if command -v slurmctld slurmd munged > /dev/null; then exit 0; fi
if [[ $(id -u) != 0 ]] || ! command -v apt-get > /dev/null; then
  echo "Slurm is not installed, and cannot be from here: its tests are skipped."
  exit 0
fi
packages=(slurmctld slurmd slurm-client munge)
install() { DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${packages[@]}" > /dev/null 2>&1; }
install || { apt-get update > /dev/null 2>&1 && install; } || echo "Slurm could not be installed: its tests are skipped."
