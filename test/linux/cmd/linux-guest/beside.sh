# Two servers of one tmpfs: Linux's in the guest's own network, at 10.9.1.1, and nfsrdmad in the network "far", at 10.9.1.2 and 10.9.2.2.
# The network "own" is for a client of nfsrdmad by RoCE that is no rxe. Files are of this size:
mebibytes=32
names=500

ip() { /bin/ip "$@"; } # alone it would be busybox's

veth() { # NETWORK ADDRESS DEVICE PEER-DEVICE PEER-ADDRESS: joins far to a network, which is "" for the guest's own
	ip -n far link add "$4" mtu 9000 type veth peer name "$3" mtu 9000 ${1:+netns "$1"} || return 1
	[ "$1" ] || ip -n far link set "$3" netns 1 || return 1
	ip ${1:+-n "$1"} addr add "$2/24" dev "$3" && ip ${1:+-n "$1"} link set "$3" up &&
		ip -n far addr add "$5/24" dev "$4" && ip -n far link set "$4" up
}

setup() {
	cp /share/nfsrdma /share/nfsrdmad /tmp/ && chmod 755 /tmp/nfsrdma /tmp/nfsrdmad || return 1
	modprobe veth && ip netns add far && ip netns add own && ip -n far link set lo up && ip -n own link set lo up || return 1
	veth "" 10.9.1.1 v0 v1 10.9.1.2 && veth own 10.9.2.1 w0 w1 10.9.2.2 || return 1
	modprobe rdma_rxe && modprobe rdma_cm && rdma link add rxe0 type rxe netdev v0 || return 1
	modprobe rpcrdma && modprobe nfs && modprobe nfsv3 || return 1
	mount -t tmpfs -o size=300m tmpfs /export && chmod 777 /export && mkdir /export/many || return 1
	for i in $(seq $names); do : > "/export/many/$i"; done
	knfsd_up /export 8
}

now() { cut -d ' ' -f 1 /proc/uptime; }

# linux_client TRANSPORT SERVER RDMA-PORT TCP-PORT MOUNT-PORT: prints what was done, how much of it, and when it began and ended.
linux_client() {
	port=$4
	[ "$1" = rdma ] && port=$3
	"mount_$1" "$2:/export" /mnt "$port" "$5" nordirplus || return 1
	from=$(now)
	dd if=/dev/zero of=/mnt/file bs=1M count=$mebibytes conv=fsync 2> /dev/null || return 1
	echo "linux $1 write $mebibytes $from $(now)"
	umount /mnt && drop_caches && "mount_$1" "$2:/export" /mnt "$port" "$5" nordirplus || return 1
	from=$(now)
	dd if=/mnt/file of=/dev/null bs=1M 2> /dev/null || return 1
	echo "linux $1 read $mebibytes $from $(now)"
	from=$(now)
	[ "$(ls -l /mnt/many | grep -c ^-)" = $names ] || return 1
	echo "linux $1 lookup $names $from $(now)"
	rm /mnt/file && umount /mnt
}

# our_client TRANSPORT URL-REST MOUNT-PORT: prints the report.
our_client() {
	scheme=nfs by=
	[ "$1" = rdma ] && scheme=nfsrdma by="--rdma roce"
	/tmp/nfsrdma bench $by --mount-port "$3" --no-raw --json --size ${mebibytes}M --duration 2s --tests write,read,getattr "$scheme://$2" > /tmp/report || return 1
	echo "ours $1 $(tr -d '\n' < /tmp/report)"
}

in_network() { # NETWORK FUNCTION ARG…
	network=$1
	shift
	ip netns exec "$network" sh -c '. /harness/lib.sh; . /tmp/beside.sh; "$@"' sh "$@"
}

# turn SERVER: what both clients do at it, over both transports. Client and server are in different networks, but for Linux at both ends
# of rxe, which has one network.
turn() {
	case $1 in
	knfsd)
		in_network far linux_client tcp 10.9.1.1 20049 2049 20048 && linux_client rdma 10.9.1.1 20049 2049 20048 &&
			in_network far our_client tcp 10.9.1.1/export 20048 && in_network far our_client rdma 10.9.1.1/export 20048
		;;
	nfsrdmad)
		/bin/ip netns exec far /tmp/nfsrdmad serve --addr 0.0.0.0 --rdma roce --rpcbind off --locks=false --ephemeral-key --no-root-squash /export > /tmp/log 2>&1 &
		server=$!
		until grep -q RoCE /tmp/log; do
			kill -0 $server || { cat /tmp/log; return 1; }
			sleep 0.2
		done
		linux_client tcp 10.9.1.2 20049 2049 2049 && linux_client rdma 10.9.1.2 20049 2049 2049 &&
			our_client tcp 10.9.1.2/export 2049 && in_network own our_client rdma 10.9.2.2/export 2049
		ok=$?
		kill $server && wait $server
		[ $ok = 0 ] || { cat /tmp/log; return 1; }
		;;
	esac
}
