# Shell functions for scripts in the guest; every script has them.

netdev() { ls /sys/class/net | grep -v -x -e lo -e 'ifb.*' | head -n 1; }

die() { echo "FAILED: $*"; exit 1; }

# siw_up [stock|fixed]: load soft-iWARP, once, and put a device on the network interface.
siw_up() {
	[ -e /sys/class/infiniband/siw0 ] && return 0
	case ${1:-stock} in
	stock) modprobe siw || return 1 ;;
	fixed)
		modprobe iw_cm && modprobe ib_uverbs || return 1
		modprobe -q libcrc32c
		insmod /harness/siw-fixed.ko || return 1
		;;
	esac
	modprobe rdma_cm && rdma link add siw0 type siw netdev "$(netdev)"
}

# rxe_up: load soft-RoCE, once, and put a device on the network interface. What a user of a stock kernel types.
rxe_up() {
	[ -e /sys/class/infiniband/rxe0 ] && return 0
	modprobe rdma_rxe && modprobe rdma_cm && rdma link add rxe0 type rxe netdev "$(netdev)"
}

# rxe_client_up: an RDMA client by soft-RoCE. A guest has either this or client_up.
rxe_client_up() { rxe_up && modprobe rpcrdma && modprobe nfs && modprobe nfsv3; }

# lossy OPTIONS: netem does this to all packets, both ways; "lossy" alone ends it. (tc alone would be busybox's.)
lossy() {
	dev=$(netdev)
	/sbin/tc qdisc del dev "$dev" root 2> /dev/null
	/sbin/tc qdisc del dev "$dev" ingress 2> /dev/null
	[ $# = 0 ] && return 0
	modprobe ifb numifbs=1 && ip link set ifb0 up || return 1
	/sbin/tc qdisc add dev "$dev" root netem "$@" &&
		/sbin/tc qdisc add dev "$dev" ingress && /sbin/tc qdisc replace dev ifb0 root netem "$@" &&
		/sbin/tc filter add dev "$dev" parent ffff: matchall action mirred egress redirect dev ifb0
}

client_up() { siw_up && modprobe rpcrdma && modprobe nfs && modprobe nfsv3; }

# mount_rdma SERVER:/PATH DIR RDMA-PORT MOUNT-PORT [OPTIONS]
mount_rdma() {
	mount.nfs "$1" "$2" -o "vers=3,proto=rdma,port=$3,nolock,mountproto=tcp,mountport=$4${5:+,$5}" ||
		{ dmesg | tail -n 15; return 1; }
}

# mount_tcp SERVER:/PATH DIR NFS-PORT MOUNT-PORT [OPTIONS]
mount_tcp() {
	mount.nfs "$1" "$2" -o "vers=3,proto=tcp,port=$3,nolock,mountproto=tcp,mountport=$4${5:+,$5}" ||
		{ dmesg | tail -n 15; return 1; }
}

drop_caches() { echo 3 > /proc/sys/vm/drop_caches; }

# knfsd_up DIR [THREADS]: export DIR over rdma 20049 and tcp 2049, with mountd on 20048.
knfsd_up() {
	modprobe nfsd && modprobe rpcrdma || return 1
	mount -t nfsd nfsd /proc/fs/nfsd
	mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs
	mkdir -p /run/rpcbind
	rpcbind -w || return 1
	echo "$1 *(rw,sync,insecure,no_subtree_check,no_root_squash,fsid=0)" > /etc/exports
	exportfs -a && rpc.nfsd "${2:-4}" && rpc.mountd -p 20048 || return 1
	echo "rdma 20049" > /proc/fs/nfsd/portlist
}

# tls_up: tlshd does the kernel's TLS handshakes, with ca.pem, client.pem, client.key, server.pem and server.key of
# /etc/tlshd. It reads them at each handshake. What it says is in /run/tlshd.log.
tls_up() {
	[ -e /run/tlshd.log ] && return 0
	modprobe tls || return 1
	for side in client server; do
		echo "[authenticate.$side]"
		for field in truststore=ca.pem certificate=$side.pem private_key=$side.key; do echo "x509.${field%=*}=/etc/tlshd/${field#*=}"; done
	done > /etc/tlshd.conf
	setsid tlshd -s >> /run/tlshd.log 2>&1 < /dev/null &
}

# krb5_up: Kerberos of both sides, with /etc/krb5.conf and /etc/krb5.keytab; u1000@REALM is the user u1000.
krb5_up() {
	[ -e /run/gssd.log ] && return 0
	mkdir -p /var/tmp && modprobe rpcsec_gss_krb5 || return 1
	mountpoint -q /var/lib/nfs/rpc_pipefs || mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs
	realm=$(sed -n 's/^\s*default_realm = //p' /etc/krb5.conf)
	printf '[General]\nDomain = %s\nLocal-Realms = %s\n[Translation]\nMethod = nsswitch\n' "$realm" "$realm" > /etc/idmapd.conf
	setsid rpc.gssd -f -v > /run/gssd.log 2>&1 < /dev/null &
	setsid rpc.svcgssd -f -n -v > /run/svcgssd.log 2>&1 < /dev/null &
}

# sec_export DIR FLAVORS: knfsd exports DIR for security flavors.
sec_export() {
	echo "$1 *(rw,sync,insecure,no_subtree_check,no_root_squash,fsid=0,sec=$2)" > /etc/exports
	exportfs -ra
}
