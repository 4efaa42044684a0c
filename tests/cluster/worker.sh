#!/bin/sh
# worker.sh FOLDER VENV HIDDEN... -- COMMAND...: run a command that sees the machine's programs, but
# not the driver's files.  Needs a mount namespace of its own (unshare --mount).
#
# /tmp becomes a new folder with two things in it: the worker's FOLDER as /tmp/worker, and VENV as
# /tmp/worker/venv.  Each HIDDEN folder becomes empty.
set -eu

folder=$1 venv=$2
shift 2

mkdir -p "$folder/venv" "$folder/root"
mount -t tmpfs none "$folder/root"
mkdir "$folder/root/worker"
mount --bind "$folder" "$folder/root/worker"
mount --bind "$venv" "$folder/root/worker/venv"
mount --rbind "$folder/root" /tmp

while [ "$1" != -- ]; do
    # what is below /tmp is out of sight already
    if [ -d "$1" ]; then mount -t tmpfs none "$1"; fi
    shift
done
shift

chmod 1777 /tmp
cd /tmp/worker
exec "$@"
