// The option table: name, argument, contradictions, effect.

package mountopt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

// A kind is the treatment of an option.
type kind uint8

// The kinds.
const (
	implemented kind = iota // has the effect that help describes
	same                    // an alias of other options, or the default
	ignored                 // accepted without effect; help says why
	refused                 // an error with the text of help, which names an alternative
	renamed                 // works as the option named by help, with a warning
)

// An option is one name from nfs(5) or mount(8), or an additional one.
type option struct {
	kind kind
	name string

	// arg stands after the "=" in help texts. It is "" without an argument, and in brackets if
	// optional.
	arg string

	// group is common to options that exclude each other; "" stands for the option's name. In a
	// group that begins with "+" the last option wins, as in mount(8).
	group string

	set  func(o *Options, v string) error // nil: no effect
	help string                           // one line; neighbors with a kind other than implemented share it
}

// options is the table, in the order of the help text.
var options = []option{
	{implemented, "proto", "rdma|tcp|auto", "", setProto, "transport; auto tries RDMA, then TCP, and reports which it is"},
	{implemented, "rdma", "[auto|iwarp|roce]", "rdma", setRDMA, "protocol of RDMA: auto is iWARP, else RoCE (default). rdma alone is proto=rdma"},
	{implemented, "tcp", "", "proto", func(o *Options, _ string) error { o.Proto = TCP; return nil }, "the same as proto=tcp"},
	{implemented, "port", "N", "", number(0, 65535, func(o *Options, n int) { o.Port = n }), "the server's NFS port (default 20049 for RDMA, 2049 for TCP)"},
	{implemented, "mountport", "N", "", number(0, 65535, func(o *Options, n int) { o.MountPort = n }), "TCP port of the server's MOUNT service (default: the NFS port, then rpcbind)"},
	{implemented, "mounthost", "HOST", "mounthost", setMountHost, "host of the server's MOUNT service (default: the server)"},
	{same, "mountaddr", "HOST", "mounthost", setMountHost, "the same as mounthost"},
	{ignored, "mountproto", "tcp|udp", "", oneOf("tcp", "tcp6", "udp", "udp6"), "accepted: MOUNT calls always use TCP"},
	{implemented, "nconnect", "N", "", number(1, 64, func(o *Options, n int) { o.NConnect = n }), "connections that calls are spread over (default 1)"},
	{implemented, "crc", "on|auto|off|strict", "", setCRC, "MPA CRC over RDMA (default on)"},
	{implemented, "write", "lazy|eager|wait", "", setWrite, "wait is the same as sync, lazy and eager are async"},
	{implemented, "resvport", "", "resvport", nil, "over TCP, connect from a port below 1024 if possible (default)"},
	{implemented, "noresvport", "", "resvport", func(o *Options, _ string) error { o.AnyPort = true; return nil }, "connect from any port"},
	{implemented, "hard", "", "hard", nil, "wait for a silent server without limit; signals end the wait (default)"},
	{implemented, "soft", "", "hard", func(o *Options, _ string) error { o.Recovery = Soft; return nil }, "fail with EIO after timeo × retrans"},
	{implemented, "softerr", "", "hard", func(o *Options, _ string) error { o.Recovery = SoftErr; return nil }, "fail with ETIMEDOUT after timeo × retrans"},
	{implemented, "timeo", "N", "", numberOf("tenths of a second (timeo=50 is 5 s)", 1, 6000, func(o *Options, n int) { o.Timeo = time.Duration(n) * time.Second / 10 }), "send a call again after N tenths of a second without an answer (default 600 with soft, else 200)"},
	{implemented, "retrans", "N", "", number(0, 1000, func(o *Options, n int) { o.Retrans = n }), "send a call again N times before a soft mount fails (default 2)"},
	{ignored, "intr", "", "intr", nil, "accepted: signals end each wait in any case"},
	{ignored, "nointr", "", "intr", nil, "accepted: signals end each wait in any case"},
	{implemented, "fg", "", "bg", nil, "fail if the server does not answer (default)"},
	{implemented, "bg", "", "bg", func(o *Options, _ string) error { o.Background = true; return nil }, "if the server does not answer at first, try again in the background"},
	{implemented, "retry", "N", "", numberOf("minutes", 0, 1<<20, func(o *Options, n int) { o.Retry = time.Duration(n) * time.Minute }), "try to mount for N minutes (default 0; 2 in mount.nfsrdma, 10000 with bg)"},

	{implemented, "rsize", "N", "", number(1, math.MaxInt32, func(o *Options, n int) { o.ReadSize = transferSize(n) }), "most bytes of one READ (default: the largest size of both sides, up to 1 MiB)"},
	{implemented, "wsize", "N", "", number(1, math.MaxInt32, func(o *Options, n int) { o.WriteSize = transferSize(n) }), "most bytes of one WRITE (default as for rsize)"},
	{implemented, "memory", "SIZE", "", setMemory, "most memory for data that is read ahead, or not stable on the server yet (default 384M, at least 16M)"},
	{implemented, "acregmin", "N", "acregmin", seconds(func(o *Options, d time.Duration) { o.AttrFileMin = d }), "cache attributes of files at least N seconds (default 3)"},
	{implemented, "acregmax", "N", "acregmax", seconds(func(o *Options, d time.Duration) { o.AttrFileMax = d }), "cache attributes of unchanged files at most N seconds (default 60)"},
	{implemented, "acdirmin", "N", "acdirmin", seconds(func(o *Options, d time.Duration) { o.AttrDirMin = d }), "cache attributes of directories at least N seconds (default 30)"},
	{implemented, "acdirmax", "N", "acdirmax", seconds(func(o *Options, d time.Duration) { o.AttrDirMax = d }), "cache attributes of directories at most N seconds (default 60)"},
	{implemented, "actimeo", "N", "actimeo", seconds(setActimeo), "set all four of them to N"},
	{implemented, "ac", "", "ac", nil, "cache attributes (default)"},
	{implemented, "noac", "", "ac", func(o *Options, _ string) error { o.NoAttrCache, o.Sync = true, true; return nil }, "cache no attributes, and write at once"},
	{implemented, "cto", "", "cto", nil, "close-to-open consistency (default)"},
	{implemented, "nocto", "", "cto", func(o *Options, _ string) error { o.NoCTO = true; return nil }, "use cached attributes at open, for data that does not change"},
	{implemented, "lookupcache", "all|pos|none", "", setLookup, "which looked-up names are cached (default all)"},
	{implemented, "rdirplus", "", "rdirplus", nil, "list directories with attributes (default)"},
	{implemented, "nordirplus", "", "rdirplus", func(o *Options, _ string) error { o.NoReaddirPlus = true; return nil }, "list directories without attributes"},
	{implemented, "sync", "", "sync", func(o *Options, _ string) error { o.Sync = true; return nil }, "each write is on the server's disk when it returns"},
	{implemented, "async", "", "sync", nil, "data is written in the background, and is on disk after fsync and close (default)"},
	{implemented, "acl", "", "acl", nil, "read and set POSIX ACLs if the server supports NFSACL (default)"},
	{implemented, "noacl", "", "acl", func(o *Options, _ string) error { o.NoACL = true; return nil }, "do not read or set ACLs; the server still applies them"},
	{implemented, "lock", "", "lock", nil, "locks of files hold among all clients of the server (default)"},
	{implemented, "nolock", "", "lock", func(o *Options, _ string) error { o.LocalPosix, o.LocalFlock = true, true; return nil }, "locks hold between the programs of this mount only"},
	{implemented, "local_lock", "all|flock|posix|none", "", setLocalLock, "which kinds of locks hold between the programs of this mount only (default none)"},
	{implemented, "nlmport", "N", "", number(0, 65535, func(o *Options, n int) { o.LockPort = n }), "TCP port of the server's lock manager (default: the NFS port, then rpcbind)"},
	{implemented, "sec", "FLAVOR", "", setSec, "security flavor: sys, krb5 (identity), krb5i (integrity) or krb5p (privacy), or several with colons between them (default: the first of the server's list that this machine can use)"},
	{implemented, "keytab", "FILE", "", file(func(o *Options) *string { return &o.Security.Keytab }), "Kerberos keys of this machine, which root's calls use (default /etc/krb5.keytab)"},
	{implemented, "rootcred", "keytab|ccache", "", setRootCred, "Kerberos credentials of root: the keytab, else its ticket cache (default), or only the ticket cache"},
	{implemented, "xprtsec", "none|tls|mtls", "", setXprtSec, "protect connections by TLS: tls checks the server's certificate, mtls also sends one (default none)"},
	{implemented, "cacert", "FILE", "", file(func(o *Options) *string { return &o.Security.CACert }), "PEM file of certificates that issue the server's (default: those this system trusts)"},
	{implemented, "cert", "FILE", "", file(func(o *Options) *string { return &o.Security.Cert }), "PEM file with this client's certificate, for mtls"},
	{implemented, "key", "FILE", "", file(func(o *Options) *string { return &o.Security.Key }), "PEM file with the key of this client's certificate"},
	{implemented, "crl", "FILE", "", file(func(o *Options) *string { return &o.Security.CRL }), "PEM file with revocation lists (default: no certificate counts as revoked)"},
	{implemented, "tlsname", "NAME", "", text(func(o *Options) *string { return &o.Security.TLSName }), "the name in the server's certificate (default: SERVER)"},
	{implemented, "uid", "N", "", id(func(o *Options, n uint32) { o.UID = ID{true, n} }), "act as user N on the server for all programs"},
	{implemented, "gid", "N", "", id(func(o *Options, n uint32) { o.GID = ID{true, n} }), "act as group N on the server for all programs"},
	{implemented, "vers", "3", "vers", setVersion, "NFS version 3, the only one"},
	{same, "nfsvers", "3", "vers", setVersion, "the same as vers=3"},
	{same, "v3", "", "vers", nil, "the same as vers=3"},
	{same, "mountvers", "3", "", setVersion, "the same as vers=3"},
	{ignored, "sharecache", "", "sharecache", nil, "accepted: each mount has caches of its own"},
	{ignored, "nosharecache", "", "sharecache", nil, "accepted: each mount has caches of its own"},

	{implemented, "allow_other", "", "allow_other", func(o *Options, _ string) error { o.AllowOther = true; return nil }, "other users may use the mount, each with their own rights (default for root)"},
	{implemented, "noallow_other", "", "allow_other", func(o *Options, _ string) error { o.OnlyMe = true; return nil }, "only the user that mounts it (default for others)"},
	{implemented, "default_permissions", "", "", func(o *Options, _ string) error { o.DefaultPermissions = true; return nil }, "check permission bits on this machine too"},
	{implemented, "ro", "", "+rw", func(o *Options, _ string) error { o.ReadOnly = true; return nil }, "read-only"},
	{same, "rw", "", "+rw", func(o *Options, _ string) error { o.ReadOnly = false; return nil }, "as if ro had not been given"},
	{implemented, "nosuid", "", "+suid", func(o *Options, _ string) error { o.NoSuid = true; return nil }, "set-id bits have no effect"},
	{same, "suid", "", "+suid", func(o *Options, _ string) error { o.NoSuid = false; return nil }, "as if nosuid had not been given"},
	{implemented, "nosymfollow", "", "+symfollow", func(o *Options, _ string) error { o.NoSymfollow = true; return nil }, "symbolic links are not followed on the mount; root only"},
	{same, "symfollow", "", "+symfollow", func(o *Options, _ string) error { o.NoSymfollow = false; return nil }, "as if nosymfollow had not been given"},
	{implemented, "context", "LABEL", "", label("context"), "the SELinux label of all files; ignored if SELinux is off"},
	{implemented, "fscontext", "LABEL", "", label("fscontext"), "the SELinux label of the file system"},
	{implemented, "defcontext", "LABEL", "", label("defcontext"), "the SELinux label of files without one"},
	{implemented, "rootcontext", "LABEL", "", label("rootcontext"), "the SELinux label of the root of the mount"},
	{implemented, "nodev", "", "+dev", func(o *Options, _ string) error { o.NoDev = true; return nil }, "device files cannot be opened"},
	{same, "dev", "", "+dev", func(o *Options, _ string) error { o.NoDev = false; return nil }, "as if nodev had not been given"},
	{implemented, "noexec", "", "+exec", func(o *Options, _ string) error { o.NoExec = true; return nil }, "nothing can be executed"},
	{same, "exec", "", "+exec", func(o *Options, _ string) error { o.NoExec = false; return nil }, "as if noexec had not been given"},
	{implemented, "noatime", "", "+atime", func(o *Options, _ string) error { o.NoAtime = true; return nil }, "accepted as in mount(8); times of access are the server's in any case"},
	{ignored, "atime", "", "+atime", clearAtime, "accepted: times of access are the server's in any case"},
	{ignored, "relatime", "", "+atime", clearAtime, "accepted: times of access are the server's in any case"},
	{ignored, "norelatime", "", "+atime", clearAtime, "accepted: times of access are the server's in any case"},
	{ignored, "strictatime", "", "+atime", clearAtime, "accepted: times of access are the server's in any case"},
	{ignored, "nostrictatime", "", "+atime", clearAtime, "accepted: times of access are the server's in any case"},
	{ignored, "nodiratime", "", "+diratime", nil, "accepted: times of access are the server's in any case"},
	{ignored, "diratime", "", "+diratime", nil, "accepted: times of access are the server's in any case"},
	{ignored, "defaults", "", "+defaults", nil, "accepted: as for mount(8), other options of the list count before and after it"},

	// Options in fstab for mount(8), systemd and other programs. They do not concern the mount.
	{same, "user", "[NAME]", "+user", asUser, "nosuid, nodev and noexec, unless a later option reverts them"},
	{same, "users", "", "+user", asUser, "nosuid, nodev and noexec, unless a later option reverts them"},
	{same, "owner", "", "+user", func(o *Options, _ string) error { o.NoSuid, o.NoDev = true, true; return nil }, "nosuid and nodev, likewise"},
	{same, "group", "", "+user", func(o *Options, _ string) error { o.NoSuid, o.NoDev = true, true; return nil }, "nosuid and nodev, likewise"},
	{ignored, "nouser", "", "+user", nil, "accepted: for mount(8), systemd and others that read fstab(5)"},
	{ignored, "nousers", "", "+user", nil, "accepted: for mount(8), systemd and others that read fstab(5)"},
	{ignored, "noowner", "", "+user", nil, "accepted: for mount(8), systemd and others that read fstab(5)"},
	{ignored, "nogroup", "", "+user", nil, "accepted: for mount(8), systemd and others that read fstab(5)"},
	{ignored, "auto", "", "+auto", nil, "accepted: for mount(8), systemd and others that read fstab(5)"},
	{ignored, "noauto", "", "+auto", nil, "accepted: for mount(8), systemd and others that read fstab(5)"},
	{ignored, "nofail", "", "+nofail", nil, "accepted: for mount(8), systemd and others that read fstab(5)"},
	{ignored, "_netdev", "", "+_netdev", nil, "accepted: for mount(8), systemd and others that read fstab(5)"},
	{ignored, "silent", "", "+silent", nil, "accepted: for mount(8), systemd and others that read fstab(5)"},
	{ignored, "loud", "", "+silent", nil, "accepted: for mount(8), systemd and others that read fstab(5)"},
	{ignored, "comment", "TEXT", "+comment", nil, "accepted: for mount(8), systemd and others that read fstab(5)"},

	// Options without effect in this client.
	{ignored, "fsc", "", "fsc", nil, "accepted: nothing is cached on local disks"},
	{ignored, "nofsc", "", "fsc", nil, "accepted: nothing is cached on local disks"},
	{ignored, "softreval", "", "softreval", nil, "accepted: attributes that are out of date are never used, and hard or soft says how long to wait"},
	{ignored, "nosoftreval", "", "softreval", nil, "accepted: attributes that are out of date are never used, and hard or soft says how long to wait"},
	{ignored, "namlen", "N", "", number(0, math.MaxInt32, func(*Options, int) {}), "accepted: the server says how long names may be"},
	{ignored, "bsize", "N", "", number(0, math.MaxInt32, func(*Options, int) {}), "accepted: obsolete, and of file systems on disks"},
	{ignored, "addr", "ADDR", "", nil, "accepted: the server's address in /proc/mounts"},
	{ignored, "max_connect", "N", "", number(1, 16, func(*Options, int) {}), "accepted: for NFS version 4 alone"},
	{ignored, "trunkdiscovery", "", "trunkdiscovery", nil, "accepted: for NFS version 4 alone"},
	{ignored, "notrunkdiscovery", "", "trunkdiscovery", nil, "accepted: for NFS version 4 alone"},
	{ignored, "clientaddr", "ADDR", "", nil, "accepted: for NFS version 4 alone"},
	{ignored, "migration", "", "migration", nil, "accepted: for NFS version 4 alone"},
	{ignored, "nomigration", "", "migration", nil, "accepted: for NFS version 4 alone"},
	{ignored, "lazytime", "", "+lazytime", nil, "accepted: times are the server's"},
	{ignored, "nolazytime", "", "+lazytime", nil, "accepted: times are the server's"},
	{ignored, "dirsync", "", "+dirsync", nil, "accepted: changes of names are on the server's disk when they return, in any case"},
	{ignored, "iversion", "", "+iversion", nil, "accepted: NFS version 3 has no change counter, and Linux no mandatory locks any more"},
	{ignored, "noiversion", "", "+iversion", nil, "accepted: NFS version 3 has no change counter, and Linux no mandatory locks any more"},
	{ignored, "mand", "", "+mand", nil, "accepted: NFS version 3 has no change counter, and Linux no mandatory locks any more"},
	{ignored, "nomand", "", "+mand", nil, "accepted: NFS version 3 has no change counter, and Linux no mandatory locks any more"},
	{same, "sloppy", "", "", nil, "unknown options are left out (mount -s)"},

	{renamed, "provider", "iwarp|roce|auto", "rdma", setRDMA, "rdma"},

	{refused, "udp", "", "", nil, "NFS over UDP is not spoken: write proto=tcp or proto=rdma"},
	{refused, "minorversion", "N", "", nil, "NFS version 3 has no minor versions: leave it out"},
	{refused, "v4", "", "", nil, "NFS version 4 is not spoken: leave it out, or write vers=3"},
	{refused, "remount", "", "", nil, "options of a mount cannot be changed: unmount it and mount it again"},
}

