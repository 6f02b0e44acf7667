#!/bin/sh
# Starts the tool that has this script's name. The program beside it has all tools.
tool=${0##*/moe-}
exec "${0%/*}/moeplan" "$tool" "$@"
