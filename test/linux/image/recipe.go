// The contents of a guest: packages, programs, kernel modules. A change here makes a new image.

// Package image builds the kernel and the initramfs of the suite's Linux guests, only from Debian
// packages. It installs nothing on the host and does not need root: packages are downloaded and
// unpacked below the user's cache directory, the siw driver is built against their headers, and the
// archive is written from memory.
package image

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Series are the supported kernels, the default first.
var Series = []string{"6.1", "6.12"}

// packages are the userspace packages for all kernels.
var packages = []string{
	"acl", "busybox-static", "e2fsprogs", "iproute2", "kmod", "nfs-common", "nfs-kernel-server", "quota", "rpcbind",
	"libacl1", "libblkid1", "libbpf1", "libbsd0", "libc6", "libcap2", "libcom-err2", "libdb5.3",
	"libdevmapper1.02.1", "libelf1", "libevent-core-2.1-7", "libext2fs2", "libgcc-s1", "libgcrypt20",
	"libgpg-error0", "libgssapi-krb5-2", "libk5crypto3", "libkeyutils1", "libkmod2",
	"libkrb5-3", "libkrb5support0", "liblz4-1", "liblzma5", "libmd0", "libmnl0",
	"libmount1", "libnfsidmap1", "libnsl2", "libpcre2-8-0", "libreadline8", "libselinux1",
	"libsqlite3-0", "libss2", "libssl3", "libsystemd0", "libtinfo6", "libtirpc-common",
	"libtirpc3", "libudev1", "libuuid1", "libwrap0", "libxtables12", "libzstd1", "zlib1g",
	"ibverbs-providers", "ibverbs-utils", "libibumad3", "libibverbs1", "libnl-3-200", "libnl-route-3-200",
	"libpci3", "librdmacm1", "perftest", "rdmacm-utils",
	"krb5-user", "libgssrpc4", "libkadm5srv-mit12", "libkdb5-10",
}

// programs are copied into the guest with their libraries. Busybox has all other programs.
var programs = []string{
	"bin/kmod", "bin/ip", "bin/ss", "sbin/mount.nfs", "sbin/rpcbind",
	"usr/sbin/rpc.nfsd", "usr/sbin/rpc.mountd", "usr/sbin/exportfs", "sbin/showmount",
	"sbin/mke2fs", "bin/setfacl", "bin/getfacl", "usr/sbin/setquota", "sbin/tc",
	"usr/bin/ibv_devinfo", "usr/bin/ibv_rc_pingpong", "usr/bin/ibv_uc_pingpong", "usr/bin/ibv_ud_pingpong", "usr/bin/rping", "usr/bin/udaddy", "usr/bin/ucmatose", "usr/bin/mckey",
	"usr/bin/ib_send_bw", "usr/bin/ib_write_bw", "usr/bin/ib_read_lat",
	"usr/sbin/rpc.gssd", "usr/sbin/rpc.svcgssd", "usr/bin/kinit", "usr/bin/klist", "usr/bin/kdestroy",
}

// rdmaTool has moved between releases of iproute2; the first existing path is used.
var rdmaTool = []string{"usr/bin/rdma", "sbin/rdma", "bin/rdma"}

// dlopened libraries are not named in any ELF header.
var dlopened = []string{"libnss_files.so.2", "libgcc_s.so.1"}

// plugins are copied as they are: rxe's library for libibverbs with its .driver file, and
// rpc.svcgssd's library for mapping principals to users.
var plugins = []string{
	"etc/libibverbs.d/rxe.driver", "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so",
	"usr/lib/x86_64-linux-gnu/libnfsidmap/nsswitch.so",
}

// modules are modules of the stock kernel; their dependencies are added.
var modules = []string{
	"virtio_pci", "virtio_net", "9p", "9pnet_virtio",
	"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "iw_cm", "rpcrdma", "rdma_rxe",
	"veth", "sch_netem", "sch_ingress", "cls_matchall", "act_mirred", "ifb",
	"sunrpc", "nfs", "nfsv3", "nfsd", "lockd", "nfs_acl", "auth_rpcgss",
	"brd", "loop", "vfat", "nls_cp437", "nls_ascii", "nls_iso8859-1", "nls_utf8", "ext4", "quota_v2", "crc32c_generic", "crc32c-intel", "crc32_generic", "crc32-pclmul", "libcrc32c",
	"tls", "chacha20poly1305", "chacha_generic", "poly1305_generic", "gcm", "ghash-clmulni-intel", "aesni-intel", "rpcsec_gss_krb5", "cts", "cmac", "sha1-ssse3", "sha256-ssse3", "sha512-ssse3",
}

//go:embed rootfs
var rootfs embed.FS

// recipeHash covers everything that determines an image's content, so the cache never returns an
// image of another recipe.
func recipeHash() string {
	h := sha256.New()
	fmt.Fprintf(h, "layout 3 %q %q %q %q %q %q %q", packages, programs, rdmaTool, dlopened, plugins, modules, raceFix)
	fs.WalkDir(rootfs, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, _ := rootfs.ReadFile(path)
			fmt.Fprintf(h, "%s %d\n%s", path, len(b), b)
		}
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// CacheDir returns the directory of downloads, builds and images. It may be removed at any time;
// the next run recreates it.
func CacheDir() (string, error) {
	if dir := os.Getenv("NFSRDMA_LINUX_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "nfsrdma-linux-suite"), nil
}
