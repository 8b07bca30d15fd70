#!/usr/bin/env bash
# Writes the project's address into what is published: the fields `repository` and `homepage` of the packages, the links
# of the READMEs that crates.io and PyPI show, and the line of README.md that clones the project.
#
#   scripts/address.sh https://github.com/OWNER/NAME
set -euo pipefail
cd "$(dirname "$0")/.."

address=${1:-}
address=${address%/}
if [[ ! $address =~ ^https://[A-Za-z0-9./_-]+$ ]]; then
  sed -n '2,/^set/{/^set/d; s/^# \{0,1\}//p}' "$0" >&2
  exit 2
fi
if grep -q '^repository = ' Cargo.toml; then
  echo "Cargo.toml has an address already: $(sed -n 's/^repository = //p' Cargo.toml)" >&2
  exit 1
fi

sed -i "/^\[workspace.package\]/,/^$/s|^license = .*|&\nrepository = \"$address\"\nhomepage = \"$address\"|" Cargo.toml
for manifest in crates/*/Cargo.toml; do
  if ! grep -q '^publish = false' "$manifest"; then
    sed -i 's/^license.workspace = true$/&\nrepository.workspace = true\nhomepage.workspace = true/' "$manifest"
  fi
done

sed -i "s|^\[project.optional-dependencies\]|[project.urls]\nRepository = \"$address\"\n\n&|" crates/nunatak-python/pyproject.toml

sed -i "s|<this repository>|$address|" README.md
# Pages elsewhere show these READMEs: links become absolute, those of images to the bytes themselves.
for readme in README.md crates/nunatak-cli/README.md crates/nunatak-python/README.md; do
  folder=$(dirname "$readme") address=$address perl -pi -e '
    sub path {
      my @parts;
      for (split "/", "$ENV{folder}/$_[0]") { $_ eq ".." ? pop @parts : $_ eq "." || push @parts, $_ }
      join "/", @parts
    }
    $code = !$code if /^```/;
    s{\]\((?!https?:|\#)([^)\#]+)}{
      my $path = path($1);
      "]($ENV{address}/" . ($path =~ /\.(svg|png)$/ ? "raw" : "blob") . "/main/$path"
    }ge unless $code;
  ' "$readme"
done
