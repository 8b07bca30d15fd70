#!/usr/bin/env bash
# Installs the libraries of C++ that `nunatak bench` compares with (cargo's feature `cpp-peers`), as far as the
# system has packages of them, and says what else can be had. For Debian and its descendants.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ pkg-config libtbb-dev libcuckoo-dev libabsl-dev)
if ! command -v apt-get >/dev/null; then
  cat >&2 <<'SAY'
There is no apt-get here. Install by other means, then build:
  a compiler of C++20, pkg-config
  oneTBB              with its headers and tbbmalloc
  libcuckoo           its headers
  Abseil              with absl_flat_hash_map.pc
  Boost               1.83 or later, its headers
SAY
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
"${as_root[@]}" apt-get update
# One at a time: a system may lack one of them.
for package in "${packages[@]}"; do
  "${as_root[@]}" apt-get install -y --no-install-recommends "$package" || echo "$package can't be installed here" >&2
done

# boost::concurrent_flat_map is in Boost 1.83, its bulk visit in 1.84.
boost=$(apt-cache policy libboost-dev | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p')
if dpkg --compare-versions "${boost:-0}" ge 1.83; then
  "${as_root[@]}" apt-get install -y --no-install-recommends libboost-dev
else
  cat <<SAY

Boost: this system has ${boost:-none}, and its concurrent_flat_map needs 1.83 (its bulk visit 1.84). Unpack a newer
release, whose headers are all that is needed, and set NUNATAK_BOOST to the folder that has its folder boost.
SAY
fi

# So that the next build looks again.
touch crates/nunatak-cpp-peers/build.rs
cat <<'SAY'

Now: cargo run --release --features cpp-peers -- bench insert get-hit --maps dlht,tbb,libcuckoo,absl-sharded
SAY
