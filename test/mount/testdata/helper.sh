# mount(8) with mount.nfsrdma, in network and mount namespaces of its own: $1 is an empty
# directory, $2 has the binaries. What is started here ends with the namespaces' last process.
ip link set lo up
mkdir $1/sbin $1/work $1/mnt $1/srv $1/state
chmod 777 $1/srv
cp -P $2/nfsrdma $2/mount.nfsrdma $1/sbin/
mount -t overlay -o lowerdir=$1/sbin:/usr/sbin overlay /usr/sbin
serve() {
	$2/nfsrdmad serve --state-dir $1/state --no-root-squash --trust-local "$3" "$4" $1/srv=/export > $1/log 2>&1 &
	server=$!
	for i in $(seq 1200); do grep -q '^serving' $1/log && return; sleep 0.1; done
	cat $1/log
	exit 1
}
trap 'kill $server; wait $server' EXIT

# Both transports: auto is RDMA, and reports it.
serve $1 $2 --rdma-port=20049 --tcp-port=2049
mount -t nfsrdma -o proto=auto,_netdev,nosuid 127.0.0.1:/export $1/mnt 2> $1/said
cat $1/said
grep -q 'over RDMA$' $1/said
grep -q "^127.0.0.1:/export $1/mnt fuse.nfsrdma rw,nosuid,nodev,relatime" /proc/mounts
echo by mount > $1/mnt/f
test "$(cat $1/srv/f)" = 'by mount'
if mount -t nfsrdma 127.0.0.1:/export $1/mnt 2> $1/said; then exit 1; else test $? = 32; fi
grep -q 'already' $1/said
umount $1/mnt

# A line of fstab, with what is for others in it; mount -a, and again.
echo "127.0.0.1:/export $1/mnt nfsrdma noatime,_netdev,nofail,x-systemd.automount,x-note=a 0 0" > $1/fstab
mount -a -T $1/fstab
grep -q "$1/mnt fuse.nfsrdma rw,nodev,noatime" /proc/mounts
mount -a -T $1/fstab
test $(grep -c "$1/mnt fuse.nfsrdma" /proc/mounts) = 1
umount $1/mnt

# Status and options of a helper: usage, failure, fake, sloppy, read-only.
if mount -t nfsrdma -o no-such-option 127.0.0.1:/export $1/mnt 2> $1/said; then exit 1; else test $? = 1; fi
mount -t nfsrdma -f 127.0.0.1:/export $1/mnt
if grep "$1/mnt fuse.nfsrdma" /proc/mounts; then exit 1; fi
mount -t nfsrdma -s -r -o no-such-option 127.0.0.1:/export $1/mnt
grep -q "$1/mnt fuse.nfsrdma ro," /proc/mounts
umount $1/mnt

# TCP alone: auto falls back, and reports why.
kill $server; wait $server
serve $1 $2 --rdma-port=0 --tcp-port=2049
mount -t nfsrdma -o proto=auto 127.0.0.1:/export $1/mnt 2> $1/said
cat $1/said
grep -q 'over TCP (RDMA: connection refused' $1/said
test "$(cat $1/mnt/f)" = 'by mount'
umount $1/mnt

# The server comes a little later: the helper waits for it.
kill $server; wait $server
mount -t nfsrdma 127.0.0.1:/export $1/mnt 2> $1/said &
waits=$!
for i in $(seq 1200); do grep -q 'trying again for 2m0s' $1/said && break; sleep 0.1; done
serve $1 $2 --rdma-port=20049 --tcp-port=2049
wait $waits
test "$(cat $1/mnt/f)" = 'by mount'
umount $1/mnt

# An ordinary user (nobody: fusermount3 wants a name in passwd) mounts and unmounts what a line of fstab lets users mount:
# mount(8) runs the helper as that user, without PATH.
mkdir $1/etc $1/own
chown 65534:65534 $1/own
echo "127.0.0.1:/export $1/own nfsrdma noauto,user,_netdev,nofail,x-systemd.automount,comment=x 0 0" > $1/etc/fstab
mount -t overlay -o lowerdir=$1/etc:/etc overlay /etc
mknod $1/fuse c 10 229
chmod 666 $1/fuse
mount --bind $1/fuse /dev/fuse
as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
as mount $1/own
grep -q "^127.0.0.1:/export $1/own fuse.nfsrdma rw,nosuid,nodev,noexec,relatime,user_id=65534" /proc/mounts
as sh -c "echo mine > $1/own/of-user"
test "$(stat -c %u $1/srv/of-user)" = 65534
as umount $1/own
if grep $1/own /proc/mounts; then exit 1; fi