func clearAtime(o *Options, _ string) error { o.NoAtime = false; return nil }

// asUser sets the options implied by user and users in mount(8).
func asUser(o *Options, _ string) error {
	o.NoSuid, o.NoDev, o.NoExec = true, true, true
	return nil
}

func setProto(o *Options, v string) error {
	if strings.HasPrefix(v, "udp") {
		return errors.New("NFS over UDP is not spoken: write proto=tcp or proto=rdma")
	}
	words := map[string]Proto{"rdma": RDMA, "rdma6": RDMA, "tcp": TCP, "tcp6": TCP, "auto": Auto}
	p, ok := words[v]
	if !ok {
		return fmt.Errorf("must be rdma, tcp or auto")
	}
	o.Proto = p
	return nil
}

func setRDMA(o *Options, v string) (err error) {
	if v == "" {
		o.Proto = RDMA
		return nil
	}
	if o.Provider, err = nfsclient.ParseProvider(v); err != nil {
		return errors.New("must be auto, iwarp or roce")
	}
	return nil
}

func setCRC(o *Options, v string) error {
	words := map[string]rnic.CRCMode{"on": rnic.CRCOn, "auto": rnic.CRCAuto, "off": rnic.CRCOff, "strict": rnic.CRCStrict}
	m, ok := words[v]
	if !ok {
		return fmt.Errorf("must be on, auto, off or strict")
	}
	o.CRC = m
	return nil
}

