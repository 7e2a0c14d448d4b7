# shellcheck shell=sh disable=SC2154  # $named is set before this text, see vars/main.yml
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
# Asked of a host before anything is known of it: plain sh, no Python, nothing written.
# $named: the interpreter that the inventory sets, or nothing.
echo "preflight:uid $(id -u)"
echo "preflight:named $named"
for name in $named python3.14 python3.13 python3.12 python3.11 python3.10 python3 /usr/libexec/platform-python python; do
  path=$(command -v "$name" 2>/dev/null) || continue
  version=$("$path" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue
  echo "preflight:python $path $version"
done
echo "preflight:end"
