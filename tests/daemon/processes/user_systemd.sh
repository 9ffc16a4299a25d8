#!/bin/bash
# Runs a command with a user's systemd and its bus, in a mount namespace of its own:
#   unshare --mount user_systemd.sh HOME CGROUP COMMAND [ARGUMENT]...
# HOME is a scratch directory. CGROUP names a new cgroup below the root of version 2; whoever calls removes it.
set -eu
home=$1 cgroup=$2
shift 2

mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user/0 /run/lock # the first makes systemd believe that the machine was booted with it
chmod 700 /run/user/0
umount --recursive /sys/fs/cgroup || umount --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$cgroup"
echo $$ > "/sys/fs/cgroup/$cgroup/cgroup.procs"

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

export HOME=$home XDG_RUNTIME_DIR=/run/user/0 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/0/bus
setsid /lib/systemd/systemd --user --unit=go.target > "$home/systemd.log" 2>&1 &
manager=$!
for _ in $(seq 200); do
    if busctl --user status org.freedesktop.systemd1 > /dev/null 2>&1; then
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
systemctl --user exit || true
wait $manager || true
exit $code
