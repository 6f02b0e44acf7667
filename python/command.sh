#!/bin/sh
# Starts the program of the package moeplan that has this script's name. The package is where pip puts packages for the
# folder of this script. Otherwise Python is asked.
name=${0##*/}
script=$(command -v -- "$0")
[ -h "$script" ] && script=$(readlink -f -- "$script")
here=$(cd -- "${script%/*}" && pwd)
for folder in "$here"/../lib*/python3*/*-packages "$here"/../local/lib/python3*/dist-packages "$here"/..; do
  program=$folder/moeplan/bin/$name
  [ ! -x "$program" ] || exec "$program" "$@"
done
folder=$(python3 -c 'import moeplan, os; print(os.path.dirname(moeplan.__file__))') && exec "$folder/bin/$name" "$@"
echo "error: '$name' found no Python package moeplan for '$here'; install its wheel again, with the Python of this folder" >&2
exit 127
