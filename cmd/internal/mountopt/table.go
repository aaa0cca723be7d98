// The table of options: name, argument, what it contradicts, what it does.

package mountopt

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// An option is one name that is accepted.
type option struct {
	name string

	// arg is what stands after the "=" in help texts; "" where there is no argument,
	// and in brackets where it can be left out.
	arg string

	// group is shared by options of which only one can be given; "" is the name itself.
	// Options of a group that begins with "+" replace one another, as those of mount(8):
	// the last one counts.
	group string

	set  func(o *Options, v string) error
	help string // one line; "" for those that others (help.go) describes
}

// options is the table, in the order of the help text.
var options = []option{
	{"proto", "rdma|tcp|auto", "", setProto, "transport; auto tries RDMA, then TCP, and reports which it is"},
	{"rdma", "", "proto", func(o *Options, _ string) error { o.Proto = RDMA; return nil }, "the same as proto=rdma"},
	{"tcp", "", "proto", func(o *Options, _ string) error { o.Proto = TCP; return nil }, "the same as proto=tcp"},
	{"port", "N", "", number(0, 65535, func(o *Options, n int) { o.Port = n }), "the server's NFS port (default 20049 for RDMA, 2049 for TCP)"},
	{"mountport", "N", "", number(0, 65535, func(o *Options, n int) { o.MountPort = n }), "TCP port of the server's MOUNT service (default: the NFS port, then rpcbind)"},
	{"mountproto", "tcp", "", only("tcp"), "transport of the MOUNT service"},
	{"nconnect", "N", "", number(1, 64, func(o *Options, n int) { o.NConnect = n }), "connections that calls are spread over (default 1)"},
	{"provider", "iwarp|roce|auto", "", setProvider, "wire protocol of RDMA (default iwarp); auto tries iWARP, then RoCE"},
	{"crc", "on|auto|off|strict", "", setCRC, "MPA CRC over RDMA (default on)"},
	{"resvport", "", "resvport", nothing, "come from a port below 1024 over TCP, where allowed (default)"},
	{"noresvport", "", "resvport", func(o *Options, _ string) error { o.AnyPort = true; return nil }, "come from any port"},
	{"hard", "", "hard", nothing, "wait for a silent server for ever; signals end the wait (default)"},
	{"soft", "", "hard", func(o *Options, _ string) error { o.Recovery = Soft; return nil }, "fail with EIO after timeo × retrans"},
	{"softerr", "", "hard", func(o *Options, _ string) error { o.Recovery = SoftErr; return nil }, "fail with ETIMEDOUT after timeo × retrans"},
	{"timeo", "N", "", number(1, 6000, func(o *Options, n int) { o.Timeo = time.Duration(n) * time.Second / 10 }), "tenths of a second that the server may be silent before a call is sent again (default 600 with soft, else 200)"},
	{"retrans", "N", "", number(0, 1000, func(o *Options, n int) { o.Retrans = n }), "how often, before a soft mount fails (default 2)"},
	{"intr", "", "intr", nothing, ""},
	{"nointr", "", "intr", nothing, ""},
	{"fg", "", "bg", nothing, "fail if the server does not answer (default)"},
	{"bg", "", "bg", func(o *Options, _ string) error { o.Background = true; return nil }, "if the server does not answer at first, go on trying in the background"},
	{"retry", "N", "", number(0, 1<<20, func(o *Options, n int) { o.Retry = time.Duration(n) * time.Minute }), "minutes to try for (default 0; 2 in mount.nfsrdma, 10000 with bg)"},

	{"rsize", "N", "", number(1, math.MaxInt32, func(o *Options, n int) { o.ReadSize = transferSize(n) }), "most bytes of one READ (default: the most both can, up to 1 MiB)"},
	{"wsize", "N", "", number(1, math.MaxInt32, func(o *Options, n int) { o.WriteSize = transferSize(n) }), "most bytes of one WRITE (likewise)"},
	{"memory", "SIZE", "", setMemory, "most memory of data: not stable on the server yet, or read ahead (default 384M, at least 16M)"},
	{"acregmin", "N", "acregmin", seconds(func(o *Options, d time.Duration) { o.AttrFileMin = d }), "seconds that attributes of files are cached at least (default 3)"},
	{"acregmax", "N", "acregmax", seconds(func(o *Options, d time.Duration) { o.AttrFileMax = d }), "and at most, while unchanged (default 60)"},
	{"acdirmin", "N", "acdirmin", seconds(func(o *Options, d time.Duration) { o.AttrDirMin = d }), "seconds that attributes of directories are cached at least (default 30)"},
	{"acdirmax", "N", "acdirmax", seconds(func(o *Options, d time.Duration) { o.AttrDirMax = d }), "and at most (default 60)"},
	{"actimeo", "N", "actimeo", seconds(setActimeo), "all four in one"},
	{"ac", "", "ac", nothing, "cache attributes (default)"},
	{"noac", "", "ac", func(o *Options, _ string) error { o.NoAttrCache, o.Sync = true, true; return nil }, "cache none, and write at once"},
	{"cto", "", "cto", nothing, "close-to-open consistency (default)"},
	{"nocto", "", "cto", func(o *Options, _ string) error { o.NoCTO = true; return nil }, "open trusts cached attributes: for data that nobody changes"},
	{"lookupcache", "all|pos|none", "", setLookup, "which looked-up names are cached (default all)"},
	{"rdirplus", "", "rdirplus", nothing, "list directories with attributes (default)"},
	{"nordirplus", "", "rdirplus", func(o *Options, _ string) error { o.NoReaddirPlus = true; return nil }, "without"},
	{"sync", "", "sync", func(o *Options, _ string) error { o.Sync = true; return nil }, "each write is on the server's disk when it returns"},
	{"async", "", "sync", nothing, "data is written in the background, and is on disk after fsync and close (default)"},
	{"acl", "", "acl", nothing, "POSIX ACLs can be read and set, where the server speaks NFSACL (default)"},
	{"noacl", "", "acl", func(o *Options, _ string) error { o.NoACL = true; return nil }, "they cannot; the server decides by them all the same"},
	{"lock", "", "lock", nothing, "locks of files hold among all clients of the server (default)"},
	{"nolock", "", "lock", func(o *Options, _ string) error { o.LocalPosix, o.LocalFlock = true, true; return nil }, "locks hold between the programs of this mount only"},
	{"local_lock", "all|flock|posix|none", "", setLocalLock, "which kinds of locks hold between the programs of this mount only (default none)"},
	{"nlmport", "N", "", number(0, 65535, func(o *Options, n int) { o.LockPort = n }), "TCP port of the server's lock manager (default: the NFS port, then rpcbind)"},
	{"sec", "sys", "", only("sys"), "AUTH_SYS, the one there is"},
	{"uid", "N", "", id(func(o *Options, n uint32) { o.UID = ID{true, n} }), "act as this user on the server, whoever calls"},
	{"gid", "N", "", id(func(o *Options, n uint32) { o.GID = ID{true, n} }), "act as this group"},
	{"vers", "3", "vers", only("3"), "NFS version 3, the one there is"},
	{"nfsvers", "3", "vers", only("3"), ""},
	{"v3", "", "vers", nothing, ""},
	{"mountvers", "3", "", only("3"), ""},
	{"sharecache", "", "sharecache", nothing, ""},
	{"nosharecache", "", "sharecache", nothing, ""},

	{"allow_other", "", "allow_other", func(o *Options, _ string) error { o.AllowOther = true; return nil }, "other users may use the mount, each with his own rights (default for root)"},
	{"noallow_other", "", "allow_other", func(o *Options, _ string) error { o.OnlyMe = true; return nil }, "nobody but the one who mounts (default for others)"},
	{"default_permissions", "", "", func(o *Options, _ string) error { o.DefaultPermissions = true; return nil }, "this machine checks permission bits too, beside the server"},
	{"ro", "", "+rw", func(o *Options, _ string) error { o.ReadOnly = true; return nil }, "read-only"},
	{"rw", "", "+rw", func(o *Options, _ string) error { o.ReadOnly = false; return nil }, ""},
	{"nosuid", "", "+suid", func(o *Options, _ string) error { o.NoSuid = true; return nil }, "set-id bits mean nothing"},
	{"suid", "", "+suid", func(o *Options, _ string) error { o.NoSuid = false; return nil }, ""},
	{"nodev", "", "+dev", func(o *Options, _ string) error { o.NoDev = true; return nil }, "device files cannot be opened"},
	{"dev", "", "+dev", func(o *Options, _ string) error { o.NoDev = false; return nil }, ""},
	{"noexec", "", "+exec", func(o *Options, _ string) error { o.NoExec = true; return nil }, "nothing can be executed"},
	{"exec", "", "+exec", func(o *Options, _ string) error { o.NoExec = false; return nil }, ""},
	{"noatime", "", "+atime", func(o *Options, _ string) error { o.NoAtime, o.StrictAtime = true, false; return nil }, "accepted as in mount(8); times of access are the server's in any case"},
	{"atime", "", "+atime", clearAtime, ""},
	{"relatime", "", "+atime", clearAtime, ""},
	{"norelatime", "", "+atime", clearAtime, ""},
	{"strictatime", "", "+atime", func(o *Options, _ string) error { o.NoAtime, o.StrictAtime = false, true; return nil }, ""},
	{"nodiratime", "", "+diratime", nothing, ""},
	{"diratime", "", "+diratime", nothing, ""},
	{"defaults", "", "+defaults", func(o *Options, _ string) error {
		o.ReadOnly, o.NoSuid, o.NoDev, o.NoExec = false, false, false, false
		return nil
	}, ""},

	// What fstab has for mount(8), systemd and others, and is no matter of the mount itself.
	{"user", "[NAME]", "+user", asUser, ""},
	{"users", "", "+user", asUser, ""},
	{"owner", "", "+user", func(o *Options, _ string) error { o.NoSuid, o.NoDev = true, true; return nil }, ""},
	{"group", "", "+user", func(o *Options, _ string) error { o.NoSuid, o.NoDev = true, true; return nil }, ""},
	{"nouser", "", "+user", nothing, ""},
	{"nousers", "", "+user", nothing, ""},
	{"noowner", "", "+user", nothing, ""},
	{"nogroup", "", "+user", nothing, ""},
	{"auto", "", "+auto", nothing, ""},
	{"noauto", "", "+auto", nothing, ""},
	{"nofail", "", "+nofail", nothing, ""},
	{"_netdev", "", "+_netdev", nothing, ""},
	{"silent", "", "+silent", nothing, ""},
	{"loud", "", "+silent", nothing, ""},
	{"comment", "TEXT", "+comment", nothing, ""},
	{"remount", "", "", func(*Options, string) error {
		return fmt.Errorf("options of a mount cannot be changed: unmount it and mount it again")
	}, ""},
}

