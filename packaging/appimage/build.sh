#!/bin/sh
# An AppImage from the folder of the desktop build. Untried: appimagetool was not at hand.
#     make package ARGS="python desktop"
#     packaging/appimage/build.sh            (needs appimagetool on PATH)
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$root/app/specchat/version.py")
folder=$root/build/package/AppDir
rm -rf "$folder"
mkdir -p "$folder/usr/lib"
cp -R "$root/build/package/desktop/specchat" "$folder/usr/lib/specchat"
cp "$root/packaging/appimage/specchat.desktop" "$root/packaging/appimage/specchat.svg" "$folder"
ln -s usr/lib/specchat/specchat "$folder/AppRun"
ARCH=$(uname -m) appimagetool "$folder" "$root/dist/specchat-$version-linux-$(uname -m).AppImage"
