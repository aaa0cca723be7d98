// Each name, each contradiction, and what a mistake is told.

package mountopt

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

func unchanged(*Options) {}

// edge has the edges of values, words that mean the same, and the order of options.
var edge = map[string]func(*Options){
	"ro,nosuid,nodev,noexec,defaults": func(o *Options) { o.ReadOnly, o.NoSuid, o.NoDev, o.NoExec = true, true, true, true },
	"defaults,ro":                     func(o *Options) { o.ReadOnly = true },
	"proto=tcp,proto=tcp6,tcp":        func(o *Options) { o.Proto = TCP }, "rdma,proto=rdma6": func(o *Options) { o.Proto = RDMA },
	"lookupcache=pos,lookupcache=positive": func(o *Options) { o.Lookup = LookupPositive }, "mounthost=[::1],mountaddr=::1": func(o *Options) { o.MountHost = "::1" },
	"rsize=1024": func(o *Options) { o.ReadSize = 4096 }, "rsize=8191": func(o *Options) { o.ReadSize = 4096 }, "rsize=8192": func(o *Options) { o.ReadSize = 8192 },
	"wsize=1048575": func(o *Options) { o.WriteSize = 1<<20 - 4096 }, "wsize=2147483647": func(o *Options) { o.WriteSize = 1 << 20 },
	"timeo=1": func(o *Options) { o.Timeo = time.Second / 10 }, "timeo=6000": func(o *Options) { o.Timeo = 10 * time.Minute }, "retrans=0": func(o *Options) { o.Retrans = 0 },
	"retrans=1000": func(o *Options) { o.Retrans = 1000 }, "retry=1048576": func(o *Options) { o.Retry = 1 << 20 * time.Minute }, "port=65535": func(o *Options) { o.Port = 65535 },
	"actimeo=1073741824": func(o *Options) { setActimeo(o, 1<<30*time.Second) }, "uid=4294967294": func(o *Options) { o.UID = ID{true, 1<<32 - 2} },
	"port=08": func(o *Options) { o.Port = 8 }, `port="80"`: func(o *Options) { o.Port = 80 }, " soft , ro ,,": func(o *Options) { o.Recovery, o.ReadOnly = Soft, true },
	"comment=\"a,soft\",ro": func(o *Options) { o.ReadOnly = true }, "x-a=b=c,X-b,ro": func(o *Options) { o.ReadOnly = true }, "soft,soft": func(o *Options) { o.Recovery = Soft },
}

// lesser has the effects of rare options.
var lesser = map[string]func(*Options){
	"mountproto=udp": unchanged, "mountproto=udp6": unchanged, "mounthost=m": func(o *Options) { o.MountHost = "m" }, "mountaddr=[::1]": func(o *Options) { o.MountHost = "::1" },
	"mounthost=m,mountaddr=m": func(o *Options) { o.MountHost = "m" }, "sec=krb5:sys": unchanged,
	"write=lazy": unchanged, "write=eager": unchanged, "write=wait": func(o *Options) { o.Sync = true }, "sync,write=lazy": func(o *Options) { o.Sync = true },
	"nosymfollow": func(o *Options) { o.NoSymfollow = true }, "symfollow": unchanged, "nosymfollow,symfollow": unchanged,
	`context="a:b:c:s0:c1,c2"`: func(o *Options) { o.Contexts = `context="a:b:c:s0:c1,c2"` },
	"fscontext=a,defcontext=b": func(o *Options) { o.Contexts = `fscontext="a",defcontext="b"` },
	"defcontext=b":             func(o *Options) { o.Contexts = `defcontext="b"` }, "rootcontext=@r": func(o *Options) { o.Contexts = `rootcontext="@r"` },
	"fsc": unchanged, "nofsc": unchanged, "softreval": unchanged, "nosoftreval": unchanged, "namlen=255": unchanged, "addr=10.0.0.1": unchanged, "max_connect=16": unchanged,
	"trunkdiscovery": unchanged, "notrunkdiscovery": unchanged, "clientaddr=10.0.0.1": unchanged, "migration": unchanged, "nomigration": unchanged, "xprtsec=none": unchanged,
	"lazytime": unchanged, "nolazytime": unchanged, "dirsync": unchanged, "iversion": unchanged, "noiversion": unchanged, "mand": unchanged, "nomand": unchanged, "sloppy": unchanged, "nostrictatime": unchanged,
	"provider=roce": func(o *Options) {
		o.Provider, o.Warning = nfsclient.RoCE, "option provider is now called rdma"
	},
	"bsize=4096": unchanged, "rdma,rdma=auto,proto=rdma": func(o *Options) { o.Proto = RDMA },
	"zzz=1,sloppy,soft": func(o *Options) { o.Recovery = Soft },
}