func nothing(*Options, string) error { return nil }

func clearAtime(o *Options, _ string) error { o.NoAtime, o.StrictAtime = false, false; return nil }

// asUser is what user and users imply in mount(8).
func asUser(o *Options, _ string) error {
	o.NoSuid, o.NoDev, o.NoExec = true, true, true
	return nil
}

func setProto(o *Options, v string) error {
	words := map[string]Proto{"rdma": RDMA, "rdma6": RDMA, "tcp": TCP, "tcp6": TCP, "auto": Auto}
	p, ok := words[v]
	if !ok {
		return fmt.Errorf("want rdma, tcp or auto")
	}
	o.Proto = p
	return nil
}

func setProvider(o *Options, v string) (err error) {
	o.Provider, err = nfsclient.ParseProvider(v)
	return err
}

func setCRC(o *Options, v string) error {
	words := map[string]rnic.CRCMode{"on": rnic.CRCOn, "auto": rnic.CRCAuto, "off": rnic.CRCOff, "strict": rnic.CRCStrict}
	m, ok := words[v]
	if !ok {
		return fmt.Errorf("want on, auto, off or strict")
	}
	o.CRC = m
	return nil
}

func setLookup(o *Options, v string) error {
	words := map[string]Lookup{"all": LookupAll, "pos": LookupPositive, "positive": LookupPositive, "none": LookupNone}
	l, ok := words[v]
	if !ok {
		return fmt.Errorf("want all, pos or none")
	}
	o.Lookup = l
	return nil
}

