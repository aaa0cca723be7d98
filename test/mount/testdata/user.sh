# Mounting as an ordinary user (nobody: fusermount3 wants a name in passwd), in a mount namespace where /dev/fuse is open to all: $1 are
# the options, $2 is an empty directory, $3 has the binaries.
export PATH=$3:$PATH
as() { id=$1; shift; setpriv --reuid=$id --regid=$id --clear-groups "$@"; }
mkdir $2/mnt $2/roots
chown 65534:65534 $2/mnt
if test ! -e /dev/fuse || test "$(stat -c %a /dev/fuse)" != 666; then
	if as 65534 nfsrdma mount -o $1 127.0.0.1:/export $2/mnt 2> $2/said; then exit 1; else test $? = 32; fi
	grep -q '/dev/fuse' $2/said
	test $(grep -c '^nfsrdma:' $2/said) = 1
	mknod $2/fuse c 10 229
	chmod 666 $2/fuse
	mount --bind $2/fuse /dev/fuse
fi

# Another's directory, and a right that users do not have, are refused in one line.
if as 65534 nfsrdma mount -o $1 127.0.0.1:/export $2/roots 2> $2/said; then exit 1; else test $? = 32; fi
grep -q 'only who may write a directory' $2/said
if ! grep -qs '^user_allow_other' /etc/fuse.conf; then
	if as 65534 nfsrdma mount -o $1,allow_other 127.0.0.1:/export $2/mnt 2> $2/said; then exit 1; fi
	grep -q user_allow_other $2/said
fi

as 65534 nfsrdma mount -o $1 127.0.0.1:/export $2/mnt
as 65534 sh -c "echo mine > $2/mnt/of-user"
test "$(as 65534 stat -c %u $2/mnt/of-user)" = 65534
grep -q "^127.0.0.1:/export $2/mnt fuse.nfsrdma rw,nosuid,nodev" /proc/mounts
if grep "$2/mnt .*allow_other" /proc/mounts; then exit 1; fi
if as 4343 ls $2/mnt 2> /dev/null || ls $2/mnt 2> /dev/null; then echo others see it; exit 1; fi

# Its user and root can ask for figures, and nobody else.
as 65534 nfsrdma mountstats --json $2/mnt | grep -q '^{"source"'
nfsrdma mountstats --json $2/mnt | grep -q '^{"source"'
if as 4343 nfsrdma mountstats $2/mnt 2> $2/said; then exit 1; fi
grep -q 'only root and the user' $2/said
as 65534 nfsrdma mount | grep -q "on $2/mnt type"

# A killed one is cleared by its user.
pid=$(pgrep -u 65534 -f "ready-fd.*$2/mnt\$")
kill -9 $pid
as 65534 nfsrdma umount $2/mnt
as 65534 nfsrdma mount -o $1 127.0.0.1:/export $2/mnt
setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "cd $2/mnt && exec sleep 1000" &
holder=$!
while test "$(readlink /proc/$holder/cwd)" != $2/mnt; do sleep 0.1; done
if as 65534 nfsrdma umount $2/mnt 2> $2/said; then exit 1; else test $? = 32; fi
grep -q 'busy' $2/said
kill $holder
wait $holder || true
as 65534 nfsrdma umount $2/mnt
if grep "$2/mnt" /proc/mounts; then exit 1; fi