// Every option of the table is read, and changes exactly what it is for.
func TestOptions(t *testing.T) {
	type change = func(*Options)
	none := unchanged
	cases := map[string]change{
		"proto=rdma": func(o *Options) { o.Proto = RDMA }, "proto=tcp": func(o *Options) { o.Proto = TCP },
		"proto=auto": func(o *Options) { o.Proto = Auto }, "rdma": func(o *Options) { o.Proto = RDMA }, "tcp": func(o *Options) { o.Proto = TCP },
		"proto=tcp6": func(o *Options) { o.Proto = TCP }, "proto=rdma6": func(o *Options) { o.Proto = RDMA },
		"port=20050": func(o *Options) { o.Port = 20050 }, "port=0": none, "mountport=635": func(o *Options) { o.MountPort = 635 }, "mountproto=tcp": none,
		"nconnect=4": func(o *Options) { o.NConnect = 4 }, "crc=on": none,
		"rdma=iwarp": func(o *Options) { o.Provider = nfsclient.IWARP }, "rdma=roce,proto=auto": func(o *Options) { o.Proto, o.Provider = Auto, nfsclient.RoCE }, "rdma=auto": none,
		"crc=auto": func(o *Options) { o.CRC = rnic.CRCAuto }, "crc=off": func(o *Options) { o.CRC = rnic.CRCOff },
		"resvport": none, "noresvport": func(o *Options) { o.AnyPort = true },
		"hard": none, "soft": func(o *Options) { o.Recovery = Soft }, "softerr": func(o *Options) { o.Recovery = SoftErr },
		"timeo=15": func(o *Options) { o.Timeo = 1500 * time.Millisecond }, "retrans=5": func(o *Options) { o.Retrans = 5 },
		"intr": none, "nointr": none, "fg": none, "bg": func(o *Options) { o.Background = true },
		"retry=3": func(o *Options) { o.Retry = 3 * time.Minute }, "retry=0": func(o *Options) { o.Retry = 0 },
		"rsize=1048576": func(o *Options) { o.ReadSize = 1 << 20 }, "rsize=5000": func(o *Options) { o.ReadSize = 4096 }, "rsize=1": func(o *Options) { o.ReadSize = 4096 },
		"wsize=99999999": func(o *Options) { o.WriteSize = 1 << 20 }, "wsize=65536": func(o *Options) { o.WriteSize = 65536 },
		"memory=64M":   func(o *Options) { o.Memory = 64 << 20 },
		"acregmin=1":   func(o *Options) { o.AttrFileMin = time.Second },
		"acregmin=100": func(o *Options) { o.AttrFileMin, o.AttrFileMax = 100*time.Second, 100*time.Second },
		"acregmax=90":  func(o *Options) { o.AttrFileMax = 90 * time.Second },
		"acregmax=1":   func(o *Options) { o.AttrFileMin, o.AttrFileMax = time.Second, time.Second },
		"acdirmin=40":  func(o *Options) { o.AttrDirMin = 40 * time.Second }, "acdirmax=5": func(o *Options) { o.AttrDirMin, o.AttrDirMax = 5*time.Second, 5*time.Second },
		"actimeo=7": func(o *Options) { setActimeo(o, 7*time.Second) }, "ac": none,
		"noac": func(o *Options) { o.NoAttrCache, o.Sync = true, true; setActimeo(o, 0) },
		"cto":  none, "nocto": func(o *Options) { o.NoCTO = true }, "lookupcache=all": none,
		"lookupcache=pos": func(o *Options) { o.Lookup = LookupPositive }, "lookupcache=positive": func(o *Options) { o.Lookup = LookupPositive },
		"lookupcache=none": func(o *Options) { o.Lookup = LookupNone },
		"rdirplus":         none, "nordirplus": func(o *Options) { o.NoReaddirPlus = true },
		"acl": none, "noacl": func(o *Options) { o.NoACL = true },
		"lock": none, "local_lock=none": none, "local_lock=posix": func(o *Options) { o.LocalPosix = true },
		"nolock":           func(o *Options) { o.LocalPosix, o.LocalFlock = true, true },
		"local_lock=flock": func(o *Options) { o.LocalFlock = true },
		"local_lock=all":   func(o *Options) { o.LocalPosix, o.LocalFlock = true, true },
		"nlmport=4045":     func(o *Options) { o.LockPort = 4045 },
		"sync":             func(o *Options) { o.Sync = true }, "async": none, "sec=sys": none,
		"uid=0": func(o *Options) { o.UID = ID{true, 0} }, "gid=1000": func(o *Options) { o.GID = ID{true, 1000} },
		"vers=3": none, "nfsvers=3": none, "v3": none, "mountvers=3": none, "sharecache": none, "nosharecache": none,
		"allow_other": func(o *Options) { o.AllowOther = true }, "noallow_other": func(o *Options) { o.OnlyMe = true },
		"default_permissions": func(o *Options) { o.DefaultPermissions = true },
		"ro":                  func(o *Options) { o.ReadOnly = true }, "rw": none, "nosuid": func(o *Options) { o.NoSuid = true }, "suid": none,
		"nodev": func(o *Options) { o.NoDev = true }, "dev": none, "noexec": func(o *Options) { o.NoExec = true }, "exec": none,
		"noatime": func(o *Options) { o.NoAtime = true }, "atime": none, "relatime": none, "norelatime": none, "strictatime": none, "noatime,strictatime": none,
		"nodiratime": none, "diratime": none, "defaults": none,
		"user":     func(o *Options) { o.NoSuid, o.NoDev, o.NoExec = true, true, true },
		"user=joe": func(o *Options) { o.NoSuid, o.NoDev, o.NoExec = true, true, true },
		"users":    func(o *Options) { o.NoSuid, o.NoDev, o.NoExec = true, true, true },
		"owner":    func(o *Options) { o.NoSuid, o.NoDev = true, true }, "group": func(o *Options) { o.NoSuid, o.NoDev = true, true },
		"nouser": none, "nousers": none, "noowner": none, "nogroup": none, "auto": none, "noauto": none, "nofail": none, "_netdev": none,
		"silent": none, "loud": none, "comment=x y": none, "x-systemd.automount": none, "x-gvfs-name=a b": none, "X-mount.mkdir": none, "": none,
		"local_lock=\"all\"": func(o *Options) { o.LocalPosix, o.LocalFlock = true, true }, `x-a="b,soft"`: none, "user,exec": func(o *Options) { o.NoSuid, o.NoDev = true, true },
		"ro,rw": none, "rw,ro": func(o *Options) { o.ReadOnly = true },
		"tcp,proto=tcp": func(o *Options) { o.Proto = TCP }, "vers=3,v3,nfsvers=3": none, "noac,actimeo=0": func(o *Options) { o.NoAttrCache, o.Sync = true, true; setActimeo(o, 0) },
		"actimeo=5,acdirmax=5": func(o *Options) { setActimeo(o, 5*time.Second) }, "nconnect=64": func(o *Options) { o.NConnect = 64 },
		"acregmin=9,acregmax=9": func(o *Options) { o.AttrFileMin, o.AttrFileMax = 9*time.Second, 9*time.Second },
		"memory=16M":            func(o *Options) { o.Memory = 16 << 20 }, "lock,local_lock=posix": func(o *Options) { o.LocalPosix = true },
		"nolock,local_lock=all": func(o *Options) { o.LocalPosix, o.LocalFlock = true, true },
		"noac,sync":             func(o *Options) { o.NoAttrCache, o.Sync = true, true; setActimeo(o, 0) },
	}
	maps.Copy(cases, lesser)
	maps.Copy(cases, edge)
	seen := make(map[string]bool)
	for in, change := range cases {
		want := defaults()
		change(want)
		got, err := Parse([]string{in}, false)
		if err != nil || *got != *want {
			t.Errorf("%q: %+v, %v\nwant %+v", in, got, err, want)
		}
		name, _, _ := strings.Cut(in, "=")
		seen[name] = true
	}
	for _, x := range options {
		if !seen[x.name] && x.kind != refused {
			t.Errorf("option %s has no case", x.name)
		}
	}
}

