#!/bin/sh
# Installs specchat for one person; the self-extracting file runs this after it has unpacked itself.
#     sh specchat-VERSION-linux-x86_64.run [-- PREFIX]      (PREFIX: ~/.local)
set -eu
prefix=${1:-$HOME/.local}
case $prefix in
    /*) ;;
    *) echo "specchat: $prefix: name the folder from the root, with a / in front" >&2; exit 2 ;;
esac
mkdir -p "$prefix/lib" "$prefix/bin"
rm -rf "$prefix/lib/specchat.new"
cp -R specchat "$prefix/lib/specchat.new"
rm -rf "$prefix/lib/specchat"
mv "$prefix/lib/specchat.new" "$prefix/lib/specchat"
ln -sf ../lib/specchat/specchat "$prefix/bin/specchat"
echo "specchat is installed. Start it with: $prefix/bin/specchat"
echo "Remove it with: rm -r '$prefix/lib/specchat' '$prefix/bin/specchat'"
