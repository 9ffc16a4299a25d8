#!/bin/bash
# Boots the machine's own systemd as PID 1 in namespaces of its own, over the machine's /usr (read-only) and otherwise
# empty directories in memory:
#   unshare --pid --fork --kill-child --mount --uts --ipc --net --cgroup booted_systemd.sh ROOT STAGE [PREFIX]
# ROOT is an empty directory to mount it on. What lies below STAGE is copied into it; PREFIX, an installation of Python
# outside of /usr, is bound to /opt/python. Its cgroup must be one of its own. To end it, end unshare: nothing stays.
set -eu
root=$1 stage=$2 prefix=${3:-}

mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir -p dev etc/systemd/system home old opt/python proc run sys tmp usr var/lib/systemd var/log/journal var/tmp
mkdir -m 700 root
chmod 1777 tmp var/tmp
mount --rbind /usr usr
mount -o remount,bind,ro usr
for link in bin lib lib32 lib64 libx32 sbin; do
    if [ -L "/$link" ]; then cp -a "/$link" .; fi
done
for name in alternatives dbus-1 group gshadow ld.so.conf ld.so.conf.d localtime login.defs nsswitch.conf os-release \
    pam.conf pam.d passwd security shadow; do
    if [ -e "/etc/$name" ]; then cp -a "/etc/$name" etc/; fi
done
if [ -n "$prefix" ]; then
    mount --bind "$prefix" opt/python
    mount -o remount,bind,ro opt/python
    mkdir -p etc/ld.so.conf.d
    echo /opt/python/lib > etc/ld.so.conf.d/python.conf
fi
printf 'alice:x:4242:4242::/home/alice:/bin/bash\n' >> etc/passwd
printf 'alice:x:4242:\n' >> etc/group
printf 'alice:*:20000:0:99999:7:::\n' >> etc/shadow
cp -a "$stage/." .
chown -R 4242:4242 home/alice

mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
for device in full null random tty urandom zero; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd

echo 0123456789abcdef0123456789abcdef > etc/machine-id # a machine without one would enable what it finds
for unit in dev-hugepages.mount dev-mqueue.mount kmod-static-nodes.service ldconfig.service \
    proc-sys-fs-binfmt_misc.automount sys-fs-fuse-connections.mount sys-kernel-config.mount sys-kernel-debug.mount \
    sys-kernel-tracing.mount systemd-binfmt.service systemd-modules-load.service systemd-random-seed.service \
    systemd-remount-fs.service systemd-sysctl.service systemd-udev-trigger.service systemd-udevd.service; do
    ln -s /dev/null "etc/systemd/system/$unit"
done
cat > etc/systemd/system/go.target <<'UNIT'
[Unit]
Requires=basic.target dbus.service systemd-logind.service
After=basic.target dbus.service systemd-logind.service
UNIT

pivot_root . old
cd /
umount --lazy /old
ldconfig
exec env -i container=other PATH=/usr/sbin:/usr/bin setpriv --bounding-set=-sys_boot,-sys_module,-sys_rawio,-sys_time \
    /lib/systemd/systemd --system --unit=go.target --log-target=console --show-status=0