// A mistake is one line that names what was typed, and says what is accepted.
func TestMistakes(t *testing.T) {
	for in, want := range map[string]string{
		"sofft":                     `unknown option "sofft": did you mean soft?`,
		"rszie=3":                   `unknown option "rszie": did you mean rsize?`,
		"hrd":                       `unknown option "hrd": did you mean hard?`,
		"fb":                        `unknown option "fb": did you mean fg?`,
		"zzz=1":                     `unknown option "zzz": nfsrdma mount --help lists the options`,
		"proto=udp":                 "option proto=udp: NFS over UDP is not spoken: write proto=tcp or proto=rdma",
		"udp":                       "option udp: NFS over UDP is not spoken: write proto=tcp or proto=rdma",
		"proto=sctp":                "option proto=sctp: must be rdma, tcp or auto",
		"mounthost=":                "option mounthost=: must be the name or the address of a host",
		"mounthost=a,mountaddr=b":   "options mounthost=a and mountaddr=b contradict each other",
		"context=":                  "option context=: must be a label such as system_u:object_r:nfs_t:s0",
		"write=soon":                "option write=soon: must be lazy or eager or wait",
		"max_connect=17":            "option max_connect=17: must be a number from 1 to 16",
		"fsc,nofsc":                 "options fsc and nofsc contradict each other",
		"minorversion=1":            "option minorversion=1: NFS version 3 has no minor versions: leave it out",
		"xprtsec=tls":               "option xprtsec=tls: must be none",
		"port":                      "option port: a value is missing: write port=N",
		"timeo=5s":                  "option timeo=5s: must be tenths of a second (timeo=50 is 5 s)",
		"retry=2m":                  "option retry=2m: must be minutes from 0",
		"actimeo=1s":                "option actimeo=1s: must be seconds from 0",
		"nfsvers=4":                 "option nfsvers=4: only NFS version 3 is implemented: write vers=3",
		"port=x":                    "option port=x: must be a number from 0 to 65535",
		"port=+5":                   "option port=+5: must be a number from 0 to 65535",
		"port=70000":                "option port=70000: must be a number",
		"soft=1":                    "option soft=1: soft has no value: write soft alone",
		"rdma=siw":                  "option rdma=siw: must be auto, iwarp or roce",
		"rdma=iwarp,provider=roce":  "options rdma=iwarp and provider=roce contradict each other",
		"rdma,tcp":                  "options rdma and tcp contradict each other",
		"timeo=0":                   "option timeo=0: must be tenths of a second (timeo=50 is 5 s) from 1 to 6000",
		"crc=maybe":                 "option crc=maybe: must be on, auto, off or strict",
		"lookupcache=x":             "option lookupcache=x: must be all, pos or none",
		"memory=1M":                 "option memory=1M: must be a size of at least 16M",
		"uid=joe":                   "option uid=joe: must be a number: id -u NAME prints",
		"uid=4294967295":            "option uid=4294967295: must be a number",
		"sec=krb5":                  "option sec=krb5: only sec=sys is implemented, and no Kerberos: write sec=sys",
		"vers=4.2":                  "option vers=4.2: only NFS version 3 is implemented: write vers=3",
		"mountproto=rdma":           "option mountproto=rdma: must be tcp or tcp6 or udp or udp6",
		"remount,ro":                "option remount: options of a mount cannot be changed",
		"nolock,local_lock=none":    "options nolock and local_lock=none contradict each other",
		"lock,nolock":               "options lock and nolock contradict each other",
		"local_lock=maybe":          "option local_lock=maybe: must be all, flock, posix or none",
		"soft,hard":                 "options soft and hard contradict each other",
		"hard,softerr":              "options hard and softerr contradict each other",
		"proto=rdma,tcp":            "options proto=rdma and tcp contradict each other",
		"port=1,port=2":             "options port=1 and port=2 contradict each other",
		"bg,fg":                     "options bg and fg contradict each other",
		"cto,nocto":                 "options cto and nocto contradict each other",
		"ac,noac":                   "options ac and noac contradict each other",
		"sync,async":                "options sync and async contradict each other",
		"noac,async":                "options noac and async contradict each other",
		"noac,acregmin=3":           "options noac and acregmin=3 contradict each other",
		"actimeo=5,acdirmax=6":      "options actimeo=5 and acdirmax=6 contradict each other",
		"acregmin=9,acregmax=8":     "options acregmin=9 and acregmax=8 contradict each other: the minimum",
		"rdirplus,nordirplus":       "options rdirplus and nordirplus contradict each other",
		"acl,noacl":                 "options acl and noacl contradict each other",
		"resvport,noresvport":       "options resvport and noresvport contradict each other",
		"allow_other,noallow_other": "options allow_other and noallow_other contradict each other",
	} {
		wantMistake(t, in, want)
	}
	if o, err := Parse([]string{"rw", "zzz=1,soft"}, true); err != nil || o.Recovery != Soft {
		t.Errorf("sloppy: %+v, %v", o, err)
	}
}