func setLookup(o *Options, v string) error {
	words := map[string]Lookup{"all": LookupAll, "pos": LookupPositive, "positive": LookupPositive, "none": LookupNone}
	l, ok := words[v]
	if !ok {
		return fmt.Errorf("must be all, pos or none")
	}
	o.Lookup = l
	return nil
}

// minMemory is the minimum memory of a mount, in bytes.
const minMemory = 16 << 20

func setMemory(o *Options, v string) error {
	n, err := cli.ParseSize(v)
	if err != nil || n < minMemory {
		return fmt.Errorf("must be a size of at least 16M, such as 512M or 2G")
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
	return fmt.Errorf("must be all, flock, posix or none")
}

// oneOf accepts some values with the same effect.
func oneOf(want ...string) func(*Options, string) error {
	return func(_ *Options, v string) error {
		if !slices.Contains(want, v) {
			return fmt.Errorf("must be %s", strings.Join(want, " or "))
		}
		return nil
	}
}

func setSec(o *Options, v string) (err error) {
	o.Security.Sec, err = secure.ParseSec(v)
	return err
}

func setXprtSec(o *Options, v string) (err error) {
	if o.Security.XprtSec, err = transport.ParseXprtSec(v); err != nil {
		return errors.New("must be none, tls or mtls")
	}
	return nil
}

func setRootCred(o *Options, v string) error {
	o.Security.RootCache = v == "ccache"
	return oneOf("keytab", "ccache")(o, v)
}

// file is like text, for a file. It requires an absolute path, because the mount's process has
// another working directory.
func file(of func(*Options) *string) func(*Options, string) error {
	return func(o *Options, v string) error {
		if v != "" && !strings.HasPrefix(v, "/") {
			return errors.New("must be an absolute path")
		}
		return text(of)(o, v)
	}
}

// text stores a value. splitList has already removed the quotes around a value with a comma.
func text(of func(*Options) *string) func(*Options, string) error {
	return func(o *Options, v string) error {
		switch {
		case v == "":
			return errors.New("a value is missing")
		case strings.ContainsAny(v, "\"\x00"):
			return errors.New("must not contain a quote")
		}
		*of(o) = v
		return nil
	}
}

func setVersion(_ *Options, v string) error {
	if v != "3" {
		return errors.New("only NFS version 3 is implemented: write vers=3")
	}
	return nil
}

func setMountHost(o *Options, v string) error {
	host := v
	if inner, ok := strings.CutPrefix(v, "["); ok && strings.HasSuffix(inner, "]") {
		host = strings.TrimSuffix(inner, "]") // an IPv6 address, as in SERVER:/export
	}
	if host == "" || strings.ContainsAny(host, "/[] ") || strings.ContainsFunc(host, unicode.IsControl) {
		return fmt.Errorf("must be the name or the address of a host")
	}
	o.MountHost = host
	return nil
}

func setWrite(o *Options, v string) error {
	o.Sync = o.Sync || v == "wait"
	return oneOf("lazy", "eager", "wait")(o, v)
}

// label keeps an SELinux label as mount(2) takes it: in quotes, because labels contain commas.
func label(name string) func(*Options, string) error {
	return func(o *Options, v string) error {
		if v == "" || strings.ContainsAny(v, "\"\x00") {
			return fmt.Errorf("must be a label such as system_u:object_r:nfs_t:s0")
		}
		o.Contexts = strings.TrimPrefix(o.Contexts+","+name+`="`+v+`"`, ",")
		return nil
	}
}

// number parses a decimal number in a range.
func number(least, most int, set func(*Options, int)) func(*Options, string) error {
	return numberOf("a number", least, most, set)
}

// numberOf is like number, with a unit for the error message.
func numberOf(unit string, least, most int, set func(*Options, int)) func(*Options, string) error {
	return func(o *Options, v string) error {
		n, err := strconv.ParseUint(v, 10, 31)
		if err != nil || int(n) < least || int(n) > most {
			return fmt.Errorf("must be %s from %d to %d", unit, least, most)
		}
		set(o, int(n))
		return nil
	}
}

// maxSeconds limits the attribute-cache times, and so their sums.
const maxSeconds = 1 << 30

// seconds parses an attribute-cache time.
func seconds(set func(*Options, time.Duration)) func(*Options, string) error {
	return numberOf("seconds", 0, maxSeconds, func(o *Options, n int) { set(o, time.Duration(n)*time.Second) })
}

// id parses a user or group number. The last number is invalid, because system calls use it for
// "unchanged".
func id(set func(*Options, uint32)) func(*Options, string) error {
	return func(o *Options, v string) error {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil || n == math.MaxUint32 {
			return errors.New("must be a number: id -u NAME prints the one of a user, id -g NAME of a group")
		}
		set(o, uint32(n))
		return nil
	}
}

// transferSize rounds a transfer size down to pages and to the client's maximum, like the Linux
// client (nfs(5) rsize). The minimum is one page, FUSE's smallest request. Linux also supports 1024
// and 2048 bytes, and uses 4096 for values below 1024.
func transferSize(n int) int {
	const page, most = 4096, 1 << 20
	return min(max(n/page*page, page), most)
}