// memoryLeast is the least memory that a mount works with.
const memoryLeast = 16 << 20

func setMemory(o *Options, v string) error {
	n, err := cli.ParseSize(v)
	if err != nil || n < memoryLeast {
		return fmt.Errorf("want a size of at least 16M, such as 512M or 2G")
	}
	o.Memory = n
	return nil
}

func setActimeo(o *Options, d time.Duration) {
	o.AttrFileMin, o.AttrFileMax, o.AttrDirMin, o.AttrDirMax = d, d, d, d
}

func setLocalLock(o *Options, v string) error {
	switch v {
	case "all", "flock", "posix", "none":
		o.LocalPosix, o.LocalFlock = v == "all" || v == "posix", v == "all" || v == "flock"
		return nil
	}
	return fmt.Errorf("want all, flock, posix or none")
}

// only accepts one value.
func only(want string) func(*Options, string) error {
	return func(_ *Options, v string) error {
		if v != want {
			return fmt.Errorf("want %s", want)
		}
		return nil
	}
}

// number reads a decimal number of a range.
func number(least, most int, set func(*Options, int)) func(*Options, string) error {
	return func(o *Options, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most || strings.HasPrefix(v, "+") {
			return fmt.Errorf("want a number from %d to %d", least, most)
		}
		set(o, n)
		return nil
	}
}

// secondsMost bounds the times of the attribute cache, and so their sums.
const secondsMost = 1 << 30

// seconds reads the times of the attribute cache.
func seconds(set func(*Options, time.Duration)) func(*Options, string) error {
	return number(0, secondsMost, func(o *Options, n int) { set(o, time.Duration(n)*time.Second) })
}

// id reads a user or group number. The last one is nobody's: system calls take it for "unchanged".
func id(set func(*Options, uint32)) func(*Options, string) error {
	return func(o *Options, v string) error {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil || n == math.MaxUint32 {
			return fmt.Errorf("want a number, as id(1) prints it")
		}
		set(o, uint32(n))
		return nil
	}
}

// transferSize rounds a transfer size to what pages and the client can (nfs(5) rsize).
func transferSize(n int) int {
	const page, most = 4096, 1 << 20
	return min(max(n/page*page, page), most)
}