// wantMistake checks the one line that says what is wrong with a list.
func wantMistake(t *testing.T, list, want string) {
	t.Helper()
	switch _, err := Parse([]string{list}, false); {
	case err == nil:
		t.Errorf("%q: no error, want %s", list, want)
	case !strings.Contains(err.Error(), want):
		t.Errorf("%q: %v\nwant %s", list, err, want)
	case strings.Contains(err.Error(), "\n"):
		t.Errorf("%q: more than one line: %v", list, err)
	}
}

// TestMistakesOfValues: quotes, and the edges of numbers and words.
func TestMistakesOfValues(t *testing.T) {
	for in, want := range map[string]string{
		`comment=5"disk,nosuid`:            `option comment=5"disk,nosuid: the quote is not closed`,
		`x-a="b,ro`:                        `option x-a="b,ro: the quote is not closed`,
		`ro,"`:                             `option ": the quote is not closed`,
		"rdma=":                            "option rdma=: a value is missing: write rdma alone, or rdma[=auto|iwarp|roce]",
		`tcp,rdma=""`:                      `option rdma="": a value is missing`,
		"user=":                            "option user=: a value is missing: write user alone, or user[=NAME]",
		"mounthost=[]":                     "option mounthost=[]: must be the name or the address of a host",
		"mounthost=[::1":                   "option mounthost=[::1: must be",
		"mounthost=a]":                     "option mounthost=a]: must be",
		"mounthost=a/b":                    "option mounthost=a/b: must be",
		"mounthost=a b":                    "option mounthost=a b: must be",
		"mounthost=a\x01b":                 "must be the name or the address of a host",
		"port=-0":                          "option port=-0: must be a number from 0 to 65535",
		"port=":                            "option port=: must be a number from 0 to 65535",
		"port=65536":                       "option port=65536: must be a number from 0 to 65535",
		"port=0x801":                       "option port=0x801: must be a number",
		"port=1_0":                         "option port=1_0: must be a number",
		"port= 1":                          "option port= 1: must be a number",
		"mountport=65536":                  "option mountport=65536: must be a number from 0 to 65535",
		"nlmport=65536":                    "option nlmport=65536: must be a number from 0 to 65535",
		"nconnect=0":                       "option nconnect=0: must be a number from 1 to 64",
		"nconnect=65":                      "option nconnect=65: must be a number from 1 to 64",
		"timeo=6001":                       "option timeo=6001: must be tenths of a second",
		"timeo=-1":                         "option timeo=-1: must be tenths of a second",
		"retrans=1001":                     "option retrans=1001: must be a number from 0 to 1000",
		"retrans=-1":                       "option retrans=-1: must be a number from 0 to 1000",
		"retry=1048577":                    "option retry=1048577: must be minutes from 0 to 1048576",
		"rsize=0":                          "option rsize=0: must be a number from 1 to 2147483647",
		"wsize=2147483648":                 "option wsize=2147483648: must be a number from 1 to 2147483647",
		"wsize=1M":                         "option wsize=1M: must be a number",
		"actimeo=1073741825":               "option actimeo=1073741825: must be seconds from 0 to 1073741824",
		"rsize=99999999999999999999":       "must be a number from 1 to 2147483647",
		"memory=16777215":                  "option memory=16777215: must be a size of at least 16M",
		"memory=":                          "option memory=: must be a size",
		"memory=99999999999999999G":        "must be a size",
		"uid=-1":                           "option uid=-1: must be a number",
		"gid=+1":                           "option gid=+1: must be a number",
		"gid=4294967296":                   "option gid=4294967296: must be a number",
		"uid=1,uid=2":                      "options uid=1 and uid=2 contradict each other",
		"proto=":                           "option proto=: must be rdma, tcp or auto",
		"proto=RDMA":                       "option proto=RDMA: must be rdma, tcp or auto",
		"proto=auto,rdma":                  "options proto=auto and rdma contradict each other",
		"proto=tcp,proto=rdma":             "options proto=tcp and proto=rdma contradict each other",
		"sec=":                             "option sec=: only sec=sys",
		"sec=sys6":                         "option sec=sys6: only sec=sys",
		"lookupcache=pos,lookupcache=none": "options lookupcache=pos and lookupcache=none contradict each other",
		"local_lock=posix,nolock":          "options nolock and local_lock=posix contradict each other",
		"noac,actimeo=1":                   "options noac and actimeo=1 contradict each other",
		"acdirmax=6,actimeo=5":             "options actimeo=5 and acdirmax=6 contradict each other",
		"acdirmin=9,acdirmax=8":            "options acdirmin=9 and acdirmax=8 contradict each other: the minimum",
		`context=a"b`:                      "the quote is not closed",
		`context=a"b"c`:                    "must be a label such as",
		"context=a\x00b":                   "must be a label such as",
		"context=a,context=b":              "options context=a and context=b contradict each other",
		"=":                                `unknown option ""`,
		"=ro":                              `unknown option ""`,
		"RO":                               `unknown option "RO"`,
	} {
		wantMistake(t, in, want)
	}
}

