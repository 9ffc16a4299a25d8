#!/bin/bash
# Runs a command with a user's systemd and its bus, in a mount namespace of its own:
#   unshare --mount user_systemd.sh UID HOME CGROUP COMMAND [ARGUMENT]...
# UID is the user whose systemd it is; the command runs as root and may change to that user. HOME is a scratch
# directory. CGROUP names a new cgroup below the root of version 2; the caller removes it.
set -eu
uid=$1 home=$2 cgroup=$3
shift 3

as_user() {
    setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"
}

mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system "/run/user/$uid" /run/lock # the first makes systemd believe that the machine was booted with it
chmod 700 "/run/user/$uid"
chown "$uid:$uid" "/run/user/$uid"
umount --recursive /sys/fs/cgroup || umount --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$cgroup"
echo $$ > "/sys/fs/cgroup/$cgroup/cgroup.procs"
chown -R "$uid:$uid" "/sys/fs/cgroup/$cgroup"

units=$home/.config/systemd/user
mkdir -p "$units"
printf '[Socket]\nListenStream=%%t/bus\n' > "$units/dbus.socket"
cat > "$units/dbus.service" <<'UNIT'
[Unit]
Requires=dbus.socket
[Service]
Type=notify
ExecStart=/usr/bin/dbus-daemon --session --address=systemd: --nofork --nopidfile --systemd-activation
UNIT
printf '[Unit]\nRequires=dbus.socket dbus.service\n' > "$units/go.target"

chown -R "$uid:$uid" "$home"

export HOME=$home XDG_RUNTIME_DIR=/run/user/$uid DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/$uid/bus
as_user setsid /lib/systemd/systemd --user --unit=go.target > "$home/systemd.log" 2>&1 &
manager=$!
for _ in $(seq 200); do
    if as_user busctl --user status org.freedesktop.systemd1 > /dev/null 2>&1; then
        ready=yes
        break
    fi
    sleep 0.02
done
code=77
if [ "${ready:-}" ]; then
    code=0
    "$@" || code=$?
fi
as_user systemctl --user exit || true
wait $manager || true
exit $code
