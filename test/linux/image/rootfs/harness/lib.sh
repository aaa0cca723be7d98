# Shell functions for scripts in the guest; every script has them.

netdev() { ls /sys/class/net | grep -v -x -e lo | head -n 1; }

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