// timeo × retrans bounds a call of a soft mount, and none of a hard one.
func TestClientOptions(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"": -1, "timeo=10": -1, "soft": 2 * time.Minute, "soft,timeo=10": 2 * time.Second, "softerr,timeo=50,retrans=3": 15 * time.Second, "soft,timeo=5,retrans=0": time.Second / 2,
	} {
		o, err := Parse([]string{in}, false)
		if err != nil {
			t.Fatal(err)
		}
		s, err := o.Source("h:/x")
		if err != nil {
			t.Fatal(err)
		}
		if c := o.Client(s.Targets[0]); c.CallTimeout != want || c.RetryTimeout != o.Timeo {
			t.Errorf("%q: %v, %v", in, c.CallTimeout, c.RetryTimeout)
		}
	}
	o, _ := Parse([]string{"uid=77,gid=78,noresvport,mounthost=m,rsize=65536,wsize=32768"}, false)
	s, _ := o.Source("h:/x")
	c := o.Client(s.Targets[0])
	if c.Cred == nil || c.Cred.UID != 77 || c.Cred.GID != 78 || len(c.Cred.GIDs) != 0 || c.Dial == nil || c.MountHost != "m" || c.ReadSize != 65536 || c.WriteSize != 32768 {
		t.Errorf("%+v", c)
	}
}

// TestOwner: a mount as another user has none of the groups of the user that mounts.
func TestOwner(t *testing.T) {
	me := transport.Cred{UID: 5, GID: 6, GIDs: []uint32{7, 8}}
	for in, want := range map[string]transport.Cred{
		"uid=5":       me,
		"uid=9":       {UID: 9, GID: 6},
		"gid=9":       {UID: 5, GID: 9, GIDs: me.GIDs},
		"uid=0,gid=0": {},
	} {
		o, err := Parse([]string{in}, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.owned(me); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", in, got, want)
		}
		s, _ := o.Source("h:/x")
		if c := o.Client(s.Targets[0]); c.Cred == nil {
			t.Errorf("%s: no credential, want one", in)
		}
	}
}

// TestHelpIsWrapped: a line has as many names, and as many words, as fit.
func TestHelpIsWrapped(t *testing.T) {
	a, b, c := strings.Repeat("a", 40), strings.Repeat("b", helpWidth-helpIndent-41), strings.Repeat("c", 9)
	var got strings.Builder
	long := strings.Repeat("d", helpWidth-helpColumn-len("refused: "))
	appendHelp(&got, []string{a, b, c}, refused, long+" e")
	want := fmt.Sprintf("    %s %s\n    %-21s refused: %s\n%26se\n", a, b, c, long, "")
	if got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
	got.Reset()
	appendHelp(&got, []string{a, b + "b"}, done, "x")
	if want := fmt.Sprintf("    %s\n    %s\n%26sx\n", a, b+"b", ""); got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
}

// What is mounted is written as mount(8) and as the other commands have it.
func TestSources(t *testing.T) {
	for in, want := range map[string]string{
		"h:/x":                             "h:/x rdma h:20049",
		"h:/":                              "h:/ rdma h:20049",
		"h:/x/y/":                          "h:/x/y rdma h:20049",
		"[fe80::1%eth0]:/x":                "[fe80::1%eth0]:/x rdma [fe80::1%eth0]:20049",
		"::1:/x":                           "[::1]:/x rdma [::1]:20049",
		"nfs://h/x":                        "h:/x tcp h:2049",
		"nfsrdma://[::1]:99/x":             "[::1]:/x rdma [::1]:99",
		"h:/x proto=tcp":                   "h:/x tcp h:2049",
		"h:/x tcp,port=77":                 "h:/x tcp h:77",
		"h:/x proto=auto":                  "h:/x rdma h:20049 tcp h:2049",
		"nfsrdma://h:88/x port=88":         "h:/x rdma h:88",
		"nfsrdma://h/a%20b%23":             "h:/a b# rdma h:20049",
		"h:/x port=1,proto=auto":           "! a port and option proto=auto contradict each other",
		"nfs://h/x proto=rdma":             "! nfs://h/x is over TCP, which contradicts option proto=rdma",
		"nfsrdma://h:88/x port=89":         "! option port=89 and the port of nfsrdma://h:88/x contradict each other",
		"a,b:/x":                           "a,b:/x rdma a:20049,b:20049",
		"nfs://a,[::1]:7/x/":               "a,[::1]:7:/x tcp a:2049,[::1]:7",
		"a,b:/x tcp,port=77":               "a,b:/x tcp a:77,b:77",
		"a:88,[fe80::1]:99,c:/x ":          "a:88,[fe80::1]:99,c:/x rdma a:88,[fe80::1]:99,c:20049",
		"a,b,c:/x proto=auto":              "a,b,c:/x rdma a:20049,b:20049,c:20049 tcp a:2049,b:2049,c:2049",
		"a,b:88:/x port=89":                "! option port=89 and the port of a,b:88:/x contradict each other",
		"a,b:88:/x proto=auto":             "! a port and option proto=auto contradict",
		"a,,b:/x":                          `! target "a,,b:/x": no host at a comma`,
		"/x":                               "! /x: not an export: write SERVER:/export",
		"h":                                "! h: not an export",
		"http://h/x":                       `! target "http://h/x": scheme`,
		"nfsrdma://h:88/x proto=auto":      "! a port and option proto=auto contradict",
		"nfsrdma://h/x proto=tcp,port=100": "h:/x tcp h:100",
	} {
		spec, list, _ := strings.Cut(in, " ")
		o, err := Parse([]string{list}, false)
		if err != nil {
			t.Fatal(err)
		}
		s, err := o.Source(spec)
		got := s.Name
		for _, x := range s.Targets {
			got += " " + x.Transport.String() + " " + x.Addr()
		}
		if err != nil {
			got = "! " + err.Error()
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// Help has each option that means something, in lines of a terminal.
func TestHelp(t *testing.T) {
	help := Help()
	for _, name := range names() {
		if !strings.Contains(help, "\n    "+name) && !strings.HasPrefix(help, "    "+name) {
			t.Errorf("no help on %s", name)
		}
	}
	if n := len(Completions()); n != len(names()) {
		t.Errorf("%d completions of %d names", n, len(names()))
	}
	for _, begin := range []string{"port=\t", "hard\t"} {
		if !slices.ContainsFunc(Completions(), func(s string) bool { return strings.HasPrefix(s, begin) }) {
			t.Errorf("no completion begins with %q", begin)
		}
	}
}

// Each option that is accepted or refused by name is in the help text, which the manual pages have, and no other.
func TestEachOptionIsDocumented(t *testing.T) {
	words := strings.Fields(Help())
	documented := make(map[string]int)
	for _, x := range options {
		if x.kind != renamed && !slices.Contains(words, x.usage()) {
			t.Errorf("the help text lacks %s", x.usage())
		}
		if x.help == "" {
			t.Errorf("option %s has no help", x.name)
		}
		if documented[x.name]++; documented[x.name] > 1 {
			t.Errorf("option %s is in the table %d times", x.name, documented[x.name])
		}
	}
}

// Each option of nfs(5) and mount(8) is in the table: done, ignored with a reason, or refused with
// an alternative.
func TestOptionsOfTheManualPages(t *testing.T) {
	text, err := os.ReadFile("testdata/options")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[kind]int{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line, "=")
		i := slices.IndexFunc(options, func(x option) bool { return x.name == name })
		if i < 0 {
			t.Errorf("%s is not in the table", name)
			continue
		}
		x := &options[i]
		kinds[x.kind]++
		_, err := Parse([]string{line}, false)
		if want := x.kind == refused; (err != nil) != want {
			t.Errorf("%s: %v; refused by the table: %v", line, err, want)
		}
		switch {
		case x.kind == ignored && !strings.HasPrefix(x.help, "accepted: "):
			t.Errorf("%s is ignored without a reason: %s", name, x.help)
		case x.kind == refused && !strings.HasSuffix(err.Error(), x.help):
			t.Errorf("%s: %v, want %s", name, err, x.help)
		}
	}
	if kinds[done] < 30 || kinds[ignored] < 30 || kinds[refused] < 3 {
		t.Errorf("%d done, %d ignored, %d refused", kinds[done], kinds[ignored], kinds[refused])
	}
}

// What the documents mount can be mounted: the options of each command line and of each line of fstab are accepted.
func TestOptionsOfTheDocuments(t *testing.T) {
	lists := 0
	docs, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range append(docs, "../../../README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			i := slices.Index(f, "-o") + 1
			switch {
			case len(f) == 6 && f[2] == "nfsrdma": // a line of fstab
				i = 3
			case i == 0 || i == len(f) || !strings.Contains(line, "nfsrdma mount"):
				continue
			}
			lists++
			if _, err := Parse([]string{strings.Trim(f[i], "`")}, false); err != nil {
				t.Errorf("%s: %s: %v", doc, line, err)
			}
		}
	}
	if lists < 4 {
		t.Errorf("%d lists of options found", lists)
	}
}
